"""The remoting protocol spelt out by hand: frames built, cut and sent as a test needs them.

Written apart from the code under test on purpose, so that a mistake there cannot hide here.
``Peer`` is for nodes in the test's own event loop, ``BlockingPeer`` for nodes in a process.
"""

import asyncio
import json
import re
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

PUT_KV, GET_KV, DELETE_KV, LIST_KV = 100, 101, 102, 219
REGISTER, UNREGISTER, QUERY_DATA_VERSION, HEARTBEAT, MEMBER_GROUP = 103, 104, 322, 904, 901
ROUTE, CLUSTER_INFO, ALL_TOPICS, TOPICS_OF_CLUSTER, SYSTEM_TOPICS = 105, 106, 206, 224, 304
WIPE_WRITE, ADD_WRITE, DELETE_TOPIC, REGISTER_TOPIC = 205, 327, 216, 217
UPDATE_CONFIG, GET_CONFIG = 318, 319
MIN_BROKER_CHANGED = 905

SUCCESS, SYSTEM_ERROR, SYSTEM_BUSY, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 16
TOPIC_NOT_EXIST, QUERY_NOT_FOUND, GO_AWAY = 17, 22, 1500

ONEWAY, RESPONSE = 2, 1
V5_5_0 = 513
JSON, BINARY = 0, 1

ANSWER_TIMEOUT_S = 60.0


def i16(number: int) -> bytes:
    return struct.pack(">h", number)


def i32(number: int) -> bytes:
    return struct.pack(">i", number)


def u32(number: int) -> bytes:
    return struct.pack(">I", number)


def frame(header: bytes, body: bytes = b"", *, codec: int = JSON) -> bytes:
    word = codec << 24 | len(header)
    return b"".join([u32(4 + len(header) + len(body)), u32(word), header, body])


