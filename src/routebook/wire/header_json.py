"""The JSON header: ``{"code":105,"extFields":{"topic":"T"},"flag":0,...}``.

Members are written in alphabetical order without nulls, as every Java peer does. What a
peer sends is read at first as strict JSON; numbers in place of strings, bare keys and the
like take the slower way through the dialect.
"""

from typing import Any

import msgspec

from routebook.wire import fastjson
from routebook.wire.codes import Version
from routebook.wire.command import Command, Reply
from routebook.wire.errors import DialectError, WireError

# Rewriting the dialect costs microseconds a byte; no honest header comes near this.
MAX_ODD_HEADER = 64 * 1024

_PLAIN_AROUND = (
    b'{"code":0,"flag":1,"language":"JAVA","opaque":',
    b',"serializeTypeCurrentRPC":"JSON","version":%d}' % Version.V5_5_0,
)
_DECODER = msgspec.json.Decoder(Command)


def decode(header: bytes) -> Command:
    """Raises WireError for anything fastjson would not turn into a command."""
    try:
        return _DECODER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_odd(header)


def _decode_odd(header: bytes) -> Command:
    if len(header) > MAX_ODD_HEADER:
        raise WireError(f"a header of {len(header)} bytes is not JSON")
    try:
        # Java decodes malformed UTF-8 with replacement characters instead of failing.
        fields = fastjson.loads(header.decode("utf-8", "replace").encode())
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
