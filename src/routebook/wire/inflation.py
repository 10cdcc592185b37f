"""Inflation: the length-prefixed pieces of a zlib stream, inflated as they are taken.

Nothing is inflated that is not wanted yet: a body of a few KiB that stands for gigabytes costs
what is read of it before it is refused.
"""

import zlib
from struct import Struct

from routebook.slices import Slices
from routebook.wire.errors import BadRequest, BodyTooLarge

MAX_PIECE = 256 * 1024  # a topic, a mapping, the filter servers; honest ones are far smaller
_FED = 16 * 1024  # compressed bytes a step
_STEP = 256 * 1024  # inflated bytes a step
_INT = Struct(">i")


class Inflation:
    """``limit`` bounds what the whole stream may inflate to."""

    def __init__(self, body: bytes, limit: int) -> None:
        self._inflater = zlib.decompressobj()
        self._body = memoryview(body)
        self._fed = 0
        self._ready = b""
        self._position = 0
        self._limit = limit
        self._size = 0

    def count(self) -> Slices[int]:
        """The next number."""
        while (number := self._next_int()) is None:
            self._inflate()
            yield
        self._position += 4
        return number

    def take(self) -> bytes | None:
        """The next piece, or None when ``taken`` has to be asked for it."""
        length = self._next_int()
        if length is None:
            return None
        start = self._position + 4
        if length > MAX_PIECE:
            raise undecodable(f"a piece of {length} bytes, of at most {MAX_PIECE}")
        end = start + length
        if end > len(self._ready):
            return None
        self._position = end
        return self._ready[start:end]

    def taken(self) -> Slices[bytes]:
        """The next piece, inflated in slices."""
        while (piece := self.take()) is None:
            self._inflate()
            yield
        return piece

    def finish(self) -> Slices[None]:
        """See that the rest of the stream is one, whatever is in it."""
        while not self._inflater.eof:
            self._position = len(self._ready)
            self._inflate()
            yield

    def _next_int(self) -> int | None:
        if self._position + 4 > len(self._ready):
            return None
        number = int(_INT.unpack_from(self._ready, self._position)[0])
        if number < 0:
            raise undecodable(f"a length of {number}")
        return number

    def _inflate(self) -> None:
        """Make more ready."""
        inflater = self._inflater
        if inflater.eof:
            raise undecodable("a piece is missing or cut short")
        fed = inflater.unconsumed_tail
        if not fed:
            fed = bytes(self._body[self._fed : self._fed + _FED])
            self._fed += len(fed)
        try:
            part = inflater.decompress(fed, _STEP)
        except zlib.error as error:
            raise undecodable(str(error)) from error
        if not part and not fed and not inflater.eof:
            raise undecodable("the zlib stream is cut short")
        self._size += len(part)
        if self._size > self._limit:
            raise BodyTooLarge("the inflated registration", self._limit)
        self._ready = self._ready[self._position :] + part
        self._position = 0


def undecodable(reason: str) -> BadRequest:
    # The first line operators know from the reference, then what is wrong.
    return BadRequest(
        "org.apache.rocketmq.remoting.exception.RemotingCommandException:"
        f" Failed to decode RegisterBrokerBody: {reason}"
    )
