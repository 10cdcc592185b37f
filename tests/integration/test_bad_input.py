"""What a peer does wrong costs that peer its request or its connection, and nobody else anything.

Each offence is logged once, with the peer.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from routebook.app import NameServer
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import local_node
from support.raw import Peer
from support.waiting import eventually, soon

MAX_FRAME = 16 * 1024 * 1024
ROUTE_OF_NOBODY = raw.request(raw.ROUTE, {"topic": "nobody"}, opaque=9)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    async with local_node(tmp_path) as node:
        yield node


@pytest.fixture
async def peer(node: NameServer) -> AsyncIterator[Peer]:
    async with Peer(node.port) as peer:
        yield peer


async def check_serves(node: NameServer) -> None:
    async with Peer(node.port) as bystander:
        answer = await bystander.call(raw.ROUTE, topic="nobody")
    assert answer.code == raw.TOPIC_NOT_EXIST


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


def check_one_complaint(caplog: pytest.LogCaptureFixture, peer: str, about: str = "") -> None:
    [complaint] = complaints(caplog)
    assert peer in complaint
    assert about in complaint


# -- input no frame can be made of (reference section 1.11)

BINARY_FIXED = raw.i16(105) + b"\0" + raw.i16(513) + raw.i32(1) + raw.i32(0)


@pytest.mark.parametrize(
    ("data", "about"),
    [
        pytest.param(raw.u32(MAX_FRAME - 3), "limit", id="one-byte-above-the-limit"),
        pytest.param(raw.u32(2**31), "limit", id="negative-length"),
        pytest.param(raw.u32(2**32 - 1), "limit", id="largest-length"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: nameserver\r\n\r\n", "limit", id="http"),
        pytest.param(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "limit", id="proxy-not-trusted"),
        pytest.param(raw.u32(0), "length", id="length-0"),
        pytest.param(raw.u32(3), "length", id="length-3"),
        pytest.param(raw.u32(4) + raw.u32(0), "header", id="no-json-header"),
        pytest.param(raw.u32(10) + raw.u32(7), "header", id="header-longer-than-its-frame"),
        pytest.param(raw.frame(b"{}", codec=2), "encoding", id="encoding-2"),
        pytest.param(raw.frame(b"{}", codec=255), "encoding", id="encoding-255"),
        pytest.param(raw.frame(b"code=105"), "header", id="not-json"),
        pytest.param(raw.frame(b'{"code":105'), "header", id="json-cut-short"),
        pytest.param(raw.frame(b"\xff\xfe{}"), "header", id="not-utf8"),
        pytest.param(raw.frame(b"[105]"), "header", id="json-list"),
        pytest.param(raw.frame(b"105"), "header", id="json-number"),
        pytest.param(raw.frame(b"null"), "header", id="json-null"),
        pytest.param(raw.frame(b'{"code":[]}'), "code", id="code-not-a-number"),
        pytest.param(raw.frame(b'{"opaque":4294967296}'), "opaque", id="opaque-beyond-32-bits"),
        pytest.param(raw.frame(b'{"extFields":[]}'), "extFields", id="ext-fields-not-an-object"),
        pytest.param(raw.frame(b"", codec=1), "header", id="empty-binary-header"),
        pytest.param(raw.frame(BINARY_FIXED, codec=1), "header", id="binary-without-remark"),
        pytest.param(
            raw.frame(BINARY_FIXED + raw.i32(100) + raw.i32(0), codec=1),
            "100",
            id="binary-remark-beyond-the-header",
        ),
        pytest.param(
            raw.frame(BINARY_FIXED + raw.i32(-1) + raw.i32(0), codec=1),
            "-1",
            id="binary-negative-remark",
        ),
        pytest.param(
            raw.frame(BINARY_FIXED + raw.i32(0) + raw.i32(50), codec=1),
            "ext fields",
            id="binary-ext-fields-beyond-the-header",
        ),
        pytest.param(
            raw.frame(
                BINARY_FIXED + raw.i32(0) + raw.i32(8) + raw.i16(99) + b"topic!", codec=1
            ),
            "99",
            id="binary-key-beyond-the-ext-fields",
        ),
        pytest.param(
            raw.frame(BINARY_FIXED + raw.i32(0) + raw.i32(3) + raw.i16(1) + b"k", codec=1),
            "ext fields",
            id="binary-key-without-value",
        ),
    ],
)  # fmt: skip
async def test_unreadable_input_closes_that_connection_only(
    node: NameServer, caplog: pytest.LogCaptureFixture, data: bytes, about: str
) -> None:
    async with Peer(node.port) as neighbour, Peer(node.port) as peer:
        await peer.send(data)

        assert await peer.hung_up() == b""  # silently, as the reference
        check_one_complaint(caplog, peer.address, about)
        assert (await neighbour.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST
    await check_serves(node)


async def test_what_came_before_a_bad_frame_is_answered_and_what_follows_is_not_done(
    node: NameServer, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    put = raw.request(raw.PUT_KV, {"namespace": "ns", "key": "k", "value": "v"})
    await peer.send(ROUTE_OF_NOBODY + raw.frame(b"null") + put)

    [answer] = raw.answers_in(await peer.hung_up())

    assert answer.opaque == 9
    check_one_complaint(caplog, peer.address)
    async with Peer(node.port) as other:
        found = await other.call(raw.GET_KV, namespace="ns", key="k")
    assert found.code == raw.QUERY_NOT_FOUND


async def test_the_largest_frame_is_served(peer: Peer) -> None:
    empty = raw.request(raw.ROUTE, {"topic": "nobody"})
    room = MAX_FRAME - len(empty)
    await peer.send(raw.request(raw.ROUTE, {"topic": "nobody"}, b" " * room))

    assert (await peer.read()).code == raw.TOPIC_NOT_EXIST


async def test_a_frame_above_a_smaller_limit_is_refused_before_its_content_arrives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path, frame_max_length=10_000) as node, Peer(node.port) as peer:
        allowed = raw.request(raw.ROUTE, {"topic": "nobody"})
        allowed = raw.request(raw.ROUTE, {"topic": "nobody"}, b" " * (10_000 - len(allowed)))
        await peer.send(allowed)
        assert (await peer.read()).code == raw.TOPIC_NOT_EXIST

        await peer.send(raw.u32(9_997))

        assert await peer.hung_up() == b""
        check_one_complaint(caplog, peer.address, "frame of 10001 bytes exceeds the limit of 10000")


async def test_missing_data_is_waited_for(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    await peer.send(ROUTE_OF_NOBODY[:-3])
    with pytest.raises(TimeoutError):
        await peer.read(timeout_s=0.2)

    await peer.send(ROUTE_OF_NOBODY[-3:])

    assert (await peer.read()).opaque == 9
    assert complaints(caplog) == []


# -- frames that are fine and ask for something that is not


async def test_an_unknown_code_is_answered_so(peer: Peer) -> None:
    answer = await peer.call(99_999)

    assert (answer.code, answer.remark) == (raw.NOT_SUPPORTED, " request type 99999 not supported")
    assert answer.ext_fields is None


@pytest.mark.parametrize(
    ("code", "about"),
    [
        pytest.param(raw.PUT_KV, "namespace or key is null", id="put-kv"),
        pytest.param(raw.GET_KV, "namespace or key is null", id="get-kv"),
        pytest.param(raw.REGISTER, "brokerId is missing", id="register"),
        pytest.param(raw.UNREGISTER, "brokerId is missing", id="unregister"),
        pytest.param(raw.HEARTBEAT, "clusterName is missing", id="heartbeat"),
        pytest.param(raw.QUERY_DATA_VERSION, "clusterName is missing", id="data-version"),
        pytest.param(raw.TOPICS_OF_CLUSTER, "cluster is missing", id="topics-of-cluster"),
        pytest.param(raw.WIPE_WRITE, "brokerName is missing", id="wipe-write"),
        pytest.param(raw.DELETE_TOPIC, "topic is missing", id="delete-topic"),
        pytest.param(raw.REGISTER_TOPIC, "topic is missing", id="register-topic"),
    ],
)
async def test_a_request_without_what_it_needs_is_refused_and_the_connection_stays(
    peer: Peer, caplog: pytest.LogCaptureFixture, code: int, about: str
) -> None:
    answer = await peer.call(code)

    assert (answer.code, answer.remark) == (raw.SYSTEM_ERROR, about)
    check_one_complaint(caplog, peer.address, about)
    assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST


@pytest.mark.parametrize("flag", [raw.RESPONSE, raw.RESPONSE | raw.ONEWAY])
async def test_answers_to_questions_nobody_asked_are_ignored(peer: Peer, flag: int) -> None:
    fields = {"namespace": "ns", "key": "k", "value": "v"}
    await peer.send(raw.request(raw.PUT_KV, fields, flag=flag))
    await peer.send(raw.request(99_999, flag=flag))

    # The first thing answered is the first thing asked.
    found = await peer.call(raw.GET_KV, namespace="ns", key="k")

    assert found.code == raw.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("code", "fields", "body"),
    [
        pytest.param(99_999, {}, b"", id="unknown-code"),
        pytest.param(raw.ROUTE, {"topic": "nobody"}, b"", id="not-found"),
        pytest.param(raw.PUT_KV, {}, b"", id="missing-fields"),
        pytest.param(raw.PUT_KV, {"namespace": "n", "key": "k", "value": "v"}, b"", id="disk"),
        pytest.param(raw.REGISTER, Broker().fields, b"no JSON", id="bad-body"),
        pytest.param(raw.REGISTER, {**Broker().fields, "bodyCrc32": "1"}, b"{}", id="bad-crc"),
        pytest.param(raw.REGISTER, Broker().fields, registration_body(), id="registration"),
        pytest.param(raw.UPDATE_CONFIG, {}, b"listenPort=1", id="no-permission"),
        pytest.param(raw.CLUSTER_INFO, {}, b"", id="large-answer"),
    ],
)
@pytest.mark.parametrize("encode", [raw.request, raw.binary_request], ids=["json", "binary"])
async def test_a_oneway_request_is_never_answered(
    peer: Peer, encode: type, code: int, fields: dict[str, str], body: bytes
) -> None:
    if encode is raw.binary_request and code > 2**15:
        code = 32_000
    await peer.send(encode(code, fields, body, opaque=77, flag=raw.ONEWAY))

    for _ in range(3):  # each of these would meet a late answer
        assert (await peer.call(raw.GET_CONFIG)).code == raw.SUCCESS
    peer.finish_sending()
    assert await peer.hung_up() == b""


async def test_a_oneway_request_is_carried_out(node: NameServer, peer: Peer) -> None:
    await peer.send(Broker().registration(flag=raw.ONEWAY))

    assert (await peer.call(raw.ROUTE, topic="T1")).code == raw.SUCCESS


async def test_an_answer_too_large_for_any_peer_is_refused_instead(tmp_path: Path) -> None:
    async with local_node(tmp_path, frame_max_length=150_000) as node, Peer(node.port) as peer:
        for number in range(20):
            broker = Broker(f"broker-{number}", addr=f"10.0.0.{number}:10911")
            topics = [f"{'long' * 20}-{number}-{topic}" for topic in range(100)]
            await broker.register(peer, topics)

        answer = await peer.call(raw.ALL_TOPICS)

        assert answer.code == raw.SYSTEM_ERROR
        assert "exceeds the frame limit of 150000" in (answer.remark or "")
        assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST


ESCAPED_SIXFOLD = "\x7f"  # one byte in a request, six in an answer


async def test_a_remark_too_large_for_a_header_is_answered_in_a_whole_frame(peer: Peer) -> None:
    answer = await peer.call(raw.ROUTE, topic=ESCAPED_SIXFOLD * 4_000_000)

    assert answer.code != raw.SUCCESS
    assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST


async def test_a_value_too_large_for_a_header_is_answered_in_a_whole_frame(peer: Peer) -> None:
    value = ESCAPED_SIXFOLD * 4_000_000
    await peer.call(raw.PUT_KV, namespace="ns", key="k", value=value)

    answer = await peer.call(raw.GET_KV, namespace="ns", key="k")

    assert answer.code != raw.SUCCESS
    assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST


async def test_pipelined_puts_together_do_not_exceed_the_limit(tmp_path: Path) -> None:
    async with local_node(tmp_path, max_kv_bytes=1000) as node, Peer(node.port) as peer:
        fields = [{"namespace": "ns", "key": f"{n:02}", "value": "x" * 98} for n in range(40)]
        puts = [raw.request(raw.PUT_KV, fields[n], opaque=n) for n in range(40)]
        await peer.send(b"".join(puts))
        answers = [await peer.read() for _ in puts]

        accepted = [answer for answer in answers if answer.code == raw.SUCCESS]
        refused = [answer for answer in answers if answer.code == raw.SYSTEM_ERROR]
        kept = (await peer.call(raw.LIST_KV, namespace="ns")).value["table"]

    assert 0 < sum(len(key) + len(value) for key, value in kept.items()) <= 1000
    assert len(kept) == len(accepted)
    assert len(accepted) + len(refused) == 40
    assert all("maxKvBytes" in (answer.remark or "") for answer in refused)


# -- peers that take their time


async def test_a_slow_sender_is_closed_and_the_offence_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path, frame_timeout_seconds=1) as node, Peer(node.port) as peer:
        await peer.send(ROUTE_OF_NOBODY)
        assert (await peer.read()).opaque == 9

        async def trickle() -> None:
            for byte in ROUTE_OF_NOBODY[:-1]:
                peer.send_soon(bytes([byte]))
                await asyncio.sleep(0.05)

        sending = asyncio.create_task(trickle())
        assert await peer.hung_up() == b""
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

        check_one_complaint(caplog, peer.address, "not complete after 1 s")
        await check_serves(node)


async def test_a_sender_that_always_has_a_frame_under_way_is_not_a_slow_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Back-to-back requests end each segment inside a frame; frames complete all the same."""
    async with local_node(tmp_path, frame_timeout_seconds=2) as node, Peer(node.port) as peer:
        await peer.send(ROUTE_OF_NOBODY[:10])
        loop = asyncio.get_running_loop()
        until = loop.time() + 4  # twice what one frame may take
        while loop.time() < until:
            await peer.send(ROUTE_OF_NOBODY[10:] + ROUTE_OF_NOBODY[:10])
            assert (await peer.read()).opaque == 9

        assert complaints(caplog) == []


