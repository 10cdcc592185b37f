"""Which node is asked: one and always the same, until it fails; then the next in turn."""

import asyncio
import random
from collections.abc import AsyncIterator, MutableSequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from routebook.client import node
from routebook.client.client import NameServerClient
from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    CannotConnect,
    ConnectionLost,
    LeavingNode,
    NoAnswer,
    NodeError,
    NotReady,
    Refused,
    TopicNotFound,
)
from routebook.client.requests import route_question
from routebook.wire.address import Address
from support import misbehaving, raw
from support.leaks import nothing_left_behind
from support.misbehaving import Behaviour, Caller, Server, answer, answering, routes, unused_port
from support.waiting import soon

TIMEOUT_S = 0.8


class InOrder(random.Random):
    """Leaves lists as they are: the first node is chosen first."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left_behind():
        yield


def client_of(*servers: Server | str) -> NameServerClient:
    addresses = [server if isinstance(server, str) else server.address for server in servers]
    return NameServerClient(addresses, timeout_s=TIMEOUT_S, rng=InOrder())


async def by_whom(client: NameServerClient, topic: str = "T") -> str:
    return str((await client.route(topic)).node)


# -- the choice


async def test_the_chosen_node_is_kept() -> None:
    async with Server(routes) as first, Server(routes) as second, Server(routes) as third:
        async with NameServerClient([s.address for s in (first, second, third)]) as client:
            assert client.chosen is None
            for n in range(30):
                await client.route(f"T{n}")
            chosen = str(client.chosen)

        asked = {server.address: len(server.requests) for server in (first, second, third)}
        assert asked.pop(chosen) == 30
        assert list(asked.values()) == [0, 0]


async def test_clients_spread_over_the_nodes() -> None:
    async with Server(routes) as first, Server(routes) as second, AsyncExitStack() as clients:
        for seed in range(20):
            client = NameServerClient([first.address, second.address], rng=random.Random(seed))
            await clients.enter_async_context(client)
            await client.route("T")

        assert first.accepted > 0
        assert second.accepted > 0


FAILURES = [
    pytest.param(misbehaving.silence, NoAnswer, id="hangs"),
    pytest.param(misbehaving.hang_up, ConnectionLost, id="closes-at-once"),
    pytest.param(misbehaving.hang_up_on_request, ConnectionLost, id="closes"),
    pytest.param(misbehaving.reset_on_request, ConnectionLost, id="resets"),
    pytest.param(misbehaving.go_away, LeavingNode, id="goes-away"),
    pytest.param(misbehaving.not_ready, NotReady, id="not-ready"),
    pytest.param(misbehaving.saying(b"nonsense"), BadAnswer, id="talks-nonsense"),
]


@pytest.mark.parametrize(("behaviour", "kind"), FAILURES)
async def test_the_next_node_answers_and_is_kept_when_one_fails(
    behaviour: Behaviour, kind: type[NodeError]
) -> None:
    async with (
        Server(behaviour) as first,
        Server(routes) as second,
        Server(routes) as third,
        client_of(first, second, third) as client,
    ):
        assert await by_whom(client) == second.address
        assert str(client.chosen) == second.address

        first.behaviour = routes  # that it is well again is no reason to change
        for _ in range(3):
            assert await by_whom(client) == second.address
        assert third.accepted == 0


@pytest.mark.parametrize(("behaviour", "kind"), FAILURES)
async def test_when_all_fail_each_node_is_named_with_what_it_did(
    behaviour: Behaviour, kind: type[NodeError]
) -> None:
    async with (
        Server(behaviour) as first,
        Server(behaviour) as second,
        client_of(first, second) as client,
    ):
        with pytest.raises(AllNodesFailed) as raised:
            await client.route("T")

        assert {str(failure.address) for failure in raised.value.failures} == {
            first.address,
            second.address,
        }
        assert {type(failure) for failure in raised.value.failures} == {kind}
        told = str(raised.value)
        for failure in raised.value.failures:
            assert str(failure.address) in told
            assert told.count(failure.what) == 1


async def test_nodes_that_die_are_left_and_taken_again_in_turn() -> None:
    first, second = unused_port(), unused_port()
    client = client_of(f"127.0.0.1:{first}", f"127.0.0.1:{second}")
    async with client, AsyncExitStack() as revived:
        async with Server(routes, port=second):
            async with Server(routes, port=first):
                assert await by_whom(client) == f"127.0.0.1:{first}"
            assert await by_whom(client) == f"127.0.0.1:{second}"
            await revived.enter_async_context(Server(routes, port=first))
            assert await by_whom(client) == f"127.0.0.1:{second}"
        assert await by_whom(client) == f"127.0.0.1:{first}"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(raw.TOPIC_NOT_EXIST, TopicNotFound, id="no-such-topic"),
        pytest.param(raw.SYSTEM_ERROR, Refused, id="system-error"),
        pytest.param(raw.NO_PERMISSION, Refused, id="no-permission"),
        pytest.param(4711, Refused, id="unknown-code"),
    ],
)
async def test_a_refusal_is_an_answer_and_its_node_stays_chosen(
    code: int, kind: type[Refused]
) -> None:
    async with (
        Server(answering(code=code, remark="because")) as first,
        Server(routes) as second,
        client_of(first, second) as client,
    ):
        for _ in range(2):
            with pytest.raises(Refused, match="because") as raised:
                await client.route("T")
            assert type(raised.value) is kind
            assert (str(raised.value.address), raised.value.code) == (first.address, code)

        assert second.accepted == 0
        assert str(client.chosen) == first.address


async def test_of_many_questions_each_is_answered_by_the_first_node_that_can() -> None:
    async def halves(caller: Caller) -> None:
        """Answer every other question and hang up."""
        for n in range(10):
            request = await caller.request()
            if n % 2:
                await caller.send(answer(request.opaque, body=misbehaving.ROUTE_BODY))

    questions = [route_question(f"T{n}") for n in range(10)]
    async with (
        Server(halves) as first,
        Server(routes) as second,
        client_of(first, second) as client,
    ):
        found = await client.ask_many(questions)

    nodes = [str(answer.node) for answer in found if not isinstance(answer, Exception)]
    assert nodes == [first.address if n % 2 else second.address for n in range(10)]


# -- within the deadline


async def test_nodes_that_hang_leave_time_for_the_others() -> None:
    async with (
        Server(misbehaving.silence) as first,
        Server(misbehaving.silence) as second,
        Server(misbehaving.trickle) as third,
        Server(routes) as fourth,
        client_of(first, second, third, fourth) as client,
    ):
        assert await by_whom(client) == fourth.address
        assert [len(s.requests) for s in (first, second, third)] == [1, 1, 1]

        assert await by_whom(client) == fourth.address
        assert [len(s.requests) for s in (first, second, third)] == [1, 1, 1]


async def test_nodes_that_do_not_even_connect_leave_time_for_the_others() -> None:
    with misbehaving.black_hole() as port:
        async with Server(routes) as second, client_of(f"127.0.0.1:{port}", second) as client:
            assert await by_whom(client) == second.address


async def test_a_hanging_node_ends_the_call_at_its_deadline() -> None:
    async with Server(misbehaving.silence) as only, client_of(only) as client:
        with pytest.raises(AllNodesFailed) as raised:
            await client.route("T", timeout_s=0.3)

        (failure,) = raised.value.failures
        assert str(failure) == f"{only.address}: no answer within 0.3 s"


async def test_a_node_that_rests_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "FIRST_REST_S", 3600.0)
    monkeypatch.setattr(node, "LONGEST_REST_S", 3600.0)
    code = raw.SYSTEM_ERROR

    async def starting(caller: Caller) -> None:
        while True:
            opaque = (await caller.request()).opaque
            remark, body = "name server not ready", misbehaving.ROUTE_BODY
            await caller.send(answer(opaque, code, body, remark=remark))

    async with (
        Server(starting) as second,
        client_of(f"127.0.0.1:{unused_port()}", second) as client,
    ):
        with pytest.raises(AllNodesFailed):
            await client.route("T")

        code = raw.SUCCESS
        async with asyncio.timeout(20.0):
            assert (await client.route("T", timeout_s=600.0)).brokers


# -- down, and up again


async def test_when_all_are_down_each_says_so_and_when_they_are_up_they_answer() -> None:
    ports = [unused_port(), unused_port()]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    async with client_of(*addresses) as client:
        for _ in range(3):
            with pytest.raises(AllNodesFailed) as raised:
                await client.route("T")
            failures = raised.value.failures
            assert sorted(str(failure.address) for failure in failures) == sorted(addresses)
            assert all(isinstance(failure, CannotConnect) for failure in failures)
            assert str(raised.value).count("connection refused") == 1

        async with Server(routes, port=ports[0]), Server(routes, port=ports[1]):
            assert await by_whom(client) in addresses


async def test_a_node_that_refuses_connections_is_not_hammered() -> None:
    """Attempts cannot be seen at a port where nobody listens; the answers come as fast as them."""
    loop = asyncio.get_running_loop()
    async with client_of(f"127.0.0.1:{unused_port()}") as client:
        failed, until = 0, loop.time() + 1.0
        while loop.time() < until:
            with pytest.raises(AllNodesFailed):
                await client.route("T")
            failed += 1

    assert failed < 20


async def test_a_connection_closed_while_idle_is_replaced_unnoticed() -> None:
    async def one_answer(caller: Caller) -> None:
        request = await caller.request()
        await caller.send(answer(request.opaque, body=misbehaving.ROUTE_BODY))

    async with Server(one_answer) as server, client_of(server) as client:
        for n in range(5):
            # Sometimes the end of the stream is known by now, sometimes it comes meanwhile.
            await client.route("T")
            if n % 2:
                await soon("the end", lambda: server.connections, until=lambda open_: not open_)

        assert server.accepted == 5


@pytest.mark.parametrize(
    "at_first",
    [misbehaving.hang_up_on_request, misbehaving.reset_on_request, misbehaving.go_away],
    ids=["closes", "resets", "goes-away"],
)
async def test_the_only_node_is_asked_once_more_on_a_new_connection(at_first: Behaviour) -> None:
    async def better_later(caller: Caller) -> None:
        await (at_first if caller.number == 1 else routes)(caller)

    async with Server(better_later) as server, client_of(server) as client:
        assert await by_whom(client) == server.address
        assert server.accepted == 2


async def test_answers_under_way_are_not_lost_when_a_node_goes_away() -> None:
    sent_away = asyncio.Event()

    async def leaving(caller: Caller) -> None:
        if caller.number > 1:
            await routes(caller)
        first, second = await caller.request(), await caller.request()
        await caller.send(answer(second.opaque, raw.GO_AWAY, remark="please go away"))
        await sent_away.wait()
        await caller.send(answer(first.opaque, body=misbehaving.ROUTE_BODY))
        await routes(caller)

    async with Server(leaving) as server, client_of(server) as client:
        early = asyncio.create_task(client.route("T1", timeout_s=5.0))
        await soon("the first question", lambda: server.requests)

        await client.route("T2")
        assert server.accepted == 2
        sent_away.set()
        await early

        await soon("one connection", lambda: server.connections, until=lambda open_: open_ == 1)


async def test_a_burst_of_farewells_is_one_reason_to_rest() -> None:
    async with Server(misbehaving.go_away) as server, client_of(server) as client:
        outcomes = await asyncio.gather(
            *(client.route(f"T{n}") for n in range(50)), return_exceptions=True
        )
        assert all(isinstance(outcome, AllNodesFailed) for outcome in outcomes)

        server.behaviour = routes
        assert (await client.route("T", timeout_s=3.0)).node == Address.parse(server.address)
