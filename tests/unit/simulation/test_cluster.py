"""Which faults happen when, and what a table shows of simulated brokers."""

from collections import defaultdict
from itertools import islice, pairwise

import pytest
from rich.console import Console

from routebook.cli.simulate import brokers_table
from routebook.simulation.broker import BrokerView, State, spare_address
from routebook.simulation.faults import FAULT_KINDS, LONGEST_S, SHORTEST_S, Fault, random_faults


def plan(count: int = 300, *, brokers: int = 4, seed: int = 1, every_s: float = 0.5) -> list[Fault]:
    return list(
        islice(random_faults(FAULT_KINDS, brokers=brokers, seed=seed, every_s=every_s), count)
    )


def test_the_same_seed_makes_the_same_faults() -> None:
    assert plan(seed=7) == plan(seed=7)
    assert plan(seed=7) != plan(seed=8)


def test_faults_are_in_the_order_of_their_time() -> None:
    times = [fault.at_s for fault in plan()]
    assert times == sorted(times)


@pytest.mark.parametrize("brokers", [1, 2, 50])
def test_a_broker_suffers_one_fault_at_a_time(brokers: int) -> None:
    of_broker: dict[int, list[Fault]] = defaultdict(list)
    for fault in plan(brokers=brokers):
        of_broker[fault.broker].append(fault)
    for faults in of_broker.values():
        for one, next_one in pairwise(faults):
            assert one.at_s + one.lasts_s < next_one.at_s


def test_every_broker_and_every_kind_has_its_turn() -> None:
    faults = plan()
    assert {fault.broker for fault in faults} == {0, 1, 2, 3}
    assert {fault.kind for fault in faults} == set(FAULT_KINDS)


def test_only_the_kinds_that_are_asked_for_happen() -> None:
    faults = islice(random_faults(["kill", "flap"], brokers=3, seed=0, every_s=1.0), 50)
    assert {fault.kind for fault in faults} == {"kill", "flap"}


def test_faults_last_within_their_bounds_and_come_about_as_often_as_told() -> None:
    faults = plan(2000, brokers=1000, every_s=2.0)
    assert all(SHORTEST_S <= fault.lasts_s <= LONGEST_S for fault in faults)
    assert 1.8 < faults[-1].at_s / len(faults) < 2.2


def test_every_index_has_an_address_of_its_own() -> None:
    addresses = {spare_address(i) for i in range(70_000)}
    assert len(addresses) == 70_000
    assert spare_address(0) == "127.1.0.1:10911"
    assert spare_address(69_999) == "127.2.17.112:10911"


def view(
    name: str, state: State = "up", *, writable: bool = True, registered: int = 2
) -> BrokerView:
    return BrokerView(name, "127.1.0.1:10911", 0, state, writable, 5, registered, 2, None)


def drawn(views: list[BrokerView], rows: int) -> list[str]:
    screen = Console(width=120, color_system=None)
    with screen.capture() as captured:
        screen.print(brokers_table("c", views, rows))
    return [line.rstrip() for line in captured.get().splitlines() if line.strip()]


@pytest.mark.parametrize(
    "troubled",
    [
        pytest.param(view("b-3", "killed", registered=0), id="killed"),
        pytest.param(view("b-3", writable=False), id="read-only"),
        pytest.param(view("b-3", registered=1), id="missing-at-a-node"),
    ],
)
def test_the_table_shows_brokers_in_trouble_first(troubled: BrokerView) -> None:
    title, _, _, first, second, rest = drawn([view("b-1"), view("b-2"), troubled], rows=2)

    assert title == "c: 2 of 3 brokers registered everywhere"
    assert first.split()[0] == "b-3"
    assert second.split()[0] == "b-1"
    assert rest == "... and 1 more"


def test_a_table_that_has_room_hides_nobody() -> None:
    assert "more" not in drawn([view("b-1")], rows=1)[-1]
