"""Whatever the bytes are, the errors are ours; however they are cut, the frames are the same."""

import json
import zlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routebook.slices import finished
from routebook.wire import bodies, fastjson, header_binary, header_json, proxy
from routebook.wire.codec import decode_command, encode_reply, encode_request
from routebook.wire.command import BINARY, JSON, Command, Reply
from routebook.wire.errors import BadRequest, DialectError, WireError
from routebook.wire.frame import Frame, FrameDecoder
from routebook.wire.registration import (
    RegistrationBody,
    decode_data_version,
    decode_registration,
)
from support import raw
from support.builders import compressed_body, mapping_info, registration_body
from support.fuzzing import cut, examples, json_values, overwritten

MAX_FRAME = 1 << 20

int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
ext_fields = st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=6)
frames = st.tuples(st.sampled_from([JSON, BINARY]), st.binary(max_size=80), st.binary(max_size=80))


def json_requests() -> st.SearchStrategy[bytes]:
    return st.builds(
        raw.request, int32, ext_fields, st.binary(max_size=40), opaque=int32, flag=int32
    )


def binary_requests() -> st.SearchStrategy[bytes]:
    return st.builds(
        raw.binary_request, int16, ext_fields, st.binary(max_size=40), opaque=int32, flag=int32
    )


def whole_frames(pieces: list[bytes], max_frame: int = MAX_FRAME) -> list[Frame]:
    decoder, found = FrameDecoder(max_frame), list[Frame]()
    for piece in pieces:
        decoder.feed(piece)
        while (frame := decoder.next_frame()) is not None:
            found.append(frame)
    return found


# -- frames


@examples(300)
@given(st.data(), st.lists(frames, max_size=6))
def test_frames_are_the_same_however_the_stream_is_cut(
    data: st.DataObject, sent: list[tuple[int, bytes, bytes]]
) -> None:
    stream = b"".join(raw.frame(header, body, codec=codec) for codec, header, body in sent)

    assert whole_frames(data.draw(cut(stream))) == sent


@examples(300)
@given(st.data(), st.lists(frames, max_size=4), st.binary(max_size=60))
def test_what_is_buffered_is_what_was_fed_and_not_taken(
    data: st.DataObject, sent: list[tuple[int, bytes, bytes]], rest: bytes
) -> None:
    decoder, taken, fed = FrameDecoder(MAX_FRAME), 0, 0
    stream = b"".join(raw.frame(header, body, codec=codec) for codec, header, body in sent) + rest
    try:
        for piece in data.draw(cut(stream)):
            decoder.feed(piece)
            fed += len(piece)
            while (frame := decoder.next_frame()) is not None:
                taken += 8 + len(frame[1]) + len(frame[2])
            assert decoder.buffered == fed - taken
    except WireError:
        pass


@examples(300)
@given(st.data(), st.binary(max_size=200) | overwritten(json_requests() | binary_requests()))
def test_a_stream_fails_at_the_same_frame_however_it_is_cut(
    data: st.DataObject, stream: bytes
) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[Frame], str | None]:
        decoder, found = FrameDecoder(MAX_FRAME), list[Frame]()
        try:
            for piece in pieces:
                decoder.feed(piece)
                while (frame := decoder.next_frame()) is not None:
                    found.append(frame)
        except WireError as error:
            return found, str(error)
        return found, None

    assert outcome(data.draw(cut(stream))) == outcome([stream])


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_frame_above_the_limit_is_refused_on_sight_of_its_length(length: int, word: int) -> None:
    decoder = FrameDecoder(MAX_FRAME)
    decoder.feed(raw.u32(length))
    if 4 <= length <= MAX_FRAME - 4:
        assert decoder.next_frame() is None
        decoder.feed(raw.u32(word))
        codec, header_length = word >> 24, word & 0xFFFFFF
        if codec > 1 or header_length > length - 4:
            with pytest.raises(WireError):
                decoder.next_frame()
    else:
        with pytest.raises(WireError):
            decoder.next_frame()


