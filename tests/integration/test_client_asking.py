"""How questions travel: many at once, signed, cancelled, and what closing does to them."""

import asyncio
import hashlib
import hmac
import logging
import subprocess
import sys
from base64 import b64encode

import pytest

from routebook.client import node
from routebook.client.client import NameServerClient
from routebook.client.dialing import Dialing, Tls
from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    ConnectionLost,
    LeavingNode,
    NameServerError,
    NoAnswer,
    NoNameServers,
    Refused,
)
from routebook.client.sources import FixedAddresses
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup
from routebook.wire.signature import Credentials
from support import raw
from support.leaks import client_tasks, nothing_left_behind
from support.misbehaving import (
    ROUTE_BODY,
    Behaviour,
    Caller,
    Server,
    answer,
    answering,
    binary_answer,
    for_ever,
    routes,
    silence,
    unused_port,
)
from support.waiting import soon


async def test_a_thousand_questions_share_one_connection() -> None:
    async with Server(routes) as server, NameServerClient(server.address) as client:
        found = await asyncio.gather(*(client.route(f"topic-{n}") for n in range(1000)))

        assert [route.topic for route in found] == [f"topic-{n}" for n in range(1000)]
        assert server.accepted == 1
        assert len({request.opaque for request in server.requests}) == 1000


async def test_answers_find_their_questions_in_any_order() -> None:
    async def backwards(caller: Caller) -> None:
        questions = [await caller.request() for _ in range(100)]
        for question in reversed(questions):
            topic = (question.ext_fields or {})["topic"]
            body = ROUTE_BODY[:-1] + b',"orderTopicConf":"%b"}' % topic.encode()
            await caller.send(answer(question.opaque, body=body))

    async with Server(backwards) as server, NameServerClient(server.address) as client:
        found = await asyncio.gather(*(client.route(f"topic-{n}") for n in range(100)))

    assert [route.order_conf for route in found] == [f"topic-{n}" for n in range(100)]


async def test_an_answer_with_a_binary_header_is_read() -> None:
    async def binary(caller: Caller) -> None:
        question = await caller.request()
        await caller.send(binary_answer(question.opaque, body=ROUTE_BODY))
        question = await caller.request()
        await caller.send(binary_answer(question.opaque, ext_fields={"value": "wert"}))
        question = await caller.request()
        await caller.send(binary_answer(question.opaque, raw.SYSTEM_ERROR, remark="müde"))

    async with Server(binary) as server, NameServerClient(server.address) as client:
        assert (await client.route("T")).brokers == (BrokerGroup("b", "c", {0: "10.0.0.1:10911"}),)
        assert await client.find_kv("ns", "key") == "wert"
        with pytest.raises(Refused, match="müde"):
            await client.topics()


@pytest.mark.parametrize("count", ["", "many", "1.5"])
async def test_a_count_that_is_none_is_a_bad_answer(count: str) -> None:
    behaviour = answering(ext_fields={"wipeTopicCount": count})
    async with Server(behaviour) as server, NameServerClient(server.address) as client:
        with pytest.raises(BadAnswer, match="wipeTopicCount"):
            await client.wipe_write_permission("broker-a")


# -- cancelled, closed


async def test_the_late_answer_to_a_cancelled_call_is_ignored() -> None:
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def late(caller: Caller) -> None:
        first = await caller.request()
        asked.set()
        await cancelled.wait()
        await caller.send(answer(first.opaque, raw.SYSTEM_ERROR, remark="too late"))
        await routes(caller)

    async with Server(late) as server, NameServerClient(server.address) as client:
        call = asyncio.create_task(client.route("T1"))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        cancelled.set()

        assert (await client.route("T2")).topic == "T2"
        assert server.accepted == 1


async def test_a_caller_who_gives_up_connecting_leaves_the_attempt_to_others() -> None:
    dialing = Dialing(tls=Tls(verify=False))
    async with (
        Server(silence) as server,
        NameServerClient(server.address, dialing=dialing) as client,
    ):
        patient = asyncio.create_task(client.route("T", timeout_s=1.0))
        impatient = asyncio.create_task(client.route("T", timeout_s=1.0))
        await soon("an attempt", lambda: server.accepted)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient

        with pytest.raises(AllNodesFailed, match="no connection within 1 s"):
            await patient
        assert server.accepted == 1


async def test_closing_fails_calls_in_flight() -> None:
    async with nothing_left_behind(), Server(silence) as server:
        client = NameServerClient(server.address, timeout_s=60.0)
        calls = [asyncio.create_task(client.route(f"T{n}")) for n in range(50)]
        await soon("all questions", lambda: server.requests, until=lambda got: len(got) == 50)

        await client.close()

        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, AllNodesFailed)
            assert "this client" in str(outcome)
        assert client_tasks() == []
        with pytest.raises(NameServerError, match="closed"):
            await client.route("T")
        await client.close()


async def test_closing_fails_calls_that_wait_for_a_connection() -> None:
    dialing = Dialing(tls=Tls(verify=False), connect_timeout_s=60.0)
    async with nothing_left_behind(), Server(silence) as server:
        client = NameServerClient(server.address, timeout_s=60.0, dialing=dialing)
        call = asyncio.create_task(client.route("T"))
        await soon("an attempt", lambda: server.accepted)

        await client.close()

        with pytest.raises(AllNodesFailed, match="this client is closed"):
            await call


