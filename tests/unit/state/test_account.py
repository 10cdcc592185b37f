"""What brokers make a table hold is charged, and what does not fit leaves no trace."""

from sys import getsizeof

import pytest

from routebook.events import Cause, Event, RequestRefused, StaticMapping
from routebook.slices import carried_out
from routebook.state import costs
from routebook.state.account import LEAST, MIB, PROGRAM, Account, Budgets, Kind, shared_out
from routebook.state.model import QueueShape, Registration, VersionStamp
from routebook.state.registrar import RegisterResult
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from support.accounts import check_account

SHAPE = QueueShape(8, 8, 6, 0)
NO_TOPICS: dict[str, QueueShape] = {}


def topics(count: int, of: str = "t") -> dict[str, QueueShape]:
    return {f"{of}-{number}": SHAPE for number in range(count)}


def registration(
    name: str = "a",
    told: dict[str, QueueShape] = NO_TOPICS,
    *,
    host: str = "10.0.0.1",
    link: int = 1,
    mappings: tuple[StaticMapping, ...] = (),
    filter_servers: tuple[str, ...] = (),
) -> Registration:
    return Registration(
        cluster="c",
        name=name,
        broker_id=0,
        addr=f"{name}:10911",
        ha_addr=None,
        heartbeat_timeout_ms=1000,
        acting_master=None,
        zone=None,
        state_version=0,
        stamp=VersionStamp(0, 1, len(told)),
        topics=told,
        mappings=mappings,
        filter_servers=filter_servers,
        fingerprint=None,
        link=link,
        peer=f"{host}:50000",
        shapes=len(set(told.values())),
    )


def mapping(queues: int) -> StaticMapping:
    ids = tuple((number, number) for number in range(queues))
    return StaticMapping("static", "a", queues, 1, None, False, ids)


def table(
    tables: int = 10 * MIB, *, peer_percent: int = 100, broker_percent: int = 100
) -> RouteTable:
    budgets = Budgets(tables, tables, MIB, MIB, MIB, MIB, MIB, peer_percent)
    account = Account(budgets, broker_percent=broker_percent)
    return RouteTable(
        Revision(),
        max_topics_per_broker=10**6,
        max_route_entries=10**7,
        max_brokers_per_group=64,
        account=account,
    )


def register(routes: RouteTable, told: Registration) -> tuple[RegisterResult, list[Event]]:
    events: list[Event] = []
    steps = routes.register(told, now_ms=1)
    while True:
        try:
            events += next(steps)
        except StopIteration as done:
            result: RegisterResult = done.value
            return result, events + result.events


def check_refused(routes: RouteTable, told: Registration, *words: str) -> None:
    entries, used = routes.topics.entries, routes.account.tables
    result, events = register(routes, told)
    assert result.refused is not None
    for word in words:
        assert word in result.refused
    assert [type(event) for event in events] == [RequestRefused]
    assert (routes.topics.entries, routes.account.tables) == (entries, used)
    check_account(routes)


def test_a_limit_is_shared_out_and_something_is_left_for_the_allocator() -> None:
    for limit in (LEAST, 512 * MIB, 64 * 1024 * MIB):
        shares = shared_out(limit)
        given = shares.tables + shares.work + shares.answers + shares.frames
        given += shares.records + shares.caches
        assert given + PROGRAM < limit
        assert shares.tables >= 0.39 * (limit - PROGRAM)


def test_what_leaves_is_given_back_to_the_byte() -> None:
    routes = table()
    register(routes, registration("a", topics(3000), filter_servers=("f:1", "f:2")))
    register(routes, registration("b", topics(2000), host="10.0.0.2", link=2))
    assert routes.account.held_by("10.0.0.1") > routes.account.held_by("10.0.0.2") > 0
    check_account(routes)

    carried_out(routes.close_link(1, cause=Cause.CONNECTION_CLOSED, peer=""))
    check_account(routes)
    # What both had is paid for by the one that is left.
    assert routes.account.held_by("10.0.0.1") == 0
    assert routes.account.used[Kind.TOPICS] > 2000 * (costs.ENTRY + costs.TOPIC)

    carried_out(routes.close_link(2, cause=Cause.CONNECTION_CLOSED, peer=""))
    check_account(routes)
    assert routes.account.tables == 0
    assert routes.account.by_peer == {}