def request(
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
    version: int = V5_5_0,
) -> bytes:
    """One request frame with a JSON header, its members in Java's order."""
    header = {
        "code": code,
        "extFields": dict(ext_fields or {}),
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    try:
        return frame(text.encode(), body)
    except UnicodeEncodeError:  # half of a surrogate pair can only be escaped
        return frame(json.dumps(header, separators=(",", ":")).encode(), body)


def binary_request(
    code: int,
    ext_fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    opaque: int = 1,
    flag: int = 0,
    version: int = V5_5_0,
) -> bytes:
    """The same in the ROCKETMQ header encoding."""
    pairs = [
        (key.encode(errors="surrogatepass"), value.encode(errors="surrogatepass"))
        for key, value in (ext_fields or {}).items()
    ]
    entries = b"".join(i16(len(key)) + key + i32(len(value)) + value for key, value in pairs)
    header = b"".join(
        [
            i16(code) + b"\0" + i16(version),  # code, language, version
            i32(opaque) + i32(flag),
            i32(0),  # no remark
            i32(len(entries)) + entries,
        ]
    )
    return frame(header, body, codec=BINARY)


@dataclass(frozen=True, slots=True)
class Answer:
    """``ext_fields`` is None when the answer has none at all."""

    code: int
    flag: int
    opaque: int
    version: int
    remark: str | None
    ext_fields: dict[str, str] | None
    body: bytes
    codec: int

    @property
    def value(self) -> Any:
        return loads_with_bare_keys(self.body)


def loads_with_bare_keys(text: bytes) -> Any:
    """Read fastjson's form of a map with integer keys: ``{0:"a"}`` is not JSON."""
    return json.loads(re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', text))


def answer_of(content: bytes) -> Answer:
    """The answer in a frame without its length word; raises ValueError for what is none."""
    (word,) = struct.unpack_from(">I", content)
    codec, length = word >> 24, word & 0xFFFFFF
    header, body = content[4 : 4 + length], content[4 + length :]
    if len(header) != length:
        raise ValueError(f"a header of {length} bytes in {len(content)}")
    if codec == JSON:
        members = json.loads(header)
        return Answer(
            code=members["code"],
            flag=members["flag"],
            opaque=members["opaque"],
            version=members["version"],
            remark=members.get("remark"),
            ext_fields=members.get("extFields"),
            body=body,
            codec=JSON,
        )
    if codec == BINARY:
        return _binary_answer(header, body)
    raise ValueError(f"header encoding {codec}")


def _binary_answer(header: bytes, body: bytes) -> Answer:
    code, _, version, opaque, flag, size = struct.unpack_from(">hBhiii", header)
    position = 17
    remark = header[position : position + size].decode() if size else None
    position += size
    (rest,) = struct.unpack_from(">i", header, position)
    position += 4
    end = position + rest
    ext_fields: dict[str, str] = {}
    while position < end:
        (size,) = struct.unpack_from(">h", header, position)
        key = header[position + 2 : position + 2 + size].decode()
        position += 2 + size
        (size,) = struct.unpack_from(">i", header, position)
        ext_fields[key] = header[position + 4 : position + 4 + size].decode()
        position += 4 + size
    return Answer(code, flag, opaque, version, remark, ext_fields, body, BINARY)


def answers_in(stream: bytes) -> list[Answer]:
    """All answers of a stream that must hold whole frames and nothing else."""
    found: list[Answer] = []
    while stream:
        (length,) = struct.unpack_from(">I", stream)
        if len(stream) < 4 + length:
            raise ValueError(f"{len(stream)} bytes are left of a frame of {length}")
        found.append(answer_of(stream[4 : 4 + length]))
        stream = stream[4 + length :]
    return found


class Hangup(Exception):
    """The node closed the connection."""


class Peer:
    """``async with Peer(node.port) as peer: answer = await peer.call(ROUTE, topic="T")``."""

    def __init__(
        self,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        before: bytes = b"",
        source: str | None = None,
    ) -> None:
        """``before`` is sent as soon as the connection is open, ahead of any TLS handshake.

        ``source`` is the address to come from, of 127.0.0.0/8.
        """
        self._port = port
        self._source = (source, 0) if source is not None else None
        self._context = context
        self._before = before
        self._opaque = 0

    async def __aenter__(self) -> "Peer":
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._port, limit=1 << 26, local_addr=self._source
        )
        if self._before:
            self._writer.write(self._before)
            await self._writer.drain()
        if self._context is not None:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._writer.start_tls(self._context, server_hostname="localhost")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def address(self) -> str:
        """How the node calls this peer in its log."""
        host, port = self._writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    @property
    def socket(self) -> socket.socket:
        found: socket.socket = self._writer.get_extra_info("socket")
        return found

    @property
    def certificate(self) -> bytes:
        """What the node showed, DER."""
        shown: bytes = self._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown

    def send_soon(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def unsent(self) -> int:
        """Bytes the network did not take yet."""
        return self._writer.transport.get_write_buffer_size()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Answer:
        """The next answer; raises Hangup."""
        try:
            async with asyncio.timeout(timeout_s):
                (length,) = struct.unpack(">I", await self._reader.readexactly(4))
                return answer_of(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Hangup(str(error)) from error

    async def call(
        self,
        code: int,
        body: bytes = b"",
        *,
        version: int = V5_5_0,
        flag: int = 0,
        **ext_fields: str,
    ) -> Answer:
        return await self.ask(code, ext_fields, body, version=version, flag=flag)

    async def ask(
        self,
        code: int,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = V5_5_0,
        flag: int = 0,
    ) -> Answer:
        """``call`` with ext fields that are no Python names."""
        self._opaque += 1
        await self.send(
            request(code, ext_fields, body, opaque=self._opaque, flag=flag, version=version)
        )
        answer = await self.read()
        assert answer.opaque == self._opaque, f"asked {self._opaque}, answered {answer.opaque}"
        return answer

    async def hung_up(self, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
        """Wait for the node to close; what it sent before is returned."""
        got = bytearray()
        try:
            async with asyncio.timeout(timeout_s):
                while data := await self._reader.read(1 << 16):
                    got += data
        except ConnectionError:
            pass
        return bytes(got)

    def pause_reading(self) -> None:
        """Leave what the node sends in the network's buffers."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume_reading(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    def finish_sending(self) -> None:
        """Close our half: the node sees the end of the stream."""
        self._writer.write_eof()

    def abort(self) -> None:
        """Vanish with a reset instead of a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        if self.unsent:
            self._writer.transport.abort()  # a node that does not read must not keep us here
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            pass  # closed by the other side first


class BlockingPeer:
    """``source`` is the address to come from, another one of this machine."""

    def __init__(
        self, port: int, *, timeout_s: float = ANSWER_TIMEOUT_S, source: str = "127.0.0.1"
    ) -> None:
        self.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=timeout_s, source_address=(source, 0)
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opaque = 0

    def __enter__(self) -> "BlockingPeer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()

    @property
    def address(self) -> str:
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> Answer:
        """The next answer; raises Hangup."""
        (length,) = struct.unpack(">I", self._take(4))
        return answer_of(self._take(length))

    def _take(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            try:
                piece = self.socket.recv(min(count - len(taken), 1 << 20))
            except ConnectionError as error:
                raise Hangup(str(error)) from error
            if not piece:
                raise Hangup(f"closed after {len(taken)} of {count} bytes")
            taken += piece
        return bytes(taken)

    def call(
        self, code: int, body: bytes = b"", *, version: int = V5_5_0, **ext_fields: str
    ) -> Answer:
        return self.ask(code, ext_fields, body, version=version)

    def ask(
        self,
        code: int,
        ext_fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = V5_5_0,
    ) -> Answer:
        self._opaque += 1
        self.send(request(code, ext_fields, body, opaque=self._opaque, version=version))
        answer = self.read()
        assert answer.opaque == self._opaque, f"asked {self._opaque}, answered {answer.opaque}"
        return answer

    def hung_up(self) -> bytes:
        """Wait for the node to close; what it sent before is returned."""
        got = bytearray()
        try:
            while data := self.socket.recv(1 << 16):
                got += data
        except ConnectionError:
            pass
        return bytes(got)


def exchange(port: int, data: bytes, *, timeout_s: float = ANSWER_TIMEOUT_S) -> bytes:
    """Send ``data`` and the end of the stream, return all that comes back until the node closes.

    A node that has seen enough may close while we still send; what it said before counts.
    """
    with BlockingPeer(port, timeout_s=timeout_s) as peer:
        try:
            peer.send(data)
            peer.socket.shutdown(socket.SHUT_WR)
        except (ConnectionError, BrokenPipeError):
            pass
        except OSError as error:
            if error.errno != 107:  # not connected any more
                raise
        return peer.hung_up()
