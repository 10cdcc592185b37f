import pytest

from routebook.handlers.memo import AnswerMemo
from routebook.handlers.tally import QueryTally
from routebook.wire.codec import decode_command, encode_reply
from routebook.wire.command import Reply


def header(opaque: object, topic: str = "T", more: str = "") -> bytes:
    return (
        f'{{"code":105,"extFields":{{"topic":"{topic}"{more}}},"flag":0,"language":"JAVA",'
        f'"opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":513}}'
    ).encode()


def kept(memo: AnswerMemo, text: bytes, reply: Reply) -> None:
    memo.keep(text, decode_command((0, text, b"")), reply)


@pytest.mark.parametrize("opaque", [0, 7, 123, 999999999, 2147483647])
def test_a_known_header_with_another_opaque_gets_the_same_bytes_as_a_new_one(opaque: int) -> None:
    memo, reply = AnswerMemo(QueryTally()), Reply(body=b"route")
    kept(memo, header(42), reply)
    parts = memo.find(header(opaque))
    assert parts is not None
    assert b"".join(parts) == encode_reply(decode_command((0, header(opaque), b"")), reply)


@pytest.mark.parametrize(
    "other",
    [
        header(1, "U"),
        header("-1"),
        header("007"),
        header('"1"'),
        header(2147483648),
        header(10**30),
        b"",
        b"{}",
        b"x,y",
    ],
)
def test_another_header_is_not_known(other: bytes) -> None:
    memo = AnswerMemo(QueryTally())
    kept(memo, header(1), Reply(body=b"route"))
    assert memo.find(other) is None


def test_an_event_empties_it() -> None:
    memo = AnswerMemo(QueryTally())
    kept(memo, header(1), Reply(body=b"route"))
    memo.clear()
    assert memo.find(header(1)) is None


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        pytest.param(header(1), Reply(17, "no"), id="failure"),
        pytest.param(header(1).replace(b"105", b"106"), Reply(body=b"x"), id="other-request"),
        pytest.param(header(1, more=',"opaque":"1"'), Reply(body=b"x"), id="two-opaques"),
        pytest.param(header(1, "t" * 600), Reply(body=b"x"), id="long-header"),
        pytest.param(header(1).replace(b'"flag":0', b'"flag":2'), Reply(body=b"x"), id="oneway"),
    ],
)
def test_what_may_not_be_repeated_is_not_kept(text: bytes, reply: Reply) -> None:
    memo = AnswerMemo(QueryTally())
    kept(memo, text, reply)
    assert memo.find(text) is None


def test_it_is_bounded_in_entries_and_bytes() -> None:
    memo = AnswerMemo(QueryTally())
    for number in range(100):
        kept(memo, header(1, f"T{number}"), Reply(body=bytes(1 << 20)))
    assert memo._bytes <= 64 << 20
    assert memo.find(header(1, "T99")) is not None
    assert memo.find(header(1, "T0")) is None
