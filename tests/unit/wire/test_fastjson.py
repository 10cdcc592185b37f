from typing import Any

import pytest

from routebook.slices import finished
from routebook.wire import fastjson
from routebook.wire.errors import DialectError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a":{0:0,2:1},-3:4}', {"a": {"0": 0, "2": 1}, "-3": 4}),
        (b"{a:1, $b : [1,2,], }", {"a": 1, "$b": [1, 2]}),
        (b"[,1,,2,]", [1, 2]),
        (b"{'a':'it\\'s \"x\"'}", {"a": 'it\'s "x"'}),
        (b'{"a":"tab\there"}', {"a": "tab\there"}),
        (b'{"a":"\\x41\\v\\0"}', {"a": "A\v\0"}),
        (b'{"keys: {0:1,}":"{2:3,}"}', {"keys: {0:1,}": "{2:3,}"}),
        (b'{"a":[]}', {"a": []}),
        (b'{"a":{},"b":[{}]}', {"a": {}, "b": [{}]}),
    ],
)
def test_the_dialect_is_read(text: bytes, value: Any) -> None:
    assert fastjson.loads(text) == value


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("$.x.list[1]", {"k": 1}),
        ("$.x.a\\\\-b", 5),
        ("$.nowhere", None),
        ("$.x.list[9]", None),
        ("..", None),
    ],
)
def test_a_reference_stands_for_what_it_names(reference: str, value: Any) -> None:
    text = '{"x":{"list":[0,{"k":1}],"a-b":5},"y":{"$ref":"' + reference + '"}}'
    assert fastjson.loads(text.encode())["y"] == value


def test_references_cannot_blow_a_text_up() -> None:
    text = b'{"x":[%b],"y":[%b]}' % (
        b",".join([b"0"] * 2000),
        b",".join([b'{"$ref":"$.x"}'] * 2000),
    )
    with pytest.raises(DialectError, match="references expand too far"):
        fastjson.loads(text)


@pytest.mark.parametrize("text", [b"", b"[1", b"{", b"{a}", b"nul", b"'", b'"', b"[" * 10_000])
def test_other_text_is_a_dialect_error(text: bytes) -> None:
    with pytest.raises(DialectError):
        fastjson.loads(text)


def test_rewriting_gives_control_back_in_between() -> None:
    text = b"[" + b",".join(b"{%d:1}" % n for n in range(5000)) + b"]"
    assert sum(1 for _ in fastjson.normalised_slices(text)) >= 5


@pytest.mark.parametrize(
    ("text", "default", "standard"),
    [
        ("plain", b'"plain"', b'"plain"'),
        ("a/b'", b'"a/b\'"', b'"a\\/b\'"'),
        ('"\\\n\x01', b'"\\"\\\\\\n\\u0001"', b'"\\"\\\\\\n\\u0001"'),
        ("\x7f\x9f\u2028", b'"\\u007F\\u009F\\u2028"', b'"\\u007F\\u009F\\u2028"'),
        ("é", b'"\xc3\xa9"', b'"\\u00E9"'),
        ("😀", '"😀"'.encode(), b'"\\uD83D\\uDE00"'),
    ],
)
def test_strings_are_escaped_as_fastjson_does(text: str, default: bytes, standard: bytes) -> None:
    assert fastjson.quoted(text) == default
    assert fastjson.quoted_standard(text) == standard


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "b"], ['q"', "b"], ["é", "\n"], ['","', "x"]])
def test_a_list_is_its_strings_joined(texts: list[str]) -> None:
    expected = b"[" + b",".join(fastjson.quoted(text) for text in texts) + b"]"
    assert finished(fastjson.quoted_list_slices(texts)) == expected
