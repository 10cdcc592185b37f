"""A TCP proxy that keeps every frame passing between a real peer and a name server."""

import base64
import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from support.waiting import wait_for

RESPONSE_FLAG = 1

# The binary header carries the position in this list.
LANGUAGES = ("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One whole frame, length word included, with what it says."""

    frame: bytes
    connection: int
    decoded: Mapping[str, Any]

    @property
    def code(self) -> int:
        return int(self.decoded["code"])

    @property
    def is_response(self) -> bool:
        return bool(self.decoded["flag"] & RESPONSE_FLAG)

    def ext_field(self, name: str) -> str | None:
        value = (self.decoded.get("extFields") or {}).get(name)
        return None if value is None else str(value)

    @property
    def body(self) -> str:
        """Body as text; empty when there is none or it is binary."""
        return str(self.decoded.get("body", ""))


class RecordingProxy:
    """Listens on a port of its own and passes everything on to ``target``."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._frames: list[Recorded] = []
        self._lock = threading.Lock()
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "RecordingProxy":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            for each in self._sockets:
                _hang_up(each)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def frames(self) -> list[Recorded]:
        with self._lock:
            return list(self._frames)

    def request(self, what: str, wanted: Callable[[Recorded], bool]) -> Recorded:
        """The first request that is ``wanted``, waited for if it has not come by yet."""

        def look() -> Recorded | None:
            # OTHER is the language of the tests' own requests, which may pass here as well.
            requests = (
                frame
                for frame in self.frames()
                if not frame.is_response and frame.decoded["language"] != "OTHER"
            )
            return next(filter(wanted, requests), None)

        found = wait_for(what, look, until=lambda seen: seen is not None, timeout_s=90)
        assert found is not None
        return found

    def answer_to(self, request: Recorded) -> Recorded:
        def look() -> Recorded | None:
            answers = (frame for frame in self.frames() if frame.is_response)
            return next((each for each in answers if _answers(each, request)), None)

        found = wait_for("an answer", look, until=lambda seen: seen is not None)
        assert found is not None
        return found

    def _accept(self) -> None:
        connection = 0
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(self._target)
            with self._lock:
                self._sockets += [peer, server]
            for source, sink in ((peer, server), (server, peer)):
                arguments = (source, sink, connection)
                threading.Thread(target=self._pump, args=arguments, daemon=True).start()
            connection += 1

    def _pump(self, source: socket.socket, sink: socket.socket, connection: int) -> None:
        unread = b""
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
                unread += piece
                while len(unread) >= 4 and len(unread) >= 4 + int.from_bytes(unread[:4], "big"):
                    end = 4 + int.from_bytes(unread[:4], "big")
                    frame, unread = unread[:end], unread[end:]
                    recorded = Recorded(frame, connection, decode_frame(frame))
                    with self._lock:
                        self._frames.append(recorded)
        except OSError:
            pass  # a peer was killed; both sides are hung up below
        finally:
            _hang_up(source)
            _hang_up(sink)


def decode_frame(frame: bytes) -> dict[str, Any]:
    """Header fields and body of one frame, with its length word."""
    header_end = 8 + int.from_bytes(frame[5:8], "big")
    header, body = frame[8:header_end], frame[header_end:]
    if frame[4] == 1:
        decoded: dict[str, Any] = {"encoding": "ROCKETMQ", **_decode_binary_header(header)}
    else:
        decoded = {"encoding": "JSON", **json.loads(header)}
    if body:
        try:
            decoded["body"] = body.decode()
        except UnicodeDecodeError:
            decoded["bodyBase64"] = base64.b64encode(body).decode()
    return decoded


def _decode_binary_header(header: bytes) -> dict[str, Any]:
    remark_end = 17 + int.from_bytes(header[13:17], "big")
    ext_fields, at = dict[str, str](), remark_end + 4
    while at < len(header):
        key_end = at + 2 + int.from_bytes(header[at : at + 2], "big")
        value_at = key_end + 4
        value_end = value_at + int.from_bytes(header[key_end:value_at], "big")
        ext_fields[header[at + 2 : key_end].decode()] = header[value_at:value_end].decode()
        at = value_end
    decoded: dict[str, Any] = {
        "code": int.from_bytes(header[0:2], "big", signed=True),
        "language": LANGUAGES[header[2]],
        "version": int.from_bytes(header[3:5], "big", signed=True),
        "opaque": int.from_bytes(header[5:9], "big", signed=True),
        "flag": int.from_bytes(header[9:13], "big", signed=True),
    }
    if remark_end > 17:
        decoded["remark"] = header[17:remark_end].decode()
    if ext_fields:
        decoded["extFields"] = ext_fields
    return decoded


def _answers(answer: Recorded, request: Recorded) -> bool:
    same_connection = answer.connection == request.connection
    return same_connection and answer.decoded["opaque"] == request.decoded["opaque"]


def _hang_up(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # already down
    each.close()