# -- headers


@examples(1000)
@given(st.binary(max_size=300) | overwritten(json_requests() | binary_requests()))
def test_any_bytes_are_commands_or_a_wire_error(stream: bytes) -> None:
    try:
        for frame in whole_frames([stream]):
            decode_command(frame)
    except WireError:
        pass


json_text = st.text(
    alphabet="{}[]:,\"\\' \n0127.eE-+abcdefExtFieldscodeopaqueflag$ref@", max_size=60
)


@examples(1000)
@given(json_text | st.text(max_size=40))
@example('{"code":1e999}')
@example('{"code":NaN}')
@example('{"opaque":"99999999999"}')
@example('{"extFields":{"a":{"$ref":"$"}}}')
@example('{"extFields":{"$ref":".."}}')
@example('{"extFields":[]}')
@example('{"extFields":{"a":"\\ud800"}}')
@example('{"remark":1,"code":"1_0"}')
def test_any_json_header_is_a_command_or_a_wire_error(text: str) -> None:
    try:
        command = header_json.decode(text.encode())
    except WireError:
        return
    # What was understood can be sent on: nothing half-decoded gets through.
    for codec in (JSON, BINARY):
        if codec == JSON or abs(command.code) < 2**15 > abs(command.version):
            command.codec = codec
            encode_request(command)


# Up to and around Python's own recursion limit, then far beyond it.
DEPTHS = (*range(100, 900, 50), *range(900, 1010), 50_000)


@pytest.mark.parametrize("value", [b"[%b]", b'{"a":%b}'], ids=["lists", "objects"])
@pytest.mark.parametrize("odd", [b"", b","], ids=["strict", "odd"])
def test_a_deep_header_is_a_command_or_a_wire_error(value: bytes, odd: bytes) -> None:
    before, _, after = value.partition(b"%b")
    for depth in DEPTHS:
        header = b'{"extFields":{"a":' + before * depth + b"1" + after * depth + b"}" + odd + b"}"
        try:
            header_json.decode(header)
        except WireError:
            pass


@examples(500)
@given(int32, ext_fields, st.binary(max_size=60), int32, int32)
def test_a_json_header_is_read_as_it_was_written(
    code: int, fields: dict[str, str], body: bytes, opaque: int, flag: int
) -> None:
    sent = Command(code, flag, opaque, 513, None, dict(fields), body, JSON)
    by_hand = raw.request(code, fields, body, opaque=opaque, flag=flag)

    for stream in (encode_request(sent), by_hand):
        [frame] = whole_frames([stream])
        assert decode_command(frame) == sent


@examples(500)
@given(int16, ext_fields, st.binary(max_size=60), int32, int32)
def test_a_binary_header_is_read_as_it_was_written(
    code: int, fields: dict[str, str], body: bytes, opaque: int, flag: int
) -> None:
    # An empty key does not exist in this encoding and an empty value reads as none.
    expected = {key: value or None for key, value in fields.items() if key}
    sent = Command(code, flag, opaque, 513, None, dict(fields), body, BINARY)
    by_hand = raw.binary_request(code, fields, body, opaque=opaque, flag=flag)

    for stream in (encode_request(sent), by_hand):
        [frame] = whole_frames([stream])
        received = decode_command(frame)
        assert received.ext_fields == expected
        received.ext_fields = sent.ext_fields
        assert received == sent


@examples(500)
@given(
    st.sampled_from([JSON, BINARY]),
    int16,
    int32,
    st.none() | st.text(min_size=1),
    st.none() | st.dictionaries(st.text(min_size=1, max_size=20), st.text(min_size=1)),
    st.binary(max_size=60),
)
def test_an_answer_reads_the_same_in_both_encodings(
    codec: int,
    code: int,
    opaque: int,
    remark: str | None,
    fields: dict[str, str] | None,
    body: bytes,
) -> None:
    reply = Reply(code, remark, fields, body)
    asked = Command(opaque=opaque, codec=codec)

    [answer] = raw.answers_in(encode_reply(asked, reply))

    assert (answer.code, answer.opaque, answer.flag) == (code, opaque, 1)
    assert (answer.remark, answer.body, answer.codec) == (remark, body, codec)
    assert answer.ext_fields == (fields if codec == JSON else fields or {})


