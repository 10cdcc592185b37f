"""Rows of the pipeline are told as ``routebook history`` tells their events; without Spark."""

from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, StructType

from routebook.events import Cause, Event, RequestRefused
from routebook.journal.record import encode
from routebook_spark.answers import telling
from routebook_spark.answers.events import event_in
from routebook_spark.schemas import EVENTS, PROMOTED
from support.journals import every_event, record, topics_changed
from support.spark_histories import event_row

EVERY = {event.type_name: event for event in every_event()}


def row_of(event: Event) -> Row:
    """As Spark hands it to a function."""
    said = event_row(record(1, event))
    data = _as_spark(said["data"], EVENTS["data"].dataType)
    promoted = {name: said.get(name) for name in PROMOTED}
    return Row(type=event.type_name, **promoted, data=data, raw=None)


def _as_spark(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return Row(**{each.name: _as_spark(value.get(each.name), each.dataType) for each in kind})
    if isinstance(kind, ArrayType):
        return [_as_spark(item, kind.elementType) for item in value]
    return value


def refused(subject: str) -> RequestRefused:
    return RequestRefused(
        revision=1,
        cause=Cause.REFUSED,
        peer="10.0.0.1:40112",
        request="REGISTER_BROKER",
        subject=subject,
        reason="crc32 not match",
        answered_success=False,
    )


def told(row: Row, broker: str | None = None) -> str | None:
    sentence: str | None = telling.told.func(row, broker, None, None, None)
    return sentence


@pytest.mark.parametrize("event", EVERY.values(), ids=EVERY.keys())
def test_a_row_is_the_event_it_was_made_of(event: Event) -> None:
    assert event_in(row_of(event)) == event


def test_members_an_old_journal_does_not_have_are_as_they_used_to_be() -> None:
    said = row_of(EVERY["RecordsLost"]).asDict()
    data = said["data"].asDict() | {"flooded": None}
    assert event_in(Row(**said | {"data": Row(**data)})) == EVERY["RecordsLost"]


def test_an_event_of_a_later_version_is_told_as_one() -> None:
    line = encode(record(1, refused("b"))).replace(b"RequestRefused", b"RequestMislaid")
    row = Row(**row_of(refused("b")).asDict() | {"type": "RequestMislaid", "raw": line.decode()})
    assert told(row) == "RequestMislaid was recorded, which only a newer Routebook can explain."


@pytest.mark.parametrize(
    ("subject", "is_told"),
    [
        ("c/broker-a:0 10.0.0.1:10911", True),
        ("c/broker-ab:0 10.0.0.1:10911", False),
        ("broker-a b 10.0.0.1:10911", False),
    ],
)
def test_a_refusal_is_told_of_the_broker_it_names(subject: str, is_told: bool) -> None:
    sentence = told(row_of(refused(subject)), "broker-a")
    assert (sentence is not None) is is_told


TURN = {
    "cluster": "c",
    "broker": "b",
    "before": None,
    "after": [8, 8, 6, 0],
    "away_ms": None,
    "cause": "register",
}
CAME = "on b with 8 read and 8 write queues, permission RW-, by a registration from"


@pytest.mark.parametrize(
    ("differs", "sentence"),
    [
        ({}, f"orders appeared {CAME} an unknown address."),
        ({"away_ms": 30_000}, f"orders came back after 30 s {CAME} an unknown address."),
        ({"away_ms": -1}, f"orders came back {CAME} an unknown address."),
        (
            {"before": [8, 8, 6, 0], "after": None, "cause": "lost_track"},
            "orders is no longer on b: it was not among what was restated after records were lost.",
        ),
        (
            {"before": [8, 8, 6, 0], "after": None, "cause": None},
            "orders is no longer on b: nobody knows why.",
        ),
        (
            {"cause": "of a later version"},
            "TopicsChanged was recorded, which only a newer Routebook can explain.",
        ),
    ],
)
def test_what_became_of_a_topic_is_told_without_the_record(
    differs: dict[str, Any], sentence: str
) -> None:
    assert telling.turn_told.func("orders", Row(**TURN | differs), None, None) == sentence


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("stopped", "no record between 00:00:01Z and 00:00:09Z: the node was down."),
        ("records_lost", "no record between 00:00:01Z and 00:00:09Z: records were lost."),
        (
            "records_missing",
            "no record between 00:00:01Z and 00:00:09Z: records are missing from the journal.",
        ),
        ("clock", "the clock of the node was set: times before and after it do not compare."),
    ],
)
def test_the_end_of_a_coverage_is_told_as_far_as_it_is_known(ends: str, sentence: str) -> None:
    assert telling.silence_told.func(ends, 1000, 9000) == sentence


def test_what_clients_are_told_as_before_is_not_told() -> None:
    row = row_of(topics_changed("orders", "refunds"))
    data = row["data"].asDict()
    (same,) = data["changes"]
    as_before = Row(**same.asDict() | {"before": same["after"], "topics": ["same"]})
    more = Row(**row.asDict() | {"data": Row(**data | {"changes": [same, as_before]})})
    assert told(more) == told(row)
    none = Row(**row.asDict() | {"data": Row(**data | {"changes": [as_before]})})
    assert told(none) is None
