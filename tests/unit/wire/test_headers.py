"""Both header encodings, against bytes seen on the wire of the reference."""

import pytest

from routebook.wire import header_binary, header_json
from routebook.wire.codec import decode_command, encode_reply
from routebook.wire.codes import Version
from routebook.wire.command import BINARY, Command, Reply
from routebook.wire.errors import BadRequest, WireError
from routebook.wire.frame import FrameDecoder
from routebook.wire.headers import boolean, integer, required

JAVA_JSON = (
    b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
JAVA_BINARY = bytes.fromhex(
    "0069 00 01df 00000001 00000000 00000000 0000000d 0005 746f706963 00000002 5431"
)


def test_the_reference_vectors_of_both_encodings_are_the_same_command() -> None:
    json_command = header_json.decode(JAVA_JSON)
    binary_command = header_binary.decode(JAVA_BINARY)
    assert json_command == Command(105, 0, 1, 479, None, {"topic": "T1"})
    binary_command.codec = json_command.codec
    assert binary_command == json_command


def test_requests_of_ours_are_the_bytes_a_java_peer_would_send() -> None:
    command = header_json.decode(JAVA_JSON)
    assert header_json.encode_request(command) == JAVA_JSON
    assert header_binary.encode_request(command) == JAVA_BINARY


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(), b'{"code":0,"flag":1,"language":"JAVA","opaque":9,'),
        (Reply(ext_fields={}), b'{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":9,'),
        (
            Reply(17, 'no "x"\n', {"a": "é"}),
            b'{"code":17,"extFields":{"a":"\xc3\xa9"},"flag":1,"language":"JAVA","opaque":9,'
            b'"remark":"no \\"x\\"\\n",',
        ),
    ],
)
def test_an_answer_has_the_members_a_java_server_writes(reply: Reply, text: bytes) -> None:
    assert header_json.encode_reply(reply, 9) == text + (
        b'"serializeTypeCurrentRPC":"JSON","version":%d}' % Version.V5_5_0
    )


def test_a_binary_answer_matches_the_reference() -> None:
    reply = Reply(ext_fields={"haServerAddr": "ha", "masterAddr": "1.1.1.1:1"})
    expected = b"".join(
        [
            bytes.fromhex("0000 00 0201 00000068 00000001 00000000"),  # code to remark length
            bytes.fromhex("0000002d 000c") + b"haServerAddr" + bytes.fromhex("00000002") + b"ha",
            bytes.fromhex("000a") + b"masterAddr" + bytes.fromhex("00000009") + b"1.1.1.1:1",
        ]
    )
    assert header_binary.encode_reply(reply, 0x68) == expected


@pytest.mark.parametrize("codec", [0, BINARY])
def test_an_answer_comes_in_the_encoding_of_the_request(codec: int) -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_reply(Command(opaque=5, codec=codec), Reply(3, "no", None, b"x")))
    received = decoder.next_frame()
    assert received is not None
    assert received[0] == codec
    answer = decode_command(received)
    assert (answer.code, answer.opaque, answer.flag, answer.remark, answer.body) == (
        3,
        5,
        1,
        "no",
        b"x",
    )


@pytest.mark.parametrize(
    ("header", "command"),
    [
        (b"{}", Command()),
        (b'{"code":105,"unknown":[1,{}],"language":"NEW"}', Command(105)),
        (b'{"code":105,"language":12}', Command(105)),
        (b"{code:105,'opaque':7,}", Command(105, opaque=7)),
        (b'{"code":"105","opaque":4.0}', Command(105, opaque=4)),
        (
            b'{"extFields":{"a":1,"b":true,"c":null,"d":1.5}}',
            Command(ext_fields={"a": "1", "b": "true", "c": None, "d": "1.5"}),
        ),
        (b'{"extFields":null}', Command()),
        (b'{"code":1,"body":"x","codec":9}', Command(1)),
    ],
)
def test_what_fastjson_reads_is_read(header: bytes, command: Command) -> None:
    assert decode_command((0, header, b"")) == command


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'{"code":',
        b"\xff",
        b'{"extFields":[]}',
        b'{"code":"x"}',
        b'{"opaque":99999999999}',
        b"[" * 100_000,
        b"{'" + b"x" * 70_000,
    ],
)
def test_what_fastjson_refuses_closes_the_stream(header: bytes) -> None:
    with pytest.raises(WireError):
        header_json.decode(header)


def binary(remark_length: int, ext_length: int, entries: bytes) -> bytes:
    return b"".join(
        [
            bytes.fromhex("0069 00 01df 00000001 00000000"),
            remark_length.to_bytes(4, "big", signed=True),
            ext_length.to_bytes(4, "big", signed=True),
            entries,
        ]
    )


def test_a_zero_length_stands_for_null_and_a_negative_ext_length_for_none() -> None:
    entries = bytes.fromhex("0001") + b"k" + bytes(4)
    assert header_binary.decode(binary(0, len(entries), entries)).ext_fields == {"k": None}
    assert header_binary.decode(binary(0, -1, b"")).ext_fields == {}


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"x" * 20, id="too-short"),
        pytest.param(binary(-1, 0, b""), id="negative-remark"),
        pytest.param(binary(1000, 0, b""), id="remark-beyond"),
        pytest.param(binary(0, 5, b""), id="ext-beyond"),
        pytest.param(binary(0, 3, b"\0\1k"), id="entry-cut"),
        pytest.param(binary(0, 7, b"\0\1k\xff\xff\xff\xff"), id="negative-value"),
        pytest.param(binary(0, 7, b"\0\1k\0\0\0\x09"), id="value-beyond"),
    ],
)
def test_binary_lengths_that_do_not_fit_close_the_stream(header: bytes) -> None:
    with pytest.raises(WireError):
        header_binary.decode(header)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("+7", 7), ("-9223372036854775808", -(2**63)), (None, None)]
)
def test_numbers_are_read_as_java_longs(text: str | None, number: int | None) -> None:
    assert integer(Command(ext_fields={"n": text}), "n") == number


@pytest.mark.parametrize("text", ["", " 1", "1_0", "0x1", "1.0", "9223372036854775808", "١"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="n must be a whole number"):
        integer(Command(ext_fields={"n": text}), "n")


def test_only_true_is_true_and_empty_is_missing() -> None:
    command = Command(ext_fields={"a": "TRUE", "b": "1", "c": ""})
    assert [boolean(command, name) for name in "abcd"] == [True, False, False, None]
    with pytest.raises(BadRequest, match="c is missing"):
        required(command, "c")


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(body=bytes(2000)), id="body"),
        pytest.param(Reply(remark="\x7f" * 400), id="escaped-header"),
    ],
)
def test_an_answer_no_peer_could_read_is_replaced(reply: Reply) -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_reply(Command(opaque=5), reply, max_frame=1000))
    received = decoder.next_frame()
    assert received is not None
    answer = decode_command(received)
    assert (answer.code, answer.opaque, answer.body) == (1, 5, b"")
    assert "exceeds the frame limit of 1000" in (answer.remark or "")