@examples(500)
@given(st.binary(max_size=80))
def test_any_binary_header_is_a_command_or_a_wire_error(header: bytes) -> None:
    try:
        header_binary.decode(header)
    except WireError:
        pass


# -- the fastjson dialect


@examples(1000)
@given(json_text | st.text() | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_any_text_is_a_value_or_a_dialect_error(text: str) -> None:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            fastjson.loads(text.encode(encoding))
        except DialectError:
            pass


@examples(200)
@given(json_values(), st.booleans(), st.booleans())
def test_json_keeps_its_value_when_normalised(
    value: object, spaced: bool, ascii_only: bool
) -> None:
    separators = (" ,\t", " :\n") if spaced else (",", ":")
    text = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()

    assert msgspec.json.decode(fastjson.normalised(text)) == json.loads(text)


@st.composite
def dialect(draw: st.DrawFn, value: object) -> str:
    """``value`` as fastjson may also be given it: bare keys, single quotes, needless commas."""
    space = draw(st.sampled_from(["", " ", "\n\t"]))
    if isinstance(value, dict):
        members = [
            draw(_dialect_key(key)) + space + ":" + space + draw(dialect(item))
            for key, item in value.items()
        ]
        return "{" + draw(_joined(members)) + "}"
    if isinstance(value, list):
        return "[" + draw(_joined([draw(dialect(item)) for item in value])) + "]"
    if isinstance(value, str):
        return draw(_dialect_string(value))
    return json.dumps(value)


@st.composite
def _joined(draw: st.DrawFn, parts: list[str]) -> str:
    comma = st.sampled_from([",", ",,", ", ,", " , "])
    text = "".join(part + draw(comma) for part in parts[:-1]) + "".join(parts[-1:])
    return text + (draw(st.sampled_from(["", ",", " , "])) if parts else "")


@st.composite
def _dialect_key(draw: st.DrawFn, key: str) -> str:
    if key.isascii() and key.isidentifier() and draw(st.booleans()):
        return key
    if key.isascii() and key.isdecimal() and draw(st.booleans()):
        return key
    return draw(_dialect_string(key))


@st.composite
def _dialect_string(draw: st.DrawFn, text: str) -> str:
    if draw(st.booleans()):
        return json.dumps(text, ensure_ascii=draw(st.booleans()))
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


keys = st.text() | st.integers(-5, 10**6).map(str) | st.sampled_from(["a", "b1", "_x", "topic"])
dialect_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@examples(300)
@given(st.data(), dialect_values)
def test_the_dialect_says_the_same_as_json(data: st.DataObject, value: object) -> None:
    text = data.draw(dialect(value))

    assert fastjson.loads(text.encode()) == value


@examples(500)
@given(st.text())
def test_quoted_text_is_read_back(text: str) -> None:
    assert fastjson.loads(fastjson.quoted(text)) == text
    assert json.loads(fastjson.quoted_standard(text)) == text
    assert fastjson.quoted_standard(text).isascii()


# -- bodies


def decoded(body: bytes, version: int, *, compressed: bool) -> RegistrationBody | None:
    """What the body says, None for a BadRequest; any other error fails the test."""
    try:
        return finished(
            decode_registration(
                body, version, compressed=compressed, max_frame=1 << 16, max_topics=1000
            )
        )
    except BadRequest:
        return None


versions = st.sampled_from([-1, 0, 36, 37, 407, 412, 413, 513, 2**31 - 1])
numbers = st.integers(-5, 20) | st.integers() | st.floats(width=32) | st.text(max_size=4)
configs = st.fixed_dictionaries({}, optional={"perm": numbers, "readQueueNums": numbers})
tables = st.dictionaries(st.text(max_size=6), configs, max_size=4)
plain_bodies = st.builds(
    registration_body,
    tables,
    counter=st.integers(),
    filter_servers=st.lists(st.text(max_size=5), max_size=3),
    mappings=st.just({"T": mapping_info("T")}),
)
compressed_bodies = st.builds(compressed_body, st.lists(st.text(max_size=8), max_size=4))
inflated = compressed_bodies.map(zlib.decompress)


@examples(800)
@given(
    st.binary(max_size=200)
    | plain_bodies
    | compressed_bodies
    | overwritten(plain_bodies)
    | overwritten(compressed_bodies)
    | overwritten(inflated).map(zlib.compress)
    | json_values().map(lambda value: json.dumps({"topicConfigSerializeWrapper": value}).encode())
    | json_text.map(str.encode),
    versions,
    st.booleans(),
)
@example(b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"$ref":"$"}}}', 513, False)
@example(b'{"topicConfigSerializeWrapper":{"$ref":"@"}}', 513, False)
@example(b"[" * 5000, 513, False)
@example(b"{a:" * 5000, 513, False)
@example(b"\x78", 513, False)
def test_any_registration_body_is_read_or_a_bad_request(
    body: bytes, version: int, compressed: bool
) -> None:
    decoded(body, version, compressed=compressed)


