"""The remoting protocol as a peer speaks it: both header encodings, one connection at a time.

Written apart from the code under test on purpose, so that a mistake there cannot hide here.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

TIMEOUT_S = 10.0
_HEAD = Struct(">ii")  # length, codec and header length
_FIXED = Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT = Struct(">i")
_SHORT = Struct(">h")
_ONEWAY = 2
_OTHER = 7  # language code


@dataclass(frozen=True, slots=True)
class Request:
    """``ext`` None leaves the member out of a JSON header, ``extra`` goes into it."""

    code: int
    ext: Mapping[str, str | int] | None = None
    body: bytes = b""
    version: int = 513
    binary: bool = False
    oneway: bool = False
    extra: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    opaque: int
    binary: bool
    header: bytes
    body: bytes


class Connection:
    """Raises EOFError when the server hangs up, TimeoutError when it says nothing."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""
        self._opaque = 0

    def send(self, *requests: Request) -> list[int]:
        """Send in one go; returns the opaque of each."""
        opaques = []
        frames = []
        for request in requests:
            self._opaque += 1
            opaques.append(self._opaque)
            frames.append(_frame(request, self._opaque))
        self._socket.sendall(b"".join(frames))
        return opaques

    def receive(self) -> Reply:
        (length,) = _INT.unpack(self._take(4))
        frame = self._take(length)
        header_end = 4 + int.from_bytes(frame[1:4], "big")
        header, binary = frame[4:header_end], frame[0] == 1
        opaque = _FIXED.unpack_from(header)[3] if binary else json.loads(header)["opaque"]
        return Reply(opaque, binary, header, frame[header_end:])

    def call(self, request: Request) -> Reply:
        (opaque,) = self.send(request)
        reply = self.receive()
        if reply.opaque != opaque:
            raise AssertionError(f"an answer to {reply.opaque} came for request {opaque}")
        return reply

    def call_all(self, requests: list[Request]) -> list[Reply]:
        """All requests at once; a server may answer in any order."""
        opaques = self.send(*requests)
        replies = {reply.opaque: reply for reply in (self.receive() for _ in requests)}
        return [replies[opaque] for opaque in opaques]

    def close(self) -> None:
        """Say goodbye and wait until the server has closed its side, too."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(65536):
                pass
        except OSError:
            pass
        self._socket.close()

    def _take(self, count: int) -> bytes:
        while len(self._unread) < count:
            piece = self._socket.recv(262_144)
            if not piece:
                raise EOFError("the server closed the connection")
            self._unread += piece
        taken, self._unread = self._unread[:count], self._unread[count:]
        return taken


def _frame(request: Request, opaque: int) -> bytes:
    flag = _ONEWAY if request.oneway else 0
    if request.binary:
        header = _binary_header(request, opaque, flag)
    else:
        members = {
            "code": request.code,
            "extFields": None if request.ext is None else dict(request.ext),
            "flag": flag,
            "language": "OTHER",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": request.version,
            **(request.extra or {}),
        }
        header = json.dumps({k: v for k, v in members.items() if v is not None}).encode()
    codec = 1 << 24 if request.binary else 0
    return (
        _HEAD.pack(4 + len(header) + len(request.body), codec | len(header)) + header + request.body
    )


def _binary_header(request: Request, opaque: int, flag: int) -> bytes:
    entries = b""
    for key, value in (request.ext or {}).items():
        key_bytes, value_bytes = key.encode(), str(value).encode()
        entries += _SHORT.pack(len(key_bytes)) + key_bytes
        entries += _INT.pack(len(value_bytes)) + value_bytes
    fixed = _FIXED.pack(request.code, _OTHER, request.version, opaque, flag, 0)
    return fixed + _INT.pack(len(entries)) + entries


def binary_members(header: bytes) -> dict[str, object]:
    """The members of a binary header under the names the JSON one has for them."""
    code, language, version, _opaque, flag, remark_length = _FIXED.unpack_from(header)
    position = _FIXED.size
    remark = header[position : position + remark_length].decode()
    position += remark_length + 4
    ext: dict[str, str] = {}
    while position < len(header):
        (key_length,) = _SHORT.unpack_from(header, position)
        key = header[position + 2 : position + 2 + key_length].decode()
        position += 2 + key_length
        (value_length,) = _INT.unpack_from(header, position)
        ext[key] = header[position + 4 : position + 4 + value_length].decode()
        position += 4 + value_length
    return {
        "code": code,
        "language": language,
        "version": version,
        "flag": flag,
        "remark": remark or None,
        "extFields": ext,
    }