async def test_a_frame_that_arrives_slowly_but_in_time_is_served(tmp_path: Path) -> None:
    async with local_node(tmp_path, frame_timeout_seconds=30) as node, Peer(node.port) as peer:
        for byte in ROUTE_OF_NOBODY:
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)

        assert (await peer.read()).opaque == 9


async def test_an_idle_connection_is_closed_and_its_broker_leaves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = {"server_channel_max_idle_time_seconds": 1}
    async with local_node(tmp_path, **settings) as node, Peer(node.port) as broker:
        await Broker().register(broker)
        async with Peer(node.port) as silent:
            assert await silent.hung_up() == b""  # a connection that never said a word
        assert await broker.hung_up() == b""

        left = [r.getMessage() for r in caplog.records if '"BrokerLeft"' in r.getMessage()]
        assert len(left) == 1
        assert '"cause":"idle"' in left[0]
        async with Peer(node.port) as other:
            assert (await other.call(raw.ROUTE, topic="T1")).code == raw.TOPIC_NOT_EXIST


async def test_a_connection_in_use_is_not_idle(tmp_path: Path) -> None:
    settings = {"server_channel_max_idle_time_seconds": 2}
    async with local_node(tmp_path, **settings) as node, Peer(node.port) as peer:
        loop = asyncio.get_running_loop()
        until = loop.time() + 4
        while loop.time() < until:
            assert (await peer.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST
            await asyncio.sleep(0.1)


async def test_a_peer_that_closes_its_half_gets_its_answers_and_is_let_go(
    node: NameServer, peer: Peer
) -> None:
    await peer.send(ROUTE_OF_NOBODY * 3 + ROUTE_OF_NOBODY[:20])
    peer.finish_sending()

    assert len(raw.answers_in(await peer.hung_up())) == 3


async def test_a_broker_that_closes_its_half_leaves(node: NameServer, peer: Peer) -> None:
    async with Peer(node.port) as broker:
        await Broker().register(broker)
        broker.finish_sending()
        assert await broker.hung_up() == b""

    async def code() -> int:
        return (await peer.call(raw.ROUTE, topic="T1")).code

    await eventually("the route to go", code, until=lambda code: code == raw.TOPIC_NOT_EXIST)


async def test_a_reset_connection_takes_its_broker_and_nothing_else(
    node: NameServer, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    async with Peer(node.port) as gone, Peer(node.port) as stays:
        await Broker().register(gone, ["T1", "T2"])
        await Broker("broker-b", addr="10.0.0.2:10911").register(stays, ["T1", "T3"])
        await gone.send(ROUTE_OF_NOBODY[:20])
        gone.abort()

        async def names() -> list[str]:
            return list((await peer.call(raw.CLUSTER_INFO)).value["brokerAddrTable"])

        await eventually("the broker to go", names, until=lambda names: names == ["broker-b"])
    assert complaints(caplog) == []


@pytest.mark.parametrize("proxies", ["", "127.0.0.0/8"], ids=["no-proxies", "trusted-proxies"])
async def test_connections_reset_before_they_are_accepted_go_unnoticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, proxies: str
) -> None:
    async with local_node(tmp_path, trusted_proxies=proxies) as node:
        for _ in range(50):
            async with Peer(node.port) as peer:
                peer.abort()
        await check_serves(node)
    assert complaints(caplog) == []


async def test_connections_beyond_the_limit_are_refused_and_that_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path, max_connections=2) as node:
        async with Peer(node.port) as first, Peer(node.port) as second:
            assert (await second.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST
            for _ in range(5):
                async with Peer(node.port) as refused:
                    assert await refused.hung_up() == b""
            assert (await first.call(raw.ROUTE, topic="nobody")).code == raw.TOPIC_NOT_EXIST
        [complaint] = complaints(caplog)
        assert "maxConnections" in complaint

        async def answered() -> bool:
            try:
                await check_serves(node)
            except raw.Hangup:
                return False
            return True

        await eventually("room for another connection", answered)


async def test_a_peer_that_never_reads_is_closed_when_it_offends(
    node: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What is written for it must not keep the connection open for ever."""
    async with Peer(node.port) as broker, Peer(node.port) as peer:
        await Broker().register(broker, [f"{'long' * 20}-{n}" for n in range(5000)])
        peer.send_soon(raw.request(raw.ALL_TOPICS) * 20 + raw.frame(b"null"))
        peer.pause_reading()

        def closed() -> int:
            return len([r for r in complaints(caplog) if peer.address in r])

        # It is not read from while it does not read, so its offence waits for it.
        await check_serves(node)
        assert closed() == 0
        peer.resume_reading()
        answers = raw.answers_in(await peer.hung_up())

        assert len(answers) == 20
        await soon("the complaint", closed, until=lambda count: count == 1)