def test_what_does_not_fit_is_refused_with_the_setting_that_says_so() -> None:
    routes = table(MIB)
    check_refused(routes, registration(told=topics(3000)), "bytes more", "memoryLimit")


def test_one_broker_may_fill_its_share_only() -> None:
    routes = table(4 * MIB, broker_percent=25)
    assert register(routes, registration(told=topics(1000)))[0].refused is None
    check_refused(routes, registration(told=topics(3000)), "one broker", "memoryBrokerPercent")


def test_one_peer_may_fill_its_share_only_however_many_brokers_it_plays() -> None:
    routes = table(4 * MIB, peer_percent=50)
    held = 0
    for number in range(20):
        told = registration(f"b{number}", topics(500, of=f"b{number}"), link=number + 1)
        if register(routes, told)[0].refused is None:
            held += 1
    assert 2 <= held < 9
    check_refused(
        routes,
        registration("b20", topics(500, of="b20"), link=21),
        "10.0.0.1 holds",
        "memoryPeerPercent",
    )
    other = registration("other", topics(500), host="10.0.0.2", link=30)
    assert register(routes, other)[0].refused is None


def test_a_full_table_takes_what_says_nothing_new() -> None:
    routes = table(MIB)
    told = topics(1500)
    assert register(routes, registration(told=told))[0].refused is None
    check_refused(routes, registration("late", topics(900, of="x"), link=2), "memoryLimit")

    again = {**told, "t-0": QueueShape(4, 4, 6, 0)}
    assert register(routes, registration(told=again))[0].refused is None
    moved = registration(told=again, host="10.0.0.9", link=3)
    assert register(routes, moved)[0].refused is None
    assert routes.account.held_by("10.0.0.1") == 0


def test_static_mappings_cost_what_their_queues_take() -> None:
    routes = table(MIB)
    told = registration(told=topics(2), mappings=(mapping(5000),))
    assert register(routes, told)[0].refused is None
    assert routes.account.used[Kind.MAPPINGS] > 5000 * costs.QUEUE_OF_MAPPING
    assert register(routes, told)[0].refused is None, "the same once more takes nothing"
    check_refused(routes, registration(told=topics(2), mappings=(mapping(9000),)), "memoryLimit")


def test_filter_servers_and_odd_shapes_are_charged() -> None:
    routes = table(MIB)
    many = tuple(f"filter-{number}:1" * 10 for number in range(2000))
    check_refused(routes, registration(told=topics(2), filter_servers=many), "memoryLimit")
    odd = {f"t{number}": QueueShape(number, number, 6, 0) for number in range(1500)}
    check_refused(routes, registration(told=odd), "memoryLimit")
    assert register(routes, registration(told=dict.fromkeys(odd, SHAPE)))[0].refused is None


def test_a_topic_announced_by_an_administrator_finds_room_or_is_refused() -> None:
    routes = table(MIB)
    register(routes, registration(told=topics(1500)))
    routes.account.pressed = "the node takes too much memory"
    ((refused,), _) = carried_out(routes.register_topic("new", {"a": SHAPE}, peer="10.0.0.7:1"))
    assert isinstance(refused, RequestRefused)
    assert refused.reason == "the node takes too much memory"


@pytest.mark.parametrize("name", ["plain", "größe", "名字", "😀" * 100], ids=ascii)
def test_a_text_is_charged_what_it_takes_in_its_widest_form(name: str) -> None:
    assert costs.text(name) >= getsizeof(name)
    assert costs.texts([name, "x"]) == costs.text(name) + costs.text("x")
