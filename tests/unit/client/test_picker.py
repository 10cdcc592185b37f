"""Whose turn it is among the queues of a topic."""

import random
from collections import Counter

import pytest

from routebook.client.faults import FaultTable
from routebook.client.picker import QueuePicker
from routebook.client.queues import MessageQueue
from routebook.client.routes import TopicRoute
from support.topic_routes import group, mapping, queues, route

A_B_C = route(
    [group("a"), group("b"), group("c")], [queues("a"), queues("b", write=1), queues("c", write=1)]
)


def picker(
    found: TopicRoute = A_B_C, *, seed: int = 1, faults: FaultTable | None = None
) -> QueuePicker:
    return QueuePicker(found, random.Random(seed), faults=faults)


def names(
    chooser: QueuePicker, count: int, *, avoiding: str | None = None, now_ms: int = 0
) -> list[str]:
    picked = [chooser.pick(avoiding=avoiding, now_ms=now_ms) for _ in range(count)]
    return [f"{queue.broker}{queue.queue_id}" for queue in picked if queue is not None]


def test_queues_are_taken_in_turn() -> None:
    turns = names(picker(), 8)
    start = ["a0", "a1", "b0", "c0"].index(turns[0])
    assert turns == (["a0", "a1", "b0", "c0"] * 3)[start : start + 8]


def test_every_queue_may_be_the_first() -> None:
    firsts = Counter(names(picker(seed=seed), 1)[0] for seed in range(100))
    assert set(firsts) == {"a0", "a1", "b0", "c0"}


def test_a_topic_without_queues_has_none_to_pick() -> None:
    nothing = route([], [])
    assert picker(nothing).pick(now_ms=0) is None
    assert picker(nothing, faults=FaultTable()).pick(avoiding="a", now_ms=0) is None


# -- without a fault table


def test_a_failed_broker_is_passed_over() -> None:
    for seed in range(20):
        assert names(picker(seed=seed), 6, avoiding="a") in (
            ["b0", "c0"] * 3,
            ["c0", "b0"] * 3,
        )


def test_passing_over_uses_up_turns() -> None:
    chooser = next(p for p in (picker(seed=s) for s in range(100)) if names(p, 1) == ["c0"])
    assert names(chooser, 1, avoiding="a") == ["b0"]
    assert names(chooser, 1) == ["c0"]


def test_a_failed_broker_is_used_when_there_is_no_other() -> None:
    only = route([group("a")], [queues("a", write=3)])
    assert sorted(names(picker(only), 3, avoiding="a")) == ["a0", "a1", "a2"]


# -- with a fault table


def faults(*, paused: str = "", unreachable: str = "") -> FaultTable:
    table = FaultTable()
    for broker in paused + unreachable:
        reachable = broker not in unreachable
        table.record(broker, 0, isolate=True, reachable=reachable, now_ms=0)
    return table


@pytest.mark.parametrize(
    ("table", "avoiding", "allowed"),
    [
        pytest.param(faults(), None, "abc", id="all-well"),
        pytest.param(faults(paused="ab"), None, "c", id="paused-ones-passed-over"),
        pytest.param(faults(paused="a"), "b", "c", id="neither-paused-nor-just-failed"),
        pytest.param(faults(paused="ab"), "c", "ab", id="paused-rather-than-just-failed"),
        pytest.param(faults(paused="a", unreachable="b"), "c", "a", id="paused-but-reachable"),
        pytest.param(faults(paused="c", unreachable="ab"), None, "c", id="reachable-of-all-paused"),
        pytest.param(faults(unreachable="abc"), "b", "abc", id="nothing-left-so-anything"),
    ],
)
def test_healthy_brokers_first_then_reachable_ones_then_any(
    table: FaultTable, avoiding: str | None, allowed: str
) -> None:
    picked = {
        name[0]
        for seed in range(40)
        for name in names(picker(seed=seed, faults=table), 2, avoiding=avoiding, now_ms=5)
    }
    assert picked == set(allowed)


def test_a_broker_is_back_when_its_pause_is_over() -> None:
    chooser = picker(faults=faults(paused="ab"))
    assert set(names(chooser, 4, now_ms=9_999)) == {"c0"}
    assert set(names(chooser, 4, now_ms=10_000)) == {"a0", "a1", "b0", "c0"}


def test_a_retry_begins_anywhere() -> None:
    chooser = picker(faults=FaultTable())
    seconds = set()
    for _ in range(50):
        seconds.update(names(chooser, 1, avoiding="c"))
    assert seconds == {"a0", "a1", "b0"}


def test_without_faults_turns_go_on_as_ever() -> None:
    assert names(picker(faults=FaultTable()), 8) == names(picker(), 8)


# -- logical queues

STATIC = route(
    mappings={
        "a": mapping("a", [0, 1, 2], total=4),
        "b": mapping("b", [3], total=4),
    }
)


@pytest.mark.parametrize("table", [None, FaultTable()], ids=["plain", "fault-table"])
def test_logical_queues_are_avoided_by_their_holder(table: FaultTable | None) -> None:
    chooser = picker(STATIC, faults=table)
    picked = {chooser.pick(avoiding="a", now_ms=0) for _ in range(5)}
    assert picked == {MessageQueue("orders", "__syslo__global__", 3)}


def test_logical_queues_are_as_healthy_as_their_holder() -> None:
    chooser = picker(STATIC, faults=faults(paused="b"))
    picked = {queue.queue_id for _ in range(8) if (queue := chooser.pick(now_ms=1)) is not None}
    assert picked == {0, 1, 2}
