"""When topics are polled."""

import random
from collections import Counter

import pytest

from routebook.client.poll_schedule import PollSchedule


def schedule(*, jitter: float = 0.2) -> PollSchedule:
    return PollSchedule(30.0, jitter, random.Random(7))


def test_a_new_topic_is_due_at_once_when_nobody_has_asked_for_it() -> None:
    times = schedule()
    times.add("orders", 100.0, at_once=True)
    assert times.next_in_s(100.0) == 0
    assert times.take_due(100.0, 10) == ["orders"]
    assert times.take_due(100.0, 10) == []


def test_a_topic_just_asked_for_is_due_within_a_period() -> None:
    times = schedule()
    times.add("orders", 100.0, at_once=False)
    assert 3 <= times.next_in_s(100.0) <= 30


def test_later_polls_are_a_jittered_period_apart() -> None:
    times = schedule()
    times.add("orders", 0.0, at_once=False)
    now, waits = 0.0, []
    for _ in range(200):
        wait_s = times.next_in_s(now)
        now += wait_s
        waits.append(wait_s)
        assert times.take_due(now, 10) == ["orders"]
    assert all(24 <= wait_s <= 36 for wait_s in waits[1:])
    assert min(waits[1:]) < 26
    assert max(waits[1:]) > 34


def test_without_jitter_polls_are_a_period_apart() -> None:
    times = schedule(jitter=0)
    times.add("orders", 0.0, at_once=False)
    now = times.next_in_s(0.0)
    times.take_due(now, 10)
    assert times.next_in_s(now) == pytest.approx(30)


@pytest.mark.parametrize("at_once", [True, False])
def test_topics_that_came_together_are_spread_over_the_period(at_once: bool) -> None:
    times = schedule()
    for number in range(1_000):
        times.add(f"topic-{number}", 0.0, at_once=at_once)
    while times.take_due(0.0, 100):
        pass
    taken: Counter[int] = Counter()
    for tick in range(1, 101):
        now = tick * times.tick_s
        while due := times.take_due(now, 100):
            taken[tick // 10] += len(due)
    assert all(taken[tenth] < 200 for tenth in range(11)), taken
    assert sum(taken.values()) >= 1_000


def test_what_is_due_within_a_tick_is_taken_together() -> None:
    times = schedule(jitter=0)
    for number, added in enumerate((0.0, 0.1, 0.2, 1.0)):
        times.add(f"topic-{number}", added, at_once=True)
    assert times.take_due(0.0, 10) == ["topic-0", "topic-1", "topic-2"]


def test_no_more_is_taken_than_wanted() -> None:
    times = schedule()
    for number in range(5):
        times.add(f"topic-{number}", 0.0, at_once=True)
    assert [len(times.take_due(0.0, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_dropped_topic_is_never_due() -> None:
    times = schedule()
    times.add("orders", 0.0, at_once=True)
    times.drop("orders")
    assert "orders" not in times
    assert times.next_in_s(0.0) == float("inf")
    assert times.take_due(1_000.0, 10) == []


def test_a_topic_dropped_and_added_again_is_due_once() -> None:
    times = schedule()
    for _ in range(3):
        times.drop("orders")
        times.add("orders", 0.0, at_once=True)
    assert times.take_due(0.0, 10) == ["orders"]


@pytest.mark.parametrize(
    ("period_s", "jitter"),
    [(0.0, 0.2), (-1.0, 0.2), (float("nan"), 0.2), (30.0, -0.1), (30.0, 0.6)],
)
def test_periods_that_make_no_sense_are_refused(period_s: float, jitter: float) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        PollSchedule(period_s, jitter, random.Random(1))