@examples(200)
@given(st.sets(st.text(alphabet="abcXYZ%_-09", min_size=1, max_size=12), max_size=30))
def test_both_forms_of_a_registration_say_the_same(topics: set[str]) -> None:
    names = sorted(topics)
    plain = decoded(registration_body(names), 513, compressed=False)
    packed = decoded(compressed_body(names), 513, compressed=True)
    mislabelled = decoded(compressed_body(names), 513, compressed=False)

    assert plain is not None
    assert plain == packed == mislabelled


@pytest.mark.parametrize(
    "wrap",
    [b'{"topicConfigSerializeWrapper":%b}', b"{x:%b}", b'{"filterServerList":[%b]}'],
    ids=["typed", "odd", "list"],
)
def test_a_deep_body_is_read_or_a_bad_request(wrap: bytes) -> None:
    for depth in DEPTHS:
        deep = wrap % (b"[" * depth + b"]" * depth)
        decoded(deep, 513, compressed=False)
        for decode in (decode_data_version, bodies.decode_queue_datas):
            try:
                decode(deep)
            except BadRequest:
                pass


@examples(500)
@given(st.binary(max_size=80) | json_text.map(str.encode))
def test_any_small_body_is_read_or_a_bad_request(body: bytes) -> None:
    for decode in (decode_data_version, bodies.decode_queue_datas):
        try:
            decode(body)
        except BadRequest:
            pass


# -- PROXY headers

proxy_headers = st.builds(
    "PROXY TCP4 {} {} {} {}\r\n".format,
    st.ip_addresses(v=4),
    st.ip_addresses(v=4),
    st.integers(0, 70_000),
    st.integers(0, 65535),
).map(str.encode) | st.builds(
    lambda command, family, payload: (
        proxy.SIGNATURE + bytes([command, family]) + len(payload).to_bytes(2, "big") + payload
    ),
    st.sampled_from([0x20, 0x21, 0x22, 0x11]),
    st.sampled_from([0x00, 0x11, 0x12, 0x21, 0x31, 0xFF]),
    st.binary(max_size=60),
)


@examples(500)
@given(st.binary(max_size=150) | proxy_headers | overwritten(proxy_headers), st.binary(max_size=9))
def test_a_proxy_header_is_found_at_the_same_byte_however_it_arrives(
    header: bytes, rest: bytes
) -> None:
    def outcome(data: bytes) -> object:
        try:
            return proxy.parse(data)
        except WireError as error:
            return str(error)

    whole = outcome(header + rest)
    answers = [outcome((header + rest)[:size]) for size in range(len(header + rest))]

    decided = [answer for answer in [*answers, whole] if answer is not None]
    assert all(answer == whole for answer in decided)
