"""The guard: what makes it let go, and what becomes of those it held."""

from collections.abc import Callable

import pytest

from routebook.events import BrokerLeft, Cause, GuardEngaged, GuardReleased
from routebook.slices import carried_out
from support.silence import ALL, HOLD_MS, TIMEOUT_MS, WINDOW_MS, Silence, all_held, kinds

# -- those who come back or leave


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(lambda silence: silence.hear(3), id="heartbeat"),
        pytest.param(lambda silence: silence.hear(3, link=99), id="heartbeat-over-another-link"),
        pytest.param(lambda silence: silence.register(3), id="registration"),
        pytest.param(lambda silence: silence.register(3, link=99), id="registration-anew"),
        pytest.param(lambda silence: silence.renew(3), id="registration-repeated"),
    ],
)
def test_a_held_broker_that_is_heard_of_is_as_good_as_any(sign: Callable[[Silence], None]) -> None:
    silence = all_held()
    sign(silence)
    silence.pass_time(10)
    assert silence.held == {*ALL} - {3}
    assert silence.live == set(ALL)

    # It has its usual time again, and outlives the hold by being heard of.
    for _ in range(9):
        silence.pass_time(HOLD_MS // 10)
        silence.hear(3)
    silence.pass_time(HOLD_MS // 10)
    assert (silence.held, silence.live) == (set(), {3})
    silence.pass_time(TIMEOUT_MS)
    assert silence.live == set()


@pytest.mark.parametrize("how", ["unregister", "close"])
def test_a_held_broker_that_says_goodbye_leaves_at_once(how: str) -> None:
    silence = all_held()
    if how == "unregister":
        silence.unregister(3)
    else:
        silence.events += carried_out(silence.table.close_link(4, Cause.CONNECTION_CLOSED, "p"))[0]
    assert silence.live == set(ALL) - {3}

    silence.pass_time(HOLD_MS)
    [released] = silence.of(GuardReleased)
    assert (released.left, released.returned, released.dropped) == (1, 0, 11)


def test_a_held_broker_that_returns_under_another_name_leaves_and_joins() -> None:
    silence = all_held()
    silence.register(3, group="renamed")
    silence.pass_time(10)

    assert silence.held == set(ALL) - {3}
    assert silence.member(3).group.name == "renamed"
    assert silence.live == set(ALL)


def test_when_all_have_left_there_is_nothing_to_hold() -> None:
    silence = all_held()
    silence.unregister(*ALL)
    silence.pass_time(10)

    [released] = silence.of(GuardReleased)
    assert (released.reason, released.left, released.dropped) == ("evidence", 12, 0)
    assert silence.table.guard.why is None


@pytest.mark.parametrize(
    ("back", "most"),
    [pytest.param(6, False, id="as-many-as-not"), pytest.param(7, True, id="most")],
)
def test_when_most_are_back_the_others_have_a_window_to_follow(back: int, most: bool) -> None:
    silence = all_held(window_ms=800)
    until_ms = silence.table.guard.until_ms
    silence.hear(*range(back))
    silence.pass_time(1)
    assert silence.table.guard.until_ms == (silence.now_ms + 800 if most else until_ms)

    silence.pass_time(799)
    assert silence.held == set(range(back, 12))
    silence.hear(*range(back))
    silence.pass_time(1)
    assert silence.live == (set(range(back)) if most else set(ALL))
    if most:
        [released] = silence.of(GuardReleased)
        assert (released.reason, released.returned, released.dropped) == ("evidence", 7, 5)


def test_who_follows_within_the_window_is_believed() -> None:
    silence = all_held()
    for number in ALL:
        silence.hear(*range(number + 1))
        silence.pass_time(WINDOW_MS // 6)

    assert silence.live == set(ALL)
    [released] = silence.of(GuardReleased)
    assert (released.returned, released.dropped) == (12, 0)


def test_those_who_came_back_and_fell_silent_again_are_no_evidence() -> None:
    silence = all_held(window_ms=2 * TIMEOUT_MS)
    until_ms = silence.table.guard.until_ms
    silence.hear(*range(8))
    silence.pass_time(1)
    assert silence.table.guard.until_ms < until_ms

    silence.pass_time(TIMEOUT_MS)
    assert silence.held == set(ALL)
    assert silence.table.guard.until_ms == until_ms
    assert silence.of(GuardEngaged)[-1].hold_ms == until_ms - silence.now_ms
    silence.pass_time(WINDOW_MS * 3)
    assert silence.live == set(ALL)


def test_who_came_back_and_fell_silent_again_has_not_come_back() -> None:
    silence = all_held(window_ms=2 * TIMEOUT_MS)
    silence.hear(*range(11))
    silence.pass_time(600)
    silence.hear(7, 8, 9, 10)
    silence.pass_time(401)

    assert silence.held == {*range(7), 11}
    assert silence.table.guard.until_ms == silence.table.guard.since_ms + HOLD_MS


# -- the end of a hold


@pytest.mark.parametrize(
    ("after_ms", "over"),
    [
        pytest.param(HOLD_MS - 1, False, id="one-ms-before"),
        pytest.param(HOLD_MS, True, id="at-the-deadline"),
        pytest.param(100 * HOLD_MS, True, id="long-after"),
    ],
)
def test_a_hold_ends_at_its_deadline(after_ms: int, over: bool) -> None:
    silence = all_held()
    events = silence.pass_time(after_ms)

    if not over:
        assert (events, silence.live) == ([], set(ALL))
        return
    assert kinds(events) == ["GuardReleased", *["BrokerLeft"] * 12]
    [released] = silence.of(GuardReleased)
    assert (released.reason, released.peer) == ("deadline", "")
    assert (released.returned, released.left, released.dropped) == (0, 0, 12)
    assert {event.cause for event in silence.of(BrokerLeft)} == {Cause.EXPIRED}
    assert silence.links == [number + 1 for number in ALL]
    assert (silence.live, silence.held) == (set(), set())
    assert not silence.table.topics.queues("orders")


def test_a_node_is_awake_when_a_hold_ends() -> None:
    silence = all_held()
    assert silence.table.members.next_deadline_ms() == silence.table.guard.until_ms


def test_who_falls_silent_later_is_held_as_well_and_not_for_longer() -> None:
    silence = Silence()
    silence.pass_time(600)
    silence.hear(10, 11)
    silence.pass_time(401)
    until_ms = silence.table.guard.until_ms
    silence.pass_time(600)

    assert silence.held == set(ALL)
    assert silence.table.guard.until_ms == until_ms
    first, second = silence.of(GuardEngaged)
    assert [suspect.broker for suspect in second.suspects] == ["b10", "b11"]
    assert (first.hold_ms, second.hold_ms) == (HOLD_MS, HOLD_MS - 600)
    silence.pass_time(until_ms - silence.now_ms)
    assert silence.live == set()


def test_who_falls_silent_when_most_are_back_goes_like_any_other() -> None:
    silence = all_held()
    silence.hear(*range(10))
    silence.pass_time(200)
    silence.idle(0)

    assert silence.held == {10, 11}
    assert silence.live == set(ALL) - {0}


def test_the_next_time_is_a_hold_of_its_own() -> None:
    silence = all_held()
    silence.unregister(11)
    silence.hear(*range(10))
    silence.pass_time(1)
    silence.pass_time(WINDOW_MS)
    silence.hear(9)
    silence.register(10, 11)  # one was dropped because most were back, the other had left
    silence.pass_time(TIMEOUT_MS - WINDOW_MS)
    assert silence.held == set(range(9))
    guard = silence.table.guard
    assert (guard.since_ms, guard.until_ms) == (silence.now_ms, silence.now_ms + HOLD_MS)

    silence.pass_time(HOLD_MS)
    first, second = silence.of(GuardReleased)
    assert (first.returned, first.left, first.dropped) == (10, 1, 1)
    assert (second.returned, second.left, second.dropped) == (0, 0, 9)


def test_brokers_dropped_after_a_hold_do_not_make_others_suspect() -> None:
    silence = Silence(40)
    silence.pass_time(600)
    silence.hear(*range(25, 40))
    silence.pass_time(401)
    assert silence.held == set(range(25))
    for _ in range(10):
        silence.hear(*range(25, 40))
        silence.pass_time(HOLD_MS // 10)
    assert silence.live == set(range(25, 40))

    silence.idle(25)
    assert silence.live == set(range(26, 40))


# -- an administrator


def test_an_administrator_lets_all_go() -> None:
    silence = all_held()
    events = silence.release()

    assert kinds(events) == ["GuardReleased", *["BrokerLeft"] * 12]
    [released] = silence.of(GuardReleased)
    assert (released.reason, released.peer, released.dropped) == ("admin", "admin:1", 12)
    assert {event.peer for event in silence.of(BrokerLeft)} == {"admin:1"}
    assert silence.links == [number + 1 for number in ALL]
    assert (silence.live, silence.held) == (set(), set())
    assert silence.pass_time(HOLD_MS) == []


def test_an_administrator_does_not_let_go_who_has_come_back_or_left_since() -> None:
    silence = all_held()
    silence.hear(0, 1)
    silence.unregister(2)
    silence.register(2, link=99)
    silence.unregister(3)
    silence.release()

    assert silence.live == {0, 1, 2}
    [released] = silence.of(GuardReleased)
    assert (released.returned, released.left, released.dropped) == (2, 2, 8)


def test_there_is_nothing_to_release_when_nobody_is_held() -> None:
    silence = Silence()
    assert silence.release() == []
    silence.pass_time(TIMEOUT_MS + 1)
    assert silence.held == set(ALL)  # and the guard is as awake as before


def test_when_all_came_back_there_is_nobody_to_release() -> None:
    silence = all_held()
    silence.hear(*ALL)
    assert kinds(silence.release()) == ["GuardReleased"]
    assert silence.live == set(ALL)


@pytest.mark.parametrize(
    ("after_ms", "held"),
    [
        pytest.param(WINDOW_MS - 1, False, id="within-a-window"),
        pytest.param(WINDOW_MS, True, id="a-window-later"),
    ],
)
def test_after_a_release_the_guard_holds_nobody_for_a_window(after_ms: int, held: bool) -> None:
    silence = Silence(40)
    silence.pass_time(600)
    silence.hear(*range(25, 40))
    silence.pass_time(401)
    silence.release()
    assert silence.live == set(range(25, 40))
    silence.now_ms += after_ms
    silence.idle(*range(25, 40))

    assert silence.held == (set(range(25, 40)) if held else set())


# -- idle connections


def test_brokers_whose_connections_fell_idle_are_held() -> None:
    silence = Silence()
    events = silence.idle(*ALL)

    assert kinds(events) == ["GuardEngaged"]
    assert silence.held == silence.live == set(ALL)
    assert silence.links == []


def test_a_few_idle_connections_are_as_good_as_a_goodbye() -> None:
    silence = Silence()
    silence.idle(3, 4)

    assert [(e.addr, e.cause, e.peer) for e in silence.of(BrokerLeft)] == [
        ("b3:1", Cause.IDLE, "p3"),
        ("b4:1", Cause.IDLE, "p4"),
    ]


def test_the_first_idle_connection_is_seen_in_the_company_of_those_who_follow() -> None:
    # The patience of the connection counts where it is less than the broker's own.
    silence = Silence(timeout_ms=100 * TIMEOUT_MS, idle_ms=TIMEOUT_MS)
    silence.now_ms += 600
    silence.idle(0)

    assert silence.held == {0}
    assert silence.of(GuardEngaged)[0].silent == 12


def test_a_broker_held_for_its_deadline_is_still_held_when_its_connection_falls_idle() -> None:
    silence = all_held()
    assert silence.idle(*ALL) == []
    silence.pass_time(HOLD_MS - 1)
    assert silence.held == set(ALL)
    silence.pass_time(1)
    assert silence.live == set()


def test_a_held_broker_heard_over_a_strangers_connection_does_not_leave_with_it() -> None:
    silence = Silence()
    silence.now_ms += 600
    silence.idle(*ALL)
    silence.hear(3, link=99)
    silence.pass_time(10)
    assert silence.held == set(ALL) - {3}

    silence.events += carried_out(silence.table.close_link(99, Cause.CONNECTION_CLOSED, "p"))[0]
    assert silence.live == set(ALL)


def test_a_held_broker_that_registers_over_a_new_connection_lives_by_it() -> None:
    silence = Silence()
    silence.now_ms += 600
    silence.idle(*ALL)
    silence.hear(3, link=99)
    silence.register(3, link=98)
    silence.events += carried_out(silence.table.close_link(98, Cause.CONNECTION_CLOSED, "p"))[0]
    assert silence.live == set(ALL) - {3}


def test_a_hold_that_is_over_is_over_for_idle_connections_too() -> None:
    silence = all_held()
    silence.register(*range(20, 40))
    silence.now_ms += HOLD_MS
    silence.hear(*range(20, 40))
    silence.idle(5, 20)

    # Those held go because their time is up, wherever it is noticed; broker 20 is one of twenty.
    left = {event.addr: (event.cause, event.peer) for event in silence.of(BrokerLeft)}
    assert left["b5:1"] == left["b6:1"] == (Cause.EXPIRED, "")
    assert left["b20:1"] == (Cause.IDLE, "p20")
    assert silence.live == set(range(21, 40))
    assert silence.links == [number + 1 for number in ALL]
