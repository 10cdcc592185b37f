"""A server that does nothing: the fastest answer uvloop can give, to calibrate the generator.

Every frame is answered with the same bytes, ``--answer-bytes`` long as a frame, into which only
the ten digits of the request's opaque are copied. It assumes what ``Load.java`` promises: all
requests of a connection have the same length and the opaque at the same place.
"""

import argparse
import asyncio
from typing import cast

import uvloop

OPAQUE_KEY = b'"opaque":'
OPAQUE_DIGITS = 10


def answer_around_opaque(frame_bytes: int) -> tuple[bytes, bytes]:
    """Build an answer frame of ``frame_bytes``, cut where the opaque belongs."""
    before = b'{"code":0,"flag":1,"language":"JAVA","opaque":'
    after = b',"serializeTypeCurrentRPC":"JSON","version":513}'
    header_bytes = len(before) + OPAQUE_DIGITS + len(after)
    body_bytes = max(0, frame_bytes - 8 - header_bytes)
    prefix = (4 + header_bytes + body_bytes).to_bytes(4, "big") + header_bytes.to_bytes(4, "big")
    return prefix + before, after + b"." * body_bytes


class NullProtocol(asyncio.Protocol):
    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._after = after
        self._between = after + before
        self._frame_bytes = 0
        self._opaque_at = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        if not self._frame_bytes:
            self._opaque_at = data.find(OPAQUE_KEY) + len(OPAQUE_KEY)
            self._frame_bytes = 4 + int.from_bytes(data[:4], "big")
        whole = len(data) // self._frame_bytes * self._frame_bytes
        self._rest = data[whole:]
        opaques = [
            data[at : at + OPAQUE_DIGITS] for at in range(self._opaque_at, whole, self._frame_bytes)
        ]
        if opaques:
            # One writev of pieces that exist already: joining 64 answers would copy 200 KB first.
            pieces = [self._between] * (2 * len(opaques) + 1)
            pieces[0], pieces[-1] = self._before, self._after
            pieces[1::2] = opaques
            self._transport.writelines(pieces)


async def serve(port: int, frame_bytes: int) -> None:
    before, after = answer_around_opaque(frame_bytes)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: NullProtocol(before, after), "127.0.0.1", port)
    print(f"ready on 127.0.0.1:{port}", flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--answer-bytes", type=int, default=3400)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.port, arguments.answer_bytes))


if __name__ == "__main__":
    main()
