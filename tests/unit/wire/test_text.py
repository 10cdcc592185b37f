"""Halves of surrogate pairs, which JSON escapes can make and UTF-8 cannot hold."""

import pytest

from routebook.wire import fastjson, header_json
from routebook.wire.text import whole


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud800b", "a?b"),
        ("\udc00\ud800", "??"),
        ("\ud83d\ud83d\ude00", "?😀"),
    ],
)
def test_halves_are_joined_or_replaced(text: str, meant: str) -> None:
    assert whole(text) == meant
    escaped = "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)
    for quote in "\"'":
        literal = f"{{a:{quote}{escaped}{quote}}}".encode()
        assert fastjson.loads(literal) == {"a": meant}
        header = f'{{"code":1,"extFields":{{"k":{quote}{escaped}{quote}}}}}'.encode()
        assert header_json.decode(header).ext_fields == {"k": meant}


def test_a_header_that_is_not_utf_8_is_read_as_java_reads_it() -> None:
    header = b'{"code":1,"extFields":{"k":"a\xff"}}'
    assert header_json.decode(header).ext_fields == {"k": "a\ufffd"}
