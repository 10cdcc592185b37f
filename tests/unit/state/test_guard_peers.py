"""Brokers that somebody made up tell the guard nothing of those that are there."""

from collections import Counter

import pytest

from routebook.events import GuardEngaged
from routebook.slices import finished
from routebook.state.census import Census, Origin
from routebook.state.census import counted as counted_brokers
from routebook.state.guard import Weights
from support.silence import TIMEOUT_MS, WINDOW_MS, Silence, all_held

REAL = range(13)
FAKE = range(50, 64)
LAYOUTS = [
    pytest.param(False, True, id="an-address-each-and-one-connection-of-fakes"),
    pytest.param(False, False, id="an-address-each-and-many-connections-of-fakes"),
    pytest.param(True, True, id="all-behind-one-address-and-one-connection-of-fakes"),
]


def with_fakes(number: int, *, behind_one: bool, one_connection: bool) -> Silence:
    """The cluster, with or without an address for each broker, and fakes of one other peer."""
    silence = Silence(0)
    for real in REAL:
        silence.register(
            real, peer=f"{'10.0.0.1' if behind_one else f'10.0.1.{real}'}:{40_000 + real}"
        )
    for fake in FAKE[:number]:
        port, link = (1, 999) if one_connection else (fake, fake + 1)
        silence.register(fake, peer=f"10.9.9.9:{port}", link=link)
    return silence


@pytest.mark.parametrize(("behind_one", "one_connection"), LAYOUTS)
def test_fakes_that_live_do_not_switch_the_guard_off(
    behind_one: bool, one_connection: bool
) -> None:
    silence = with_fakes(13, behind_one=behind_one, one_connection=one_connection)
    silence.now_ms += 600
    silence.hear(*FAKE[:13], link=999 if one_connection else None)
    silence.pass_time(401)

    assert silence.held == set(REAL)
    [engaged] = silence.of(GuardEngaged)
    assert (engaged.silent, engaged.live, engaged.limit) == (13, 14, 7)


@pytest.mark.parametrize(("behind_one", "one_connection"), LAYOUTS)
def test_fakes_that_fall_silent_do_not_switch_the_guard_on(
    behind_one: bool, one_connection: bool
) -> None:
    silence = with_fakes(14, behind_one=behind_one, one_connection=one_connection)
    silence.now_ms += 600
    silence.hear(*REAL)
    silence.pass_time(401)

    assert silence.held == set()
    assert silence.live == set(REAL)


def test_fakes_on_the_address_of_the_cluster_count_as_their_one_connection() -> None:
    silence = Silence(0)
    for real in REAL:
        silence.register(real, peer=f"127.0.0.1:{40_000 + real}")
    silence.register(*FAKE[:13], peer="127.0.0.1:1", link=999)
    silence.now_ms += 600
    silence.hear(*FAKE[:13], link=999)
    silence.pass_time(401)
    assert silence.held == set(REAL)


def test_fakes_that_come_back_do_not_end_the_hold_of_others() -> None:
    silence = with_fakes(14, behind_one=False, one_connection=True)
    silence.pass_time(TIMEOUT_MS + 1)
    assert silence.held == {*REAL, *FAKE}
    silence.hear(*FAKE, link=999)
    silence.pass_time(1)
    silence.pass_time(WINDOW_MS)
    assert silence.held == set(REAL)


@pytest.mark.parametrize("fakes", [1, 13, 14, 200])
@pytest.mark.parametrize("silent_too", [True, False], ids=["silent", "alive"])
@pytest.mark.parametrize(("behind_one", "one_connection"), LAYOUTS)
def test_fakes_of_one_peer_do_not_make_a_small_cluster_one_that_is_guarded(
    fakes: int, one_connection: bool, silent_too: bool, behind_one: bool
) -> None:
    silence, real = Silence(0), range(8)
    for each in real:
        silence.register(
            each, peer=f"{'10.0.0.1' if behind_one else f'10.0.1.{each}'}:{40_000 + each}"
        )
    made_up = range(50, 50 + fakes)
    for each in made_up:
        port, link = (1, 999) if one_connection else (each, each + 1)
        silence.register(each, peer=f"10.9.9.9:{port}", link=link)
    silence.now_ms += 600
    if not silent_too:
        silence.hear(*made_up, link=999 if one_connection else None)
    silence.pass_time(401)

    assert silence.held.isdisjoint(real)
    assert silence.live.isdisjoint(real)


def census_of(brokers: list[tuple[str, int]]) -> Census:
    return finished(counted_brokers(Counter(Origin(*each) for each in brokers)))


@pytest.mark.parametrize(
    ("brokers", "counted"),
    [
        pytest.param([(f"h{n}", n) for n in range(5)], 5, id="a-host-each"),
        pytest.param([(f"h{n // 2}", n) for n in range(10)], 10, id="two-on-each-host"),
        pytest.param([("nat", n) for n in range(12)], 12, id="all-behind-one-address"),
        pytest.param([("agent", 1)] * 12, 12, id="all-over-one-connection"),
        pytest.param([(f"h{n * 2 // 3}", n) for n in range(12)], 12, id="one-or-two-on-a-host"),
    ],
)
@pytest.mark.parametrize("fakes", [0, 1, 13, 14, 5000])
def test_an_ordinary_cluster_counts_all_of_its_brokers_and_a_stranger_as_one_more_host(
    brokers: list[tuple[str, int]], counted: int, fakes: int
) -> None:
    an_ordinary_link = min(fakes, counted // len(set(brokers)))
    an_ordinary_host = min(fakes, -(-counted // len({host for host, _ in brokers})))
    for links, at_most in ((1, an_ordinary_link), (10_000, an_ordinary_host)):
        strangers = [("stranger", 100 + n % links) for n in range(fakes)]
        census = census_of([*brokers, *strangers])
        for each in brokers:
            assert counted <= census.around(Origin(*each)) <= counted + at_most


def test_a_connection_with_many_brokers_is_an_ordinary_one_to_others_of_its_host() -> None:
    real = [("nat", n) for n in range(5)]
    census = census_of([*real, *[("nat", 99)] * 13])
    assert [census.around(Origin(*each)) for each in real] == [6] * 5


def test_those_who_come_back_still_end_the_hold_of_others() -> None:
    silence = all_held()
    silence.hear(*range(7))
    silence.pass_time(1)
    silence.hear(*range(7))
    silence.pass_time(WINDOW_MS)
    assert silence.live == set(range(7))


@pytest.mark.parametrize(
    "origins",
    [
        pytest.param([Origin(f"h{n}", n) for n in range(7)], id="a-host-each"),
        pytest.param([Origin("nat", n) for n in range(7)], id="a-connection-each-behind-one"),
        pytest.param([Origin("agent", 1)] * 7, id="all-over-one-connection"),
    ],
)
def test_where_nobody_has_more_than_others_a_share_is_one_of_brokers(origins: list[Origin]) -> None:
    assert list(map(Weights(origins).of, origins)) == [pytest.approx(1 / 7)] * 7


def test_all_together_weigh_one() -> None:
    origins = [Origin("a", 1), Origin("a", 1), Origin("a", 2), Origin("b", 3), Origin("c", 4)]
    assert sum(map(Weights(origins).of, origins)) == pytest.approx(1)
