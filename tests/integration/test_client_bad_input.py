"""Servers that misbehave: typed errors within the deadline, and nothing left behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from routebook.client.client import NameServerClient
from routebook.client.dialing import Dialing
from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    ConnectionLost,
    NoAnswer,
    NodeError,
    RequestTooLarge,
)
from routebook.wire.address import Address
from support import misbehaving, raw
from support.leaks import nothing_left_behind
from support.misbehaving import Behaviour, Caller, Server, answer, answering, saying
from support.waiting import soon

TIMEOUT_S = 0.4
GIANT = 1 << 30


@pytest.fixture(autouse=True)
async def leaks() -> AsyncIterator[None]:
    async with nothing_left_behind():
        yield


def header(text: bytes) -> bytes:
    return raw.frame(text)


NOT_ANSWERS = [
    pytest.param(saying(header(b"no JSON")), BadAnswer, "not JSON", id="header-not-json"),
    pytest.param(saying(header(b"[]")), BadAnswer, "not a JSON object", id="header-a-list"),
    pytest.param(saying(header(b"[" * 50_000)), BadAnswer, "", id="header-nested-deeply"),
    pytest.param(saying(header(b'{"opaque":"x"}')), BadAnswer, "opaque", id="opaque-no-number"),
    pytest.param(saying(header(b'{"extFields":[]}')), BadAnswer, "extFields", id="fields-a-list"),
    pytest.param(saying(raw.frame(b"{}", codec=7)), BadAnswer, "encoding 7", id="unknown-codec"),
    pytest.param(saying(raw.frame(b"\0", codec=1)), BadAnswer, "binary", id="binary-cut-short"),
    pytest.param(saying(raw.u32(8) + raw.u32(100) + b"{}"), BadAnswer, "100", id="header-too-long"),
    pytest.param(saying(raw.u32(3)), BadAnswer, "length 3", id="length-too-short"),
    pytest.param(saying(raw.u32(GIANT)), BadAnswer, "exceeds the limit", id="giant-length"),
    pytest.param(saying(raw.u32(0xFFFFFFFF)), BadAnswer, "exceeds", id="negative-length"),
    pytest.param(saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), BadAnswer, "exceeds", id="http"),
    pytest.param(misbehaving.half_a_frame_then_silence, NoAnswer, "", id="half-then-silence"),
    pytest.param(misbehaving.half_a_frame_then_close, ConnectionLost, "", id="half-then-close"),
    pytest.param(misbehaving.silence, NoAnswer, "", id="silence"),
    pytest.param(misbehaving.trickle, NoAnswer, "", id="trickle"),
    pytest.param(misbehaving.wrong_opaque, NoAnswer, "", id="wrong-opaque"),
    pytest.param(misbehaving.requests_instead_of_answers, NoAnswer, "", id="no-response-flag"),
    pytest.param(misbehaving.hang_up, ConnectionLost, "", id="closes-at-once"),
    pytest.param(misbehaving.hang_up_on_request, ConnectionLost, "", id="closes-when-asked"),
    pytest.param(misbehaving.reset_on_request, ConnectionLost, "reset", id="resets"),
]


@pytest.mark.parametrize(("behaviour", "kind", "text"), NOT_ANSWERS)
async def test_what_is_no_answer_is_an_error_and_a_later_answer_is_welcome(
    behaviour: Behaviour, kind: type[NodeError], text: str
) -> None:
    async with Server(behaviour) as server, NameServerClient(server.address) as client:
        with pytest.raises(AllNodesFailed) as raised:
            await client.route("T", timeout_s=TIMEOUT_S)

        assert {type(failure) for failure in raised.value.failures} == {kind}
        assert text in str(raised.value)
        assert raised.value.failures[0].address == Address.parse(server.address)

        server.behaviour = misbehaving.routes
        assert (await client.route("T")).node == Address.parse(server.address)


@pytest.mark.parametrize(("behaviour", "kind", "text"), NOT_ANSWERS)
async def test_all_who_ask_together_learn_the_same(
    behaviour: Behaviour, kind: type[NodeError], text: str
) -> None:
    async with Server(behaviour) as server, NameServerClient(server.address) as client:
        outcomes = await asyncio.gather(
            *(client.route(f"T{n}", timeout_s=TIMEOUT_S) for n in range(20)),
            return_exceptions=True,
        )

        for outcome in outcomes:
            assert isinstance(outcome, AllNodesFailed)
            # Who gives up first takes the connection with it.
            assert {type(failure) for failure in outcome.failures} & {kind, ConnectionLost}

        # One bad moment is one bad moment, however many had to share it.
        server.behaviour = misbehaving.routes
        assert (await client.route("T")).node == Address.parse(server.address)


Call = Callable[[NameServerClient], Awaitable[object]]

CALLS = [
    pytest.param(lambda c: c.route("T"), id="route"),
    pytest.param(lambda c: c.find_route("T"), id="find-route"),
    pytest.param(lambda c: c.cluster_view(), id="cluster-view"),
    pytest.param(lambda c: c.broker_group("c", "b"), id="broker-group"),
    pytest.param(lambda c: c.topics(), id="topics"),
    pytest.param(lambda c: c.system_topics(), id="system-topics"),
    pytest.param(lambda c: c.kv_table("ns"), id="kv-table"),
    pytest.param(lambda c: c.wipe_write_permission("b"), id="wipe"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no JSON", id="no-json"),
        pytest.param(b"[1,2,3]", id="wrong-shape"),
        pytest.param(b"[" * 100_000, id="nested-deeply"),
    ],
)
async def test_a_body_that_says_nothing_is_a_bad_answer_and_the_connection_stays(
    call: Call, body: bytes
) -> None:
    async with Server(answering(body)) as server, NameServerClient(server.address) as client:
        for _ in range(2):
            with pytest.raises(BadAnswer, match=server.address):
                await call(client)

        assert server.accepted == 1


@pytest.mark.parametrize("body", [b"\xff\xfe", b"key=\\u12"], ids=["no-utf8", "half-an-escape"])
async def test_settings_that_are_no_properties_are_a_bad_answer(body: bytes) -> None:
    async with Server(answering(body)) as server, NameServerClient(server.address) as client:
        with pytest.raises(BadAnswer, match="not properties"):
            await client.config()


async def test_an_answer_beyond_the_limit_is_refused_before_it_is_held() -> None:
    sent = 0

    async def flood(caller: Caller) -> None:
        nonlocal sent
        await caller.request()
        await caller.send(raw.u32(GIANT))
        while True:
            await caller.send(bytes(1 << 16))
            sent += 1 << 16

    async with Server(flood) as server, NameServerClient(server.address) as client:
        with pytest.raises(AllNodesFailed, match="exceeds the limit"):
            await client.route("T")

        await soon("the flood to end", lambda: server.connections, until=lambda open_: not open_)
        assert sent < 32 << 20  # what the network's own buffers may take


async def test_the_limit_can_be_set() -> None:
    dialing = Dialing(max_frame=1 << 16)
    large, larger = bytes(1 << 15), bytes(1 << 16)

    async def grow(caller: Caller) -> None:
        await caller.send(answer((await caller.request()).opaque, body=large))
        await caller.send(answer((await caller.request()).opaque, body=larger))

    async with Server(grow) as server, NameServerClient(server.address, dialing=dialing) as client:
        await client.put_kv("ns", "key", "value")
        with pytest.raises(AllNodesFailed, match=f"exceeds the limit of {1 << 16}"):
            await client.put_kv("ns", "key", "value")


async def test_a_server_that_hangs_up_on_everybody_is_not_hammered() -> None:
    async with Server(misbehaving.hang_up) as server, NameServerClient(server.address) as client:
        loop = asyncio.get_running_loop()
        until = loop.time() + 1.0
        while loop.time() < until:
            with pytest.raises(AllNodesFailed):
                await client.route("T")

        assert 2 <= server.accepted < 20


async def test_a_server_that_never_reads_does_not_stop_the_caller() -> None:
    value = "x" * (8 << 20)  # more than the network takes on its own
    async with (
        Server(misbehaving.deafness) as server,
        NameServerClient(server.address, timeout_s=TIMEOUT_S) as client,
    ):
        with pytest.raises(AllNodesFailed) as raised:
            await client.put_kv("ns", "key", value)

        assert isinstance(raised.value.failures[0], NoAnswer)

        server.behaviour = answering()
        await client.put_kv("ns", "key", "value", timeout_s=5.0)


async def test_closing_is_possible_while_a_server_does_not_read() -> None:
    async with Server(misbehaving.deafness) as server:
        client = NameServerClient(server.address, timeout_s=30.0)
        putting = asyncio.create_task(client.put_kv("ns", "key", "x" * (8 << 20)))
        await soon("a connection", lambda: server.accepted)

        await client.close()

        with pytest.raises(AllNodesFailed):
            await putting


async def test_a_question_too_large_for_a_frame_is_not_sent() -> None:
    async with Server(answering()) as server, NameServerClient(server.address) as client:
        with pytest.raises(AllNodesFailed) as raised:
            await client.put_kv("ns", "key", "x" * (17 << 20))
        assert [type(failure) for failure in raised.value.failures] == [RequestTooLarge]

        await client.put_kv("ns", "key", "value")
        assert server.accepted == 1
        assert len(server.requests) == 1


async def test_unexpected_answers_in_between_are_passed_over() -> None:
    async def chatter(caller: Caller) -> None:
        while True:
            opaque = (await caller.request()).opaque
            await caller.send(answer(opaque + 7, raw.SYSTEM_ERROR, remark="for somebody else"))
            await caller.send(raw.request(raw.MIN_BROKER_CHANGED, {"brokerName": "b"}))
            await caller.send(answer(opaque, body=misbehaving.ROUTE_BODY))
            await caller.send(answer(opaque, raw.SYSTEM_ERROR, remark="the same once more"))

    async with Server(chatter) as server, NameServerClient(server.address) as client:
        for _ in range(5):
            assert (await client.route("T")).brokers

        assert server.accepted == 1
