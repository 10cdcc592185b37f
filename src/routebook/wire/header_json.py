"""The JSON header: ``{"code":105,"extFields":{"topic":"T"},"flag":0,...}``.

Members are written in alphabetical order without nulls, as every Java peer does. What a
peer sends is read at first as strict JSON; numbers in place of strings, bare keys and the
like take the slower way through the dialect.
"""

import re
from typing import Any

import msgspec

from routebook.wire import fastjson
from routebook.wire.codes import Version
from routebook.wire.command import MAX_FIELDS, Command, Reply
from routebook.wire.errors import DialectError, WireError

MAX_ODD_HEADER = 64 * 1024  # of a header that is not plain JSON
MAX_ODDITIES = 2000
MAX_EXPANSION = 2000
MAX_REFERRING = 8 * 1024  # of a header with references
_LARGE = 16 * 1024
_END = 1024
_OPAQUE = re.compile(rb'"opaque"\s*:\s*(-?[0-9]{1,10})')
_FLAG = re.compile(rb'"flag"\s*:\s*([0-9]{1,5})')
_MAX_STRINGS = 4 * MAX_FIELDS
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"(\s*+:)?', re.DOTALL)

_PLAIN_AROUND = (
    b'{"code":0,"flag":1,"language":"JAVA","opaque":',
    b',"serializeTypeCurrentRPC":"JSON","version":%d}' % Version.V5_5_0,
)
_DECODER = msgspec.json.Decoder(Command)


def decode(header: bytes) -> Command:
    """Raises WireError for anything fastjson would not turn into a command."""
    if len(header) > _LARGE:
        _check_fields(header)
    try:
        return _DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_odd(header)


def envelope(header: bytes) -> tuple[int, int]:
    """The opaque and the flag of a header that is not read, from its ends.

    Raises WireError when the opaque is not there: every peer of RocketMQ writes it behind the
    ext fields.
    """
    ends = bytes(header[:_END] + header[-_END:])
    opaque, flag = _OPAQUE.findall(ends), _FLAG.findall(ends)
    if not opaque:
        raise WireError(f"a header of {len(header)} bytes")
    return _integer({"opaque": opaque[-1]}, "opaque"), int(flag[-1]) if flag else 0


def _check_fields(header: bytes) -> None:
    """Raise WireError where reading would take long: for each field an object is made."""
    fields = 0
    for strings, match in enumerate(_STRING.finditer(header)):
        fields += match[1] is not None
        if fields > MAX_FIELDS or strings > _MAX_STRINGS:
            raise WireError(f"more than {MAX_FIELDS} header fields")


def _decode_odd(header: bytes) -> Command:
    if len(header) > MAX_ODD_HEADER:
        raise WireError(f"a header of {len(header)} bytes is not JSON")
    if len(header) > MAX_REFERRING and b"$ref" in header:
        raise WireError(f"a header of {len(header)} bytes with references")
    try:
        # Java decodes malformed UTF-8 with replacement characters instead of failing.
        fields = fastjson.loads(
            header.decode("utf-8", "replace").encode(),
            max_oddities=MAX_ODDITIES,
            max_expansion=MAX_EXPANSION,
        )
    except DialectError as error:
        raise WireError(f"header is {error}") from error
    if not isinstance(fields, dict):
        raise WireError("header is not a JSON object")
    ext_fields = fields.get("extFields")
    if ext_fields is None:
        ext_fields = {}
    elif not isinstance(ext_fields, dict):
        raise WireError("extFields is not an object")
    remark = fields.get("remark")
    return Command(
        code=_integer(fields, "code"),
        flag=_integer(fields, "flag"),
        opaque=_integer(fields, "opaque"),
        version=_integer(fields, "version"),
        remark=None if remark is None else as_text(remark),
        ext_fields={
            key: None if value is None else as_text(value) for key, value in ext_fields.items()
        },
    )


def _integer(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        return 0
    try:
        number = int(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"{name} is not a number") from error
    if not -(2**31) <= number < 2**31:
        raise WireError(f"{name} is not a 32-bit number")
    return number


def as_text(value: Any) -> str:
    """A JSON value as the string fastjson makes of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return msgspec.json.encode(value).decode()


def encode_reply(reply: Reply, opaque: int) -> bytes:
    before, after = reply_around_opaque(reply)
    return b"%b%d%b" % (before, opaque, after)


def reply_around_opaque(reply: Reply) -> tuple[bytes, bytes]:
    """The header of an answer, cut where the opaque goes."""
    if reply.code == 0 and reply.remark is None and reply.ext_fields is None:
        return _PLAIN_AROUND
    ext_fields, remark = reply.ext_fields, reply.remark
    return (
        b'{"code":%d,%b"flag":1,"language":"JAVA","opaque":'
        % (
            reply.code,
            b"" if ext_fields is None else b'"extFields":' + fastjson.quoted_map(ext_fields) + b",",
        ),
        b',%b"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (
            b"" if remark is None else b'"remark":' + fastjson.quoted(remark) + b",",
            Version.V5_5_0,
        ),
    )


def encode_request(command: Command) -> bytes:
    """A request as a Java peer would send it."""
    ext_fields = {key: value for key, value in command.ext_fields.items() if value is not None}
    return (
        b'{"code":%d,"extFields":%b,"flag":%d,"language":"JAVA","opaque":%d,'
        b'"serializeTypeCurrentRPC":"JSON","version":%d}'
    ) % (
        command.code,
        fastjson.quoted_map(ext_fields),
        command.flag,
        command.opaque,
        command.version,
    )
