"""Whatever 16 MiB hold, they are worked off in many slices or refused after a few bytes."""

import pytest

from routebook.wire import fastjson
from routebook.wire.codec import MAX_REQUEST_HEADER, decode_command, oversized
from routebook.wire.command import MAX_FIELDS
from routebook.wire.errors import DialectError, WireError

SIZE = 1 << 20


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"[" + b"," * SIZE + b"]", id="commas"),
        pytest.param(b"{" + b" " * SIZE + b"}", id="spaces"),
        pytest.param(b"{" * SIZE, id="braces"),
        pytest.param(b"[" * SIZE, id="brackets"),
        pytest.param(b"1" * SIZE, id="digits"),
        pytest.param(b"[" + b'"",' * (SIZE // 3) + b"]", id="strings"),
        pytest.param(b"{" + b"a:1," * (SIZE // 5) + b"}", id="bare-keys"),
        pytest.param(b"[" + b"'%b'," % (b"a" * 1000) * (SIZE // 1000) + b"]", id="odd-strings"),
    ],
)
def test_a_text_is_rewritten_in_many_slices(text: bytes) -> None:
    slices = 0
    try:
        for _ in fastjson.normalised_slices(text):
            slices += 1
    except DialectError:
        pass
    assert slices >= 5


@pytest.mark.parametrize("filling", [b"a" * SIZE, b"\\x41" * (SIZE // 4)])
def test_a_string_of_a_mebibyte_is_refused_on_sight_of_its_beginning(filling: bytes) -> None:
    with pytest.raises(DialectError, match="256 KiB"):
        fastjson.normalised(b"{a:'" + filling + b"'}")


@pytest.mark.parametrize("length", [1000, 60_000, 200_000])
def test_strings_that_have_an_end_are_read(length: int) -> None:
    assert fastjson.loads(b"{a:'" + b"x" * length + b"'}") == {"a": "x" * length}
    assert fastjson.loads(b'{a:"' + b"\\n" * 500 + b"x" * length + b'"}') == {
        "a": "\n" * 500 + "x" * length
    }


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b'{"extFields":{' + b'"a":"",' * 20_000 + b'"b":""}}', id="fields"),
        pytest.param(b'{"x":[' + b'"",' * 50_000 + b'""]}', id="strings"),
        pytest.param(b'{code:1,"x":[' + b"''," * 10_000 + b"'']}", id="oddities"),
        pytest.param(b'{code:1,"x":[' + b'{"$ref":"$"},' * 3000 + b"1]}", id="references"),
    ],
)
def test_a_header_of_too_many_things_is_refused(header: bytes) -> None:
    with pytest.raises(WireError):
        decode_command((0, header, b""))


def test_a_binary_header_of_tiny_entries_is_refused_after_some() -> None:
    entry = b"\0\1k\0\0\0\0"
    fixed = bytes(17) + (7 * (MAX_FIELDS + 1)).to_bytes(4, "big")
    with pytest.raises(WireError, match="more than 1000 header fields"):
        decode_command((1, fixed + entry * (MAX_FIELDS + 1), b""))


def test_a_large_value_is_no_field_too_many() -> None:
    value = '{\\"a\\":\\"b\\"},' * 10_000
    command = decode_command((0, b'{"extFields":{"value":"' + value.encode() + b'"}}', b""))
    assert command.ext_fields["value"] == '{"a":"b"},' * 10_000


@pytest.mark.parametrize("codec", [0, 1])
def test_a_header_too_large_to_be_read_is_refused_under_its_own_number(codec: int) -> None:
    value = b"v" * MAX_REQUEST_HEADER
    json = b'{"code":100,"extFields":{"value":"%b"},"flag":2,"opaque":4711}' % value
    fixed = b"\0\x64\0\2\1" + (4711).to_bytes(4, "big") + (2).to_bytes(4, "big")
    binary = fixed + bytes(4) + (len(value) + 7).to_bytes(4, "big") + b"\0\1v" + value
    request = oversized((codec, binary if codec else json, b""))
    assert (request.opaque, request.flag, request.codec) == (4711, 2, codec)
    assert "exceeds the limit of 262144" in (request.remark or "")


def test_a_large_header_without_a_number_is_unreadable() -> None:
    with pytest.raises(WireError):
        oversized((0, b'{"x":"' + b"v" * MAX_REQUEST_HEADER + b'"}', b""))
