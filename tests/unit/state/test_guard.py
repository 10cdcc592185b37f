"""The guard: which brokers it holds."""

import pytest

from routebook.events import (
    BrokerLeft,
    Cause,
    GuardEngaged,
    GuardReleased,
    MemberFact,
    MinBrokerChanged,
    Suspect,
)
from routebook.settings import GuardSettings
from routebook.slices import carried_out
from routebook.state.model import Group, Member
from support.silence import ALL, DEFAULTS, HOLD_MS, TIMEOUT_MS, WINDOW_MS, Silence, kinds

# -- who is held


def test_brokers_that_fall_silent_together_are_held_and_it_is_said_why() -> None:
    silence = Silence()
    events = silence.pass_time(TIMEOUT_MS + 1)

    assert kinds(events) == ["GuardEngaged"]
    [engaged] = silence.of(GuardEngaged)
    assert engaged.cause is Cause.GUARD
    assert engaged.suspects[3] == Suspect("c", "b3", 0, "b3:1", TIMEOUT_MS + 1)
    assert len(engaged.suspects) == engaged.silent == engaged.live == 12
    assert (engaged.limit, engaged.window_ms, engaged.hold_ms) == (6, WINDOW_MS, HOLD_MS)
    assert silence.live == silence.held == set(ALL)
    assert silence.links == []
    assert len(silence.table.topics.queues("orders")) == 12
    guard = silence.table.guard
    assert (guard.since_ms, guard.until_ms) == (silence.now_ms, silence.now_ms + HOLD_MS)
    assert guard.why is engaged


@pytest.mark.parametrize(
    ("silent", "held"),
    [
        pytest.param(6, False, id="half-of-twelve"),
        pytest.param(7, True, id="one-more"),
    ],
)
def test_more_than_the_share_must_fall_silent(silent: int, held: bool) -> None:
    silence = Silence()
    silence.pass_time(600)
    silence.hear(*range(silent, 12))
    silence.pass_time(401)

    assert silence.held == (set(range(silent)) if held else set())
    assert silence.live == (set(ALL) if held else set(range(silent, 12)))


@pytest.mark.parametrize(
    ("brokers", "held"),
    [pytest.param(9, False, id="too-few"), pytest.param(10, True, id="just-enough")],
)
def test_of_few_brokers_any_number_may_die_at_once(brokers: int, held: bool) -> None:
    silence = Silence(brokers)
    silence.pass_time(TIMEOUT_MS + 1)

    assert len(silence.live) == len(silence.held) == (brokers if held else 0)


def test_the_defaults_do_nothing_in_a_cluster_of_three() -> None:
    settings = GuardSettings()
    assert {
        "share_percent": settings.share_percent,
        "min_brokers": settings.min_brokers,
    } == DEFAULTS
    silence = Silence(3)
    assert kinds(silence.pass_time(TIMEOUT_MS + 1)) == ["BrokerLeft"] * 3


@pytest.mark.parametrize("off", [{"share_percent": 0}, {"hold_ms": 0}, {"share_percent": 100}])
def test_the_guard_can_be_switched_off(off: dict[str, int]) -> None:
    silence = Silence(**off)
    assert kinds(silence.pass_time(TIMEOUT_MS + 1)) == ["BrokerLeft"] * 12


@pytest.mark.parametrize(
    ("silent", "held"),
    [pytest.param(29, 0, id="29-percent"), pytest.param(30, 30, id="30-percent")],
)
def test_a_share_is_exact(silent: int, held: int) -> None:
    # 0.29 * 100 is less than 29
    silence = Silence(100, share_percent=29)
    silence.pass_time(600)
    silence.hear(*range(silent, 100))
    silence.pass_time(401)

    assert len(silence.held) == held
    assert len(silence.live) == 100 - silent + held


def test_the_first_to_run_out_of_time_is_seen_in_the_company_of_those_who_follow() -> None:
    silence = Silence()
    for number in ALL:  # each is heard for the last time at another moment
        silence.hear(*range(number, 12))
        silence.now_ms += 40
    silence.pass_time(TIMEOUT_MS - 12 * 40 + 1)

    [engaged] = silence.of(GuardEngaged)
    assert [suspect.broker for suspect in engaged.suspects] == ["b0"]
    assert (engaged.silent, engaged.live) == (12, 12)