async def test_closing_fails_calls_that_wait_for_a_node_to_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node, "FIRST_REST_S", 3600.0)
    monkeypatch.setattr(node, "LONGEST_REST_S", 3600.0)
    async with nothing_left_behind():
        client = NameServerClient(f"127.0.0.1:{unused_port()}", timeout_s=60.0)
        with pytest.raises(AllNodesFailed):
            await client.route("T")
        call = asyncio.create_task(client.route("T"))
        await asyncio.sleep(0)

        await client.close()

        with pytest.raises(AllNodesFailed, match="this client is closed"):
            await call


async def test_closing_fails_calls_that_wait_for_addresses() -> None:
    class Undecided(FixedAddresses):
        async def find(self) -> tuple[Address, ...]:
            await for_ever()
            return ()

    async with nothing_left_behind():
        client = NameServerClient(Undecided([]), timeout_s=60.0)
        call = asyncio.create_task(client.route("T"))
        await soon("a look-up", client_tasks, until=lambda names: "NameServerClient._find" in names)

        await client.close()

        with pytest.raises(NoNameServers, match="this client is closed"):
            await call
        with pytest.raises(NoNameServers, match="this client is closed"):
            await client.route("T")


async def test_closing_does_not_wait_for_answers_of_a_connection_that_is_left() -> None:
    async def answer_one_only(caller: Caller) -> None:
        await caller.request()
        second = await caller.request()
        await caller.send(answer(second.opaque, raw.GO_AWAY))
        await for_ever()

    async with nothing_left_behind(), Server(answer_one_only) as server:
        client = NameServerClient(server.address, timeout_s=60.0)
        one = await client.on(server.address)
        waiting = asyncio.create_task(one.route("T1"))
        await soon("the first question", lambda: server.requests)
        with pytest.raises(LeavingNode):
            await one.route("T2")

        async with asyncio.timeout(4.0):
            await client.close()
            with pytest.raises(ConnectionLost, match="this client closed"):
                await waiting


async def test_a_closed_client_that_was_never_used_stays_closed() -> None:
    async with nothing_left_behind():
        client = NameServerClient("127.0.0.1:1")
        await client.close()

        with pytest.raises(NoNameServers, match="this client is closed"):
            await client.nodes()


# -- signed requests


@pytest.mark.parametrize("token", [None, "a-token"])
async def test_every_request_is_signed(caplog: pytest.LogCaptureFixture, token: str | None) -> None:
    caplog.set_level(logging.DEBUG)
    dialing = Dialing(credentials=Credentials("a-key", "a-secret", token))
    async with (
        Server(answering()) as server,
        NameServerClient(server.address, dialing=dialing) as c,
    ):
        await c.put_kv("ns", "key", "wert")
        await c.update_config({"enableTopicList": "false"})

        put, update = server.requests

    for request, values in ((put, "keynswert"), (update, "")):
        fields = request.ext_fields or {}
        content = f"a-key{token or ''}{values}".encode() + request.body
        digest = hmac.digest(b"a-secret", content, hashlib.sha1)
        assert fields["AccessKey"] == "a-key"
        assert fields.get("SecurityToken") == token
        assert fields["Signature"] == b64encode(digest).decode()
    assert update.body
    assert "a-secret" not in caplog.text + repr(dialing) + repr(c)


def test_importing_the_client_brings_nothing_heavy() -> None:
    heavy = ("pyspark", "uvloop", "click", "rich", "urllib.request", "javaproperties")
    program = (
        "import sys, routebook.client, routebook.client.client, routebook.client.sync;"
        f"print([name for name in {heavy} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "[]\n"


# -- requests of Routebook's own


def silent_on_ours(version: int) -> tuple[Behaviour, list[int]]:
    """A NameServer that leaves Routebook's requests without an answer, and what it was asked."""
    asked: list[int] = []

    async def behave(caller: Caller) -> None:
        while True:
            request = await caller.request()
            asked.append(request.code)
            if request.code == raw.ROUTE:
                code = raw.TOPIC_NOT_EXIST
                await caller.send(answer(request.opaque, code, remark="no", version=version))

    return behave, asked


async def test_an_old_nameserver_that_does_not_answer_is_known_not_to_be_ours() -> None:
    behave, asked = silent_on_ours(version=407)  # 4.9.7
    async with Server(behave) as server, NameServerClient(server.address, timeout_s=0.3) as client:
        node = await client.on(server.address)
        for _ in range(2):
            with pytest.raises(Refused, match=r"older than 5\.0") as refused:
                await node.health()
            assert refused.value.code == raw.NOT_SUPPORTED
    assert asked == [19_001, raw.ROUTE]  # the second time it need not be asked


async def test_a_node_that_may_be_ours_and_does_not_answer_has_not_refused() -> None:
    behave, _ = silent_on_ours(version=raw.V5_5_0)
    async with Server(behave) as server, NameServerClient(server.address, timeout_s=0.3) as client:
        with pytest.raises(NoAnswer):
            await (await client.on(server.address)).restore_write_permission("broker-a")
