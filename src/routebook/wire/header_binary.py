"""The ROCKETMQ header.

    | code: 2 | language: 1 | version: 2 | opaque: 4 | flag: 4
    | remark length: 4 | remark | ext length: 4 | ext entries |

An entry is ``| key length: 2 | key | value length: 4 | value |``. A zero length stands for
null, so an empty value and a missing one look alike.
"""

from struct import Struct

from routebook.wire.codes import Version
from routebook.wire.command import BINARY, MAX_FIELDS, Command, Reply
from routebook.wire.errors import WireError

_FIXED = Struct(">hBhiii")  # code, language, version, opaque, flag, remark length
_INT = Struct(">i")
_SHORT = Struct(">h")
_JAVA = 0


def decode(header: bytes) -> Command:
    """Raises WireError when a length does not fit."""
    if len(header) < _FIXED.size + 4:
        raise WireError(f"binary header of {len(header)} bytes")
    code, _language, version, opaque, flag, remark_length = _FIXED.unpack_from(header)
    remark, position = _text(header, _FIXED.size, remark_length, len(header))
    if position + 4 > len(header):
        raise WireError("binary header ends before its ext fields")
    (ext_length,) = _INT.unpack_from(header, position)
    position += 4
    ext_fields: dict[str, str | None] = {}
    fields = 0
    if ext_length > 0:
        end = position + ext_length
        if end > len(header):
            raise WireError("ext fields reach beyond the header")
        while position < end:
            key, position = _sized_text(header, position, end, _SHORT)
            value, position = _sized_text(header, position, end, _INT)
            if key is not None:
                ext_fields[key] = value
            fields += 1
            if fields > MAX_FIELDS:
                raise WireError(f"more than {MAX_FIELDS} header fields")
    return Command(code, flag, opaque, version, remark, ext_fields, b"", BINARY)


def envelope(header: bytes) -> tuple[int, int]:
    """The opaque and the flag of a header that is not read."""
    _code, _language, _version, opaque, flag, _remark_length = _FIXED.unpack_from(header)
    return opaque, flag


def _sized_text(header: bytes, position: int, end: int, size: Struct) -> tuple[str | None, int]:
    if position + size.size > end:
        raise WireError("ext fields end inside an entry")
    (length,) = size.unpack_from(header, position)
    return _text(header, position + size.size, length, end)


def _text(header: bytes, position: int, length: int, end: int) -> tuple[str | None, int]:
    if length < 0 or position + length > end:
        raise WireError(f"a string of {length} bytes does not fit the header")
    if length == 0:
        return None, position
    stop = position + length
    # Java decodes malformed UTF-8 with replacement characters instead of failing.
    return header[position:stop].decode("utf-8", "replace"), stop


def encode_reply(reply: Reply, opaque: int) -> bytes:
    return _encode(reply.code, Version.V5_5_0, opaque, 1, reply.remark, reply.ext_fields or {})


def encode_request(command: Command) -> bytes:
    ext_fields = {key: value for key, value in command.ext_fields.items() if value is not None}
    return _encode(
        command.code, command.version, command.opaque, command.flag, command.remark, ext_fields
    )


def _encode(
    code: int, version: int, opaque: int, flag: int, remark: str | None, ext: dict[str, str]
) -> bytes:
    text = (remark or "").encode("utf-8", "replace")
    entries = bytearray()
    for key, value in ext.items():
        key_bytes, value_bytes = key.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        entries += _SHORT.pack(len(key_bytes)) + key_bytes
        entries += _INT.pack(len(value_bytes)) + value_bytes
    fixed = _FIXED.pack(code, _JAVA, version, opaque, flag, len(text))
    return b"".join((fixed, text, _INT.pack(len(entries)), entries))
