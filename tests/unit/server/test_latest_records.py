"""The latest records take so many bytes, whatever is in them."""

import pytest

from routebook.events import Cause, Event, KvChanged, QueueChange, RequestRefused, TopicsChanged
from routebook.journal.record import Record
from routebook.server.latest_records import (
    MAX_RECORDS,
    LatestRecords,
    cost_of,
    unpacked,
)

NOTE = {"revision": 1, "cause": Cause.ADMIN, "peer": "10.0.0.1:1"}


def written(value: str) -> Event:
    return KvChanged(namespace="n", key="k", before=value, after=value, **NOTE)  # type: ignore[arg-type]


def refused() -> Event:
    return RequestRefused(
        request="R",
        subject="s",
        reason="r",
        answered_success=False,
        **NOTE,  # type: ignore[arg-type]
    )


def added(latest: LatestRecords, events: list[Event]) -> None:
    for seq, event in enumerate(events, start=1):
        latest.add(Record(seq, 0, 0, "node", event))


def test_large_values_push_out_the_oldest_by_their_bytes() -> None:
    latest = LatestRecords(1_000_000)
    for seq in range(1, 51):
        latest.add(Record(seq, 0, 0, "node", written("v" * 100_000)))
        assert latest.bytes <= 1_000_000
    assert seqs(latest) == [47, 48, 49, 50]


def test_the_last_one_is_kept_whatever_it_takes() -> None:
    latest = LatestRecords(1_000)
    added(latest, [written("v" * 100_000), refused(), written("w" * 100_000)])
    assert seqs(latest) == [3]


def test_small_records_are_bounded_by_their_number() -> None:
    latest = LatestRecords(1_000_000_000)
    added(latest, [refused()] * (MAX_RECORDS + 5))
    assert len(latest) == MAX_RECORDS
    assert latest.bytes == MAX_RECORDS * cost_of(refused())


@pytest.mark.parametrize("length", [1, 390])
def test_a_change_of_topics_is_charged_for_the_longest_names(length: int) -> None:
    changes = tuple(QueueChange("t" * length, None, (1, 1, 6, 0)) for _ in range(1000))
    event = TopicsChanged(cluster="c", broker="b", changes=changes, **NOTE)  # type: ignore[arg-type]
    assert cost_of(event) >= 1000 * (390 + 49 + 80)


def test_packed_records_are_smaller_and_stay_what_they_were_while_more_come_and_go() -> None:
    changes = tuple(QueueChange(f"topic-{each}", None, (1, 1, 6, 0)) for each in range(10))
    event = TopicsChanged(cluster="c", broker="b", changes=changes, **NOTE)  # type: ignore[arg-type]
    latest = LatestRecords(12 * cost_of(event))
    added(latest, [event] * 12)
    packing = latest.pack()
    for _ in range(9):
        next(packing)
    for seq in range(13, 20):
        latest.add(Record(seq, 0, 0, "node", event))
    assert seqs(latest) == list(range(20 - len(latest), 20))
    assert len(latest) > 12, "what is packed leaves room for more"
    list(packing)

    assert seqs(latest) == list(range(20 - len(latest), 20))
    assert [record.event for record in unpacked(latest.held())] == [event] * len(latest)
    assert isinstance(latest.held()[0], bytes)
    assert isinstance(latest.held()[-1], Record), "the last one is never packed"
    assert latest.bytes < 12 * cost_of(event) // 2
    before = latest.bytes
    assert list(latest.pack()) == []
    added(latest, [written("v" * 1_000_000)])
    assert len(latest) == 1
    assert latest.bytes == cost_of(written("v" * 1_000_000)) != before


def test_records_are_charged_to_the_host_whose_request_made_them_until_they_are_forgotten() -> None:
    def by(host: int, port: int) -> Event:
        note = {**NOTE, "peer": f"10.0.0.{host}:{port}"}
        return KvChanged(namespace="n", key="k", before=None, after="v" * 1000, **note)  # type: ignore[arg-type]

    cost = cost_of(by(1, 10))
    latest = LatestRecords(10 * cost)
    added(latest, [by(1, 10), by(1, 11), by(2, 10)])
    assert latest.by_host == {"10.0.0.1": 2 * cost, "10.0.0.2": cost}
    packing = latest.pack()
    next(packing)
    assert sum(latest.by_host.values()) == latest.bytes < 3 * cost
    list(packing)
    assert sum(latest.by_host.values()) == latest.bytes
    for seq in range(4, 60):
        latest.add(Record(seq, 0, 0, "node", by(3, 10)))
        assert sum(latest.by_host.values()) == latest.bytes
    assert latest.by_host == {"10.0.0.3": 10 * cost}


def seqs(latest: LatestRecords) -> list[int]:
    return [record.seq for record in unpacked(latest.held())]
