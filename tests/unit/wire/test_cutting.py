"""Large bodies are read a few entries at a time, and mean what they mean whole."""

import json
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routebook.slices import Slices, finished
from routebook.wire import cutting
from routebook.wire.cutting import CUT_BYTES, MARK, entries
from routebook.wire.errors import BadRequest, BodyTooLarge
from routebook.wire.registration import (
    MAX_WHOLE,
    DecodingRoom,
    RegistrationBody,
    TopicConfig,
    decode_registration,
    seen,
)
from support.builders import compressed_body, mapping_info, registration_body, topic_table

MANY = 5000
TOPICS = [f"topic-{number:05d}" for number in range(MANY)]
TABLE: msgspec.json.Decoder[dict[str, TopicConfig]] = msgspec.json.Decoder(dict[str, TopicConfig])


def decoded(body: bytes, version: int = 513, **limits: Any) -> tuple[int, RegistrationBody]:
    """How many slices it took, and the body."""
    limits = {"max_frame": 1 << 24, "max_topics": 100_000, **limits}
    slices = decode_registration(body, version, compressed=False, **limits)
    count = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return count, done.value
        count += 1


def compact(body: bytes) -> bytes:
    return json.dumps(json.loads(body), separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(registration_body(TOPICS), id="spaced"),
        pytest.param(compact(registration_body(TOPICS)), id="compact"),
        pytest.param(json.dumps(json.loads(registration_body(TOPICS)), indent=1).encode(), id="in"),
        pytest.param(compressed_body(TOPICS), id="zlib"),
    ],
)
def test_a_large_registration_is_read_in_many_slices(body: bytes) -> None:
    slices, read = decoded(body)
    assert slices >= 4
    assert list(read.topics) == TOPICS
    assert {config.read_queue_nums for config in read.topics.values()} == {8}
    assert MARK not in read.topics


def test_the_body_of_an_old_broker_is_its_wrapper() -> None:
    wrapper = {"topicConfigTable": topic_table(TOPICS), "dataVersion": {"timestamp": 1}}
    slices, read = decoded(json.dumps(wrapper).encode(), version=1)
    assert slices >= 4
    assert list(read.topics) == TOPICS


@pytest.mark.parametrize("bare", [False, True])
def test_static_mappings_are_read_in_many_slices(bare: bool) -> None:
    mappings = {topic: mapping_info(topic) for topic in TOPICS}
    body = compact(registration_body(TOPICS, mappings=mappings))
    if bare:
        body = body.replace(b'{"0":0,"1":1}', b"{0:0,1:1}")
    slices, read = decoded(body)
    assert slices >= 8
    assert [info.topic for info in read.mappings] == TOPICS
    assert {tuple(info.curr_id_map.items()) for info in read.mappings} == {((0, 0), (1, 1))}
    assert list(read.topics) == TOPICS


names = st.text(alphabet='ab{}",:\\[] \n\u00e9', min_size=0, max_size=6)


@given(st.lists(names, min_size=1, max_size=20, unique=True), st.integers(0, 1))
def test_what_is_cut_off_and_what_is_left_are_the_whole(words: list[str], spaced: int) -> None:
    table = {word: {"topicName": word * 3, "attributes": {word: "{},"}} for word in words}
    text = json.dumps(
        {"before": words, "t": table, "after": {"t": 1}},
        separators=((", ", ": ") if spaced else (",", ":")),
    ).encode()
    found: dict[str, TopicConfig] = {}

    def collected() -> Slices[bytes]:
        pieces = entries(text, b"t", TABLE)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as done:
                left: bytes = done.value
                return left
            found.update(piece or {})
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "CUT_BYTES", 8)
        rest = json.loads(finished(collected()))
    assert (rest["before"], rest["after"]) == (words, {"t": 1})
    if found:
        assert rest["t"].pop(MARK) == {}
    assert [*found, *rest["t"]] == words
    assert all(config.topic_name == word * 3 for word, config in found.items())


def filler(size: int) -> dict[str, Any]:
    return {f"x{number}": {"topicName": "x"} for number in range(size // 24)}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            {"else": {"topicConfigTable": filler(9 * CUT_BYTES)}}, id="a-table-of-somebody-else"
        ),
        pytest.param({"filterServerList": ["f"] * MAX_WHOLE}, id="a-list"),
        pytest.param({"filterServerList": ["f" * (MAX_WHOLE + 1)]}, id="a-string"),
        pytest.param(
            {"topicConfigSerializeWrapper": {"topicConfigTable": {"t": filler(9 * CUT_BYTES)}}},
            id="one-entry",
        ),
    ],
)
def test_what_is_large_and_no_table_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="not readable"):
        decoded(json.dumps(body).encode())


def test_more_topics_than_a_broker_may_have_are_not_read_to_the_end() -> None:
    slices, _ = decoded(registration_body(TOPICS))
    body = registration_body(TOPICS)
    reading = decode_registration(
        body, 513, compressed=False, max_frame=1 << 24, max_topics=MANY // 10
    )
    with pytest.raises(BadRequest, match="exceeds the limit of 500"):
        list(islice(reading, slices // 2))


@pytest.mark.parametrize("compress", [False, True])
def test_what_would_take_too_much_memory_is_refused_on_the_way(compress: bool) -> None:
    body = compressed_body(TOPICS) if compress else registration_body(TOPICS)
    with pytest.raises(BodyTooLarge, match="the decoded registration"):
        decoded(body, room=DecodingRoom(10**6, 1_000_000))


def test_a_piece_no_broker_sends_is_refused_before_it_is_inflated() -> None:
    huge: dict[str, dict[str, Any]] = {"t": {}, "u" * (300 * 1024): {}}
    with pytest.raises(BadRequest, match="of at most 262144"):
        decoded(compressed_body(huge))


def test_equal_bodies_have_equal_fingerprints_and_others_have_not() -> None:
    one, other = bytes(5 << 20), bytes((5 << 20) - 1) + b"x"
    assert finished(seen(one, check=True)) == finished(seen(bytes(5 << 20), check=True))
    assert finished(seen(one, check=True))[1] != finished(seen(other, check=True))[1]
    assert len(list(seen(one, check=True))) == 2