@pytest.mark.parametrize(
    ("age_ms", "held"),
    [
        pytest.param(TIMEOUT_MS // 2, False, id="half-of-their-time"),
        pytest.param(TIMEOUT_MS // 2 + 1, True, id="longer"),
    ],
)
def test_those_count_who_were_silent_for_more_than_half_of_their_time(
    age_ms: int, held: bool
) -> None:
    silence = Silence(window_ms=TIMEOUT_MS)
    silence.now_ms += TIMEOUT_MS + 1 - age_ms
    silence.hear(*range(1, 12))
    silence.pass_time(age_ms)

    assert (silence.held == {0}) is held


@pytest.mark.parametrize(
    ("window_ms", "held"),
    [
        pytest.param(299, False, id="one-ms-short"),
        pytest.param(300, True, id="within-the-window"),
    ],
)
def test_those_count_whose_time_runs_out_within_the_window(window_ms: int, held: bool) -> None:
    silence = Silence(window_ms=window_ms)
    silence.now_ms += 301
    silence.hear(*range(1, 12))
    silence.pass_time(TIMEOUT_MS - 300)  # the others have 300 ms left

    assert (silence.held == {0}) is held


def test_those_count_whose_time_is_up_and_who_were_not_looked_at_yet() -> None:
    silence = Silence()
    silence.now_ms += TIMEOUT_MS + 2 * WINDOW_MS
    silence.idle(0)

    assert silence.held == {0}
    assert silence.of(GuardEngaged)[0].silent == 12


@pytest.mark.parametrize(
    ("every_ms", "held"),
    [
        pytest.param(250, False, id="slowly"),
        pytest.param(125, False, id="five-in-a-window"),
        pytest.param(80, True, id="seven-in-a-window"),
    ],
)
def test_brokers_that_die_one_by_one_are_let_go(every_ms: int, held: bool) -> None:
    silence = Silence()
    begin_ms = silence.now_ms
    while silence.live and not silence.held and silence.now_ms < begin_ms + 5000:
        age_ms = silence.now_ms - begin_ms
        silence.hear(*(n for n in silence.live if n * every_ms >= age_ms))
        silence.pass_time(10)

    assert bool(silence.held) is held
    if not held:
        assert kinds(silence.events)[-12:] == ["BrokerLeft"] * 12


@pytest.mark.parametrize(
    ("later_ms", "held"),
    [
        pytest.param(WINDOW_MS, True, id="a-window-ago"),
        pytest.param(WINDOW_MS + 1, False, id="one-ms-longer"),
    ],
)
def test_those_count_who_were_let_go_within_the_window(later_ms: int, held: bool) -> None:
    silence = Silence()
    silence.idle(0, 1, 2, 3)
    silence.now_ms += later_ms
    silence.hear(*range(4, 12))
    silence.idle(4, 5, 6)

    assert silence.held == ({4, 5, 6} if held else set())
    assert 0 not in silence.live
    if held:
        [engaged] = silence.of(GuardEngaged)
        assert (engaged.silent, engaged.live, engaged.limit) == (7, 12, 6)


def test_one_let_go_that_is_back_counts_once_and_as_well() -> None:
    silence = Silence()
    silence.idle(0, 1, 2, 3)
    silence.register(0, 1, 2, 3, link=99)
    silence.idle(4, 5, 6)
    assert (silence.held, len(silence.live)) == (set(), 9)

    silence.idle(7, 8, 9)  # with 4, 5 and 6 that makes six of twelve
    assert (silence.held, len(silence.live)) == (set(), 6)
    silence.idle(10)
    assert silence.held == {10}
    assert silence.of(GuardEngaged)[0].live == 12


def test_one_that_said_goodbye_does_not_count_at_all() -> None:
    silence = Silence()
    silence.unregister(10, 11)
    silence.pass_time(600)
    silence.hear(6, 7, 8, 9)
    silence.pass_time(401)

    [engaged] = silence.of(GuardEngaged)
    assert (engaged.silent, engaged.live, engaged.limit) == (6, 10, 5)


@pytest.mark.parametrize("how", ["unregister", "close"])
def test_goodbyes_are_never_doubted(how: str) -> None:
    silence = Silence()
    if how == "unregister":
        silence.unregister(*ALL)
    else:
        for number in ALL:
            silence.events += carried_out(
                silence.table.close_link(number + 1, Cause.CONNECTION_CLOSED, "p")
            )[0]

    assert (silence.live, silence.of(GuardEngaged)) == (set(), [])


def test_a_node_that_was_stopped_itself_blames_nobody() -> None:
    silence = Silence()
    silence.pass_time(100 * TIMEOUT_MS)  # and then it reads what came meanwhile
    silence.hear(*ALL)
    silence.pass_time(10)

    assert silence.live == set(ALL)
    [released] = silence.of(GuardReleased)
    assert (released.reason, released.returned, released.dropped) == ("evidence", 12, 0)


# -- brokers of different kinds


def recovered(group: Group, addr: str) -> Member:
    known = MemberFact(0, addr, None, TIMEOUT_MS, 0, 0, None, (), confirmed=False)
    return Member(group, known, link=None)


def test_brokers_not_confirmed_since_a_restart_are_never_held_and_tell_nothing() -> None:
    silence = Silence(10)
    for number in range(100, 130):
        group = Group("c", f"b{number}")
        group.members[0] = recovered(group, f"b{number}:1")
        silence.table.members.adopt(group, silence.now_ms)
    silence.pass_time(600)
    silence.hear(*range(1, 10))
    events = silence.pass_time(401)

    # Thirty run out of time together with broker 0, which is judged as one of ten.
    assert kinds(events) == ["BrokerLeft"] * 31
    causes = {event.broker: event.cause for event in silence.of(BrokerLeft)}
    assert (causes["b0"], causes["b100"]) == (Cause.EXPIRED, Cause.NOT_CONFIRMED)


def test_brokers_not_confirmed_go_while_others_are_held() -> None:
    silence = Silence()
    group = Group("c", "b100")
    group.members[0] = recovered(group, "b100:1")
    silence.table.members.adopt(group, silence.now_ms)
    silence.pass_time(TIMEOUT_MS + 1)

    assert silence.held == silence.live == set(ALL)
    assert [event.cause for event in silence.of(BrokerLeft)] == [Cause.NOT_CONFIRMED]


SHORT_MS, LONG_MS = 10_000, 120_000  # acting-master brokers beat every second; others, every 30 s


def mixed(short: int, long: int) -> Silence:
    silence = Silence(0, window_ms=60_000, hold_ms=600_000)
    silence.register(*range(short), timeout_ms=SHORT_MS, acting_master=True)
    silence.register(*range(short, short + long), timeout_ms=LONG_MS)
    return silence


def test_brokers_that_are_heard_of_rarely_are_not_suspected_for_it() -> None:
    silence = mixed(4, 8)
    silence.now_ms += 20_000
    silence.hear(*range(4))
    silence.pass_time(SHORT_MS + 1)  # those of 120 s were heard of 30 s ago

    assert (silence.held, silence.live) == (set(), set(range(4, 12)))


def test_brokers_of_short_patience_are_held_when_they_are_most_of_all() -> None:
    silence = mixed(7, 5)
    silence.pass_time(SHORT_MS + 1)
    assert silence.held == set(range(7))
    begun_ms = silence.now_ms

    silence.pass_time(LONG_MS - SHORT_MS)  # the others have fallen silent as well
    assert silence.held == set(ALL)
    assert silence.table.guard.until_ms == begun_ms + 600_000


@pytest.mark.parametrize(
    ("long", "held"),
    [pytest.param(9, False, id="nine-remain"), pytest.param(10, True, id="ten-remain")],
)
def test_where_few_are_of_short_patience_they_go_and_the_rest_is_judged_alone(
    long: int, held: bool
) -> None:
    silence = mixed(8, long)
    silence.pass_time(SHORT_MS + 1)
    assert silence.live == set(range(8, 8 + long))
    silence.pass_time(LONG_MS - SHORT_MS)

    assert len(silence.held) == len(silence.live) == (long if held else 0)


def test_a_held_master_keeps_its_group_when_its_slave_leaves() -> None:
    silence = Silence()
    silence.register(50, group="b0", broker_id=1, acting_master=True)
    silence.pass_time(TIMEOUT_MS + 1)
    assert silence.held == {*ALL, 50}
    silence.unregister(50)

    group = silence.member(0).group
    assert group.addrs == {0: "b0:1"}
    assert group in silence.table.topics.queues("own-0")
    silence.pass_time(10)
    assert silence.held == set(ALL)


def test_nobody_acts_for_a_held_master_until_it_is_let_go() -> None:
    silence = Silence()
    silence.register(50, group="b0", broker_id=1, acting_master=True)
    silence.pass_time(600)
    silence.hear(50)
    silence.pass_time(401)
    assert silence.held == set(ALL)
    assert silence.of(MinBrokerChanged) == []

    silence.pass_time(500)
    silence.hear(50)
    silence.release()
    [changed] = silence.of(MinBrokerChanged)
    assert (changed.offline_addr, changed.min_broker_addr) == ("b0:1", "b50:1")
    assert silence.live == {50}
