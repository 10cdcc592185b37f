import json
from dataclasses import replace

import pytest

from routebook.events import BrokerLeft, Cause, QueueChange, RouteQueries, TopicsChanged
from routebook.journal.errors import BadRecord, NewerSchema
from routebook.journal.record import (
    CHAIN_START,
    Record,
    UnknownEvent,
    decode,
    encode,
    event_types,
    hash_of,
    place_of,
    true_hash,
)
from support.journals import every_event, numbered, record, topics_changed


def without_order(event: object) -> object:
    """Topics that changed alike stand together on disk; their order says nothing."""
    if isinstance(event, TopicsChanged):
        return replace(event, changes=tuple(sorted(event.changes, key=lambda c: c.topic)))
    return event


@pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
def test_a_record_reads_as_it_was_written(event: object) -> None:
    written = record(17, event)  # type: ignore[arg-type]
    found = decode(encode(written))
    assert replace(found, event=without_order(found.event)) == replace(  # type: ignore[arg-type]
        written,
        event=without_order(written.event),  # type: ignore[arg-type]
    )


def test_there_is_an_example_of_every_type_of_event() -> None:
    assert sorted(type(event).__name__ for event in every_event()) == sorted(event_types())


def test_a_line_is_one_json_object_that_ends_in_its_hash() -> None:
    line = encode(record(17))
    members = json.loads(line)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert list(members) == ["v", "seq", "node", "wall_ms", "mono_ms", "type", "data", "hash"]
    assert (members["v"], members["seq"], members["type"]) == (1, 17, "KvChanged")
    assert len(members["hash"]) == 16


def test_the_hash_depends_on_the_line_and_on_the_hash_before_it() -> None:
    line = encode(record(1), CHAIN_START)
    assert hash_of(line) == true_hash(line, CHAIN_START)
    assert hash_of(encode(record(1), b"another!")) != hash_of(line)
    assert true_hash(line.replace(b"key-1", b"key-2"), CHAIN_START) != hash_of(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}\n", id="no-hash"),
        pytest.param(b'{"a":1,"hash":"0123456789abcdeg"}\n', id="not-hex"),
        pytest.param(b'{"a":1,"hash":"0123456789abcdef"\n', id="cut"),
    ],
)
def test_a_line_without_a_hash_has_none(line: bytes) -> None:
    assert hash_of(line) is None


def test_topics_that_changed_alike_share_an_entry() -> None:
    event = TopicsChanged(
        revision=1,
        cause=Cause.REGISTER,
        peer="",
        cluster="c",
        broker="b",
        changes=(
            QueueChange("a", None, (8, 8, 6, 0)),
            QueueChange("b", (1, 1, 6, 0), None),
            QueueChange("c", None, (8, 8, 6, 0)),
            QueueChange("d", None, (8, 8, 2, 0), (8, 8, 6, 0)),
        ),
    )
    assert json.loads(encode(record(1, event)))["data"]["changes"] == [
        {"before": None, "after": [8, 8, 6, 0], "topics": ["a", "c"]},
        {"before": [1, 1, 6, 0], "after": None, "topics": ["b"]},
        {"before": None, "after": [8, 8, 2, 0], "topics": ["d"], "registered": [8, 8, 6, 0]},
    ]


def test_query_counts_are_lists_and_other_named_tuples_objects() -> None:
    data = {
        type(event).__name__: json.loads(encode(record(1, event)))["data"]
        for event in every_event()
    }
    assert data["RouteQueries"]["topics"] == [["orders", 20, 0, 1], ["typo", 0, 3, 0]]
    assert data["GuardEngaged"]["suspects"][0]["silent_ms"] == 121_000
    assert data["GroupRestated"]["members"][0]["data_version"] == [0, 1, 2]
    assert data["MappingsChanged"]["mappings"][0]["curr_id_map"] == [[0, 1], [2, 3]]


def test_members_of_a_later_version_are_skipped() -> None:
    line = encode(record(3)).replace(b'"data":{', b'"later":[1],"data":{"also":{"later":2},')
    assert decode(line) == record(3)


def test_an_event_of_a_later_version_is_kept_as_it_is() -> None:
    line = encode(record(3)).replace(b'"KvChanged"', b'"KvRenamed"')
    event = decode(line).event
    assert isinstance(event, UnknownEvent)
    assert (event.type, event.revision, event.cause) == ("KvRenamed", 3, Cause.ADMIN)
    assert event.data["key"] == "key-3"
    assert encode(decode(line)) == encode(record(3, event))
    assert json.loads(encode(decode(line)))["data"] == json.loads(line)["data"]


def test_a_cause_of_a_later_version_makes_the_event_unknown() -> None:
    event = decode(encode(record(3)).replace(b'"admin"', b'"whim"')).event
    assert isinstance(event, UnknownEvent)
    assert (event.type, event.cause, event.data["cause"]) == ("KvChanged", Cause.JOURNAL, "whim")


@pytest.mark.parametrize(
    "line",
    [
        encode(record(1)).replace(b'"v":1', b'"v":2'),
        b'{"v":2,"something":"else entirely"}\n',
    ],
    ids=["same-members", "other-members"],
)
def test_a_newer_schema_is_refused_with_both_numbers(line: bytes) -> None:
    with pytest.raises(NewerSchema, match=r"version 2 .* up to 1"):
        decode(line)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n", id="empty-line"),
        pytest.param(b"[]\n", id="list"),
        pytest.param(b"{}\n", id="no-members"),
        pytest.param(b'{"v":1}\n', id="too-few"),
        pytest.param(b"\xff\xfe\n", id="not-utf-8"),
        pytest.param(b"\0" * 40, id="zeros"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(encode(record(1))[:-30], id="cut"),
        pytest.param(encode(record(1)).replace(b'"key-1"', b"1"), id="wrong-type"),
        pytest.param(encode(record(1)).replace(b'"admin"', b'["admin"]'), id="odd-cause"),
        pytest.param(encode(record(1)).replace(b'"data":{', b'"data":[{'), id="not-json"),
        pytest.param(
            b'{"v":1,"seq":1,"node":"n","wall_ms":1,"mono_ms":1,"type":"Later","data":[]}\n',
            id="unknown-type-of-no-object",
        ),
    ],
)
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(BadRecord):
        decode(line)


def test_the_place_of_a_line_is_had_without_its_event() -> None:
    place = place_of(encode(record(9, wall_ms=5)).replace(b'"data":{', b'"data":{"odd":[{}],'))
    assert (place.seq, place.wall_ms) == (9, 5)
    with pytest.raises(BadRecord):
        place_of(b"{}\n")


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    event = replace(numbered(1), key="a\ud800b", after="\udfff")
    found = decode(encode(record(1, event)))
    assert found.event == replace(event, key="a?b", after="?")


def test_line_feeds_in_names_stay_inside_the_line() -> None:
    event = topics_changed("a\nb", "c\u2028d")
    line = encode(record(1, event))
    assert line.count(b"\n") == 1
    assert decode(line).event == event


def test_broker_ids_and_numbers_keep_their_size() -> None:
    event = next(event for event in every_event() if isinstance(event, BrokerLeft))
    event = replace(event, broker_id=2**63 - 1, addrs_before={2**63 - 1: "a:1"}, generation=2**64)
    assert decode(encode(record(2**40, event))) == record(2**40, event)


def test_a_record_without_queries_reads() -> None:
    event = RouteQueries(revision=1, cause=Cause.WINDOW, peer="", window_ms=1, topics=(), others=0)
    assert decode(encode(Record(1, 2, 3, "n", event))).event == event
