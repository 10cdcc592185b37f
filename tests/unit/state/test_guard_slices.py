"""Thousands may fall silent together: they are judged a few a slice, as they were found."""

from collections.abc import Iterator

from routebook.events import BrokerLeft, Event, GuardEngaged, GuardReleased
from routebook.state.guard import SUSPECTS_A_RECORD, WEIGHED_A_SLICE
from support.silence import HOLD_MS, TIMEOUT_MS, Silence

MANY = 4 * WEIGHED_A_SLICE


def silenced() -> tuple[Silence, Iterator[list[Event]]]:
    """Many brokers, all silent for too long, and what is about to be done about it."""
    silence = Silence(MANY)
    silence.now_ms += TIMEOUT_MS + 1
    return silence, silence.table.expire(silence.now_ms)


def rest(slices: Iterator[list[Event]]) -> list[Event]:
    return [event for events in slices for event in events]


def until_first_held(slices: Iterator[list[Event]]) -> GuardEngaged:
    for events in slices:
        for event in events:
            if isinstance(event, GuardEngaged):
                return event
    raise AssertionError("nobody is held")


def test_many_are_judged_in_many_slices_and_told_of_in_many_records() -> None:
    silence, slices = silenced()
    judged = list(slices)
    engaged = [e for events in judged for e in events if isinstance(e, GuardEngaged)]
    # Each is met, weighed, put in order, summed up, and held: in a slice of its own every time.
    assert len(judged) >= 5 * MANY // WEIGHED_A_SLICE
    assert max(len(event.suspects) for event in engaged) == SUSPECTS_A_RECORD
    assert len({suspect.addr for event in engaged for suspect in event.suspects}) == MANY
    assert {(event.silent, event.live) for event in engaged} == {(MANY, MANY)}
    assert silence.held == set(range(MANY))


def test_those_held_are_looked_at_a_few_a_slice() -> None:
    silence, slices = silenced()
    rest(slices)
    silence.hear(*range(10))
    looked = list(silence.table.expire(silence.now_ms + 1))
    assert len(looked) >= MANY // WEIGHED_A_SLICE
    assert silence.held == set(range(10, MANY))


def test_one_heard_of_while_all_are_judged_is_neither_held_nor_let_go() -> None:
    silence, slices = silenced()
    next(slices)
    silence.hear(0)
    rest(slices)
    assert silence.held == set(range(1, MANY))
    assert silence.live == set(range(MANY))
    silence.pass_time(1)
    assert 0 in silence.live, "it has a deadline of its own again"


def test_one_that_leaves_while_all_are_judged_is_gone_for_good() -> None:
    silence, slices = silenced()
    next(slices)
    silence.unregister(0)
    rest(slices)
    assert silence.held == set(range(1, MANY))
    silence.pass_time(HOLD_MS + 1)
    assert silence.live == set()


def test_an_administrator_who_releases_while_they_are_being_held_releases_all() -> None:
    silence, slices = silenced()
    first = until_first_held(slices)
    released, leaving = silence.table.release_guard("admin", now_ms=silence.now_ms)
    assert released == len(first.suspects)
    told = [*rest(leaving), *rest(slices)]
    assert [event.dropped for event in told if isinstance(event, GuardReleased)] == [released]
    assert sum(isinstance(event, BrokerLeft) for event in told) == MANY
    assert silence.held == silence.live == set()


def test_one_heard_of_between_the_end_of_a_hold_and_its_turn_stays() -> None:
    silence, slices = silenced()
    rest(slices)
    silence.now_ms += HOLD_MS + 1
    leaving = silence.table.expire(silence.now_ms)
    for events in leaving:
        if any(isinstance(event, GuardReleased) for event in events):
            break
    silence.hear(MANY - 1)
    rest(leaving)
    assert silence.live == {MANY - 1}
