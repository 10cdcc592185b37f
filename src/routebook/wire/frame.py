"""Framing: bytes in, whole frames out.

    | length: 4 | codec: 1 | header length: 3 | header | body |

``length`` counts everything after itself. The codec byte shares an int32 with
the header length, so a header can never exceed 2**24 - 1 bytes. The limit counts
the length word as well, as ``com.rocketmq.remoting.frameMaxLength`` does.
"""

from struct import Struct

from routebook.wire.errors import FrameTooLarge, WireError
from routebook.wire.text import grown

MAX_FRAME = 16 * 1024 * 1024
LARGE_FRAME = 4 * 1024 * 1024  # from here on header and body are received where they stay

_LENGTH = Struct(">I")
_PREFIX = Struct(">II")
_CODECS = (0, 1)


Frame = tuple[int, bytes, bytes]  # codec, header, body; a large one is made of bytearrays


class _LargeFrame:
    """A frame that is put together as it arrives: a copy of 16 MiB would take ten milliseconds."""

    __slots__ = ("_body_length", "_header_length", "body", "codec", "header")

    def __init__(self, codec: int, header_length: int, body_length: int) -> None:
        self.codec = codec
        self._header_length = header_length
        self._body_length = body_length
        self.header = bytearray()
        self.body = bytearray()

    @property
    def size(self) -> int:
        return 8 + len(self.header) + len(self.body)

    @property
    def missing(self) -> int:
        wanted = self._header_length + self._body_length
        return wanted - len(self.header) - len(self.body)

    def take(self, data: bytes | memoryview) -> int:
        """Take what belongs to the frame; how many bytes that is."""
        of_header = data[: self._header_length - len(self.header)]
        self.header += of_header
        taken = len(of_header)
        if len(self.header) == self._header_length:
            of_body = data[taken : taken + self._body_length - len(self.body)]
            self.body += of_body
            taken += len(of_body)
        return taken

    def whole(self) -> Frame:
        return self.codec, grown(self.header), grown(self.body)


class FrameDecoder:
    """Cuts a stream into frames.

    A frame that cannot be right is refused on sight of its first eight bytes, so a
    peer never makes us buffer what will be rejected.
    """

    __slots__ = ("_buffer", "_large", "_max_frame", "_position")

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._buffer: bytes | bytearray = b""
        self._position = 0
        self._max_frame = max_frame
        self._large: _LargeFrame | None = None

    @property
    def buffered(self) -> int:
        """Bytes held that are not yet a whole frame taken out."""
        waiting = len(self._buffer) - self._position
        return waiting if self._large is None else waiting + self._large.size

    def feed(self, data: bytes) -> None:
        if self._large is not None and self._large.missing:
            data = data[self._large.take(data) :]
        if self._position == len(self._buffer):
            # The usual case, whole frames in one segment: nothing is copied.
            self._buffer = data
        elif isinstance(self._buffer, bytearray):
            if self._position:
                del self._buffer[: self._position]
            self._buffer += data
        else:
            self._buffer = bytearray(memoryview(self._buffer)[self._position :])
            self._buffer += data
        self._position = 0

    def next_frame(self) -> Frame | None:
        """Return the next whole frame, or None until more bytes arrive.

        Raises FrameTooLarge or WireError on sight of a bad prefix.
        """
        buffer = self._buffer
        start = self._position
        if self._large is not None:
            return self._next_large()
        available = len(buffer) - start
        if available < 8:
            if available >= 4:
                self._check_length(_LENGTH.unpack_from(buffer, start)[0])
            return None
        length, word = _PREFIX.unpack_from(buffer, start)
        codec = word >> 24
        header_length = word & 0xFFFFFF
        if length + 4 > self._max_frame or header_length + 4 > length or codec > 1:
            self._check_length(length)
            self._check_word(codec, header_length, length)
        end = start + 4 + length
        if len(buffer) < end:
            if length > LARGE_FRAME:
                self._large = _LargeFrame(codec, header_length, length - 4 - header_length)
                with memoryview(buffer) as view:
                    self._large.take(view[start + 8 :])
                self._buffer, self._position = b"", 0
            return None
        header_end = start + 8 + header_length
        if isinstance(buffer, bytes):
            header, body = buffer[start + 8 : header_end], buffer[header_end:end]
        else:
            with memoryview(buffer) as view:
                header, body = bytes(view[start + 8 : header_end]), bytes(view[header_end:end])
        if end == len(buffer):
            self._buffer, self._position = b"", 0
        else:
            self._position = end
        return codec, header, body

    def _next_large(self) -> Frame | None:
        assert self._large is not None
        if self._large.missing:
            return None
        frame, self._large = self._large.whole(), None
        return frame

    def _check_length(self, length: int) -> None:
        if length + 4 > self._max_frame:
            raise FrameTooLarge(length + 4, self._max_frame)
        if length < 4:
            raise WireError(f"frame length {length} is shorter than its header word")

    def _check_word(self, codec: int, header_length: int, length: int) -> None:
        if codec not in _CODECS:
            raise WireError(f"unknown header encoding {codec}")
        if header_length + 4 > length:
            raise WireError(f"header of {header_length} bytes in a frame of {length}")


def frame_of(codec: int, header: bytes, body_length: int) -> bytes:
    """The bytes of one frame up to its body."""
    return _PREFIX.pack(4 + len(header) + body_length, codec << 24 | len(header)) + header


def frame(codec: int, header: bytes, body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return b"".join(
        (_PREFIX.pack(4 + len(header) + len(body), codec << 24 | len(header)), header, body)
    )
