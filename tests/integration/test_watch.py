"""Watching real nodes: cuts, kills, readers that do not read, stops, and those who use it."""

import asyncio
import json
import logging
import signal
import socket
import ssl
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from routebook.client import Address, NameServerClient, RouteCache
from routebook.client import watch as client_watch
from routebook.watch import hub
from support import raw
from support.brokers import Broker
from support.builders import Topics
from support.certificates import authority, identity
from support.documents import ROOT, blocks_of
from support.leaks import nothing_left_behind
from support.memories import health
from support.misbehaving import Caller, Server, answer
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer, Hangup, Peer
from support.relays import local_relay
from support.waiting import eventually, soon, wait_for

WATCH, ROUTES, UNWATCH, HEALTH = 19_005, 19_006, 19_007, 19_001
NEVER_S = 3600.0
OTHER = Broker("broker-b", addr="10.0.0.2:10911")


def asked(*topics: str, **more: object) -> bytes:
    return json.dumps({"topics": dict.fromkeys(topics, ""), **more}).encode()


def register(peer: BlockingPeer, topics: Topics, *, counter: int = 1) -> None:
    peer.send(Broker().registration(topics, counter=counter))
    assert peer.read().code == raw.SUCCESS


def told(frame: raw.Answer) -> dict[str, Any]:
    """The fields of a frame, and its body as ``body``."""
    assert (frame.code, frame.flag) == (ROUTES, raw.ONEWAY)
    return {**(frame.ext_fields or {}), "body": json.loads(frame.body) if frame.body else []}


async def watch_status(peer: Peer) -> dict[str, Any]:
    status: dict[str, Any] = json.loads((await peer.call(HEALTH)).body)["watch"]
    return status


# -- frames as they are on the wire


def test_a_change_is_told_by_a_frame_of_these_bytes(tmp_path: Path) -> None:
    """What docs/watch.md shows."""
    with NodeProcess(tmp_path) as node, node.connect() as watcher, node.connect() as broker:
        begun = watcher.call(WATCH, asked("orders")).ext_fields or {}
        assert begun.keys() == {"kind", "reason", "node", "boot", "rev"}
        assert (begun["kind"], begun["reason"], begun["rev"]) == ("reset", "new", "0")
        synced = told(watcher.read())
        assert (synced["kind"], synced["n"], synced["after"]) == ("synced", "1", "0")
        register(broker, ["orders", "stock"])
        (length,) = struct.unpack(">I", watcher._take(4))
        data = watcher._take(length)
        (header_length,) = struct.unpack(">I", data[:4])
        header, body = data[4 : 4 + header_length].decode(), data[4 + header_length :].decode()
        [block] = [b for b in blocks_of(ROOT / "docs/watch.md") if b.language == "json"]
        shown = block.text.replace("98fdf70155092bbb", begun["boot"])
        assert f"{header}\n{body}\n" == shown
        [entry] = json.loads(body)
        assert entry.keys() == {"topic", "etag", "route"}
        assert (entry["topic"], entry["etag"]) == ("orders", "7cbd2d0a88a96aa2")
        assert entry["route"] == json.loads(broker.call(raw.ROUTE, topic="orders").body)


def test_the_feed_tells_of_everything_that_happens(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as watcher, node.connect() as broker:
        watcher.call(WATCH, json.dumps({"feed": True}).encode())
        register(broker, ["orders", "stock"])
        types: list[str] = []
        while "RegistrationCompleted" not in types:
            frame = told(watcher.read())
            types += [e["record"]["type"] for e in frame["body"] if frame["kind"] == "events"]
        assert types == ["BrokerRegistered", "TopicsChanged", "RegistrationCompleted"]


# -- the end of connections and nodes


def test_who_hangs_up_is_forgotten(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as other:
        with node.connect() as watcher:
            watcher.call(WATCH, asked("orders", "stock"))
            assert health(other)["watch"]["watchers"] == 1
            assert health(other)["memory"]["kinds"]["watches"] > 0
        status = wait_for("nobody", lambda: health(other), until=lambda h: not h["watch"]["topics"])
        assert status["watch"]["watchers"] == 0
        assert status["memory"]["kinds"]["watches"] == 0


def test_what_was_told_before_a_kill_is_set_right_after_it(tmp_path: Path) -> None:
    """The last changes are told, and killed before they are on disk."""
    etag, since, rev, boot = "", "", -1, ""
    with NodeProcess(tmp_path) as node:
        for queues in range(1, 4):
            with node.connect() as watcher, node.connect() as broker:
                body = json.dumps({"topics": {"orders": etag}}).encode()
                begun = watcher.call(WATCH, body).ext_fields or {}
                assert begun["boot"] != boot
                assert int(begun["rev"]) > rev, "a revision that was told came again"
                boot = begun["boot"]
                shapes = {"orders": {"readQueueNums": queues}, "stock": {}}
                register(broker, shapes, counter=queues)
                latest = None
                while latest != queues:
                    frame = told(watcher.read())
                    rev = int(frame["rev"])
                    for entry in frame["body"]:
                        etag = entry["etag"]
                        if "route" in entry:
                            latest = entry["route"]["queueDatas"][0]["readQueueNums"]
                since = f"{begun['node']}.{boot}.{rev}"
                node.kill()
            node.start()
        with node.connect() as watcher:
            begun = watcher.call(WATCH, asked("orders", since=since)).ext_fields or {}
            assert (begun["kind"], begun["reason"]) == ("reset", "restarted")
            assert int(begun["rev"]) > rev
            route = None
            while (frame := told(watcher.read()))["kind"] != "synced":
                route = frame["body"][0]["route"]
            with node.connect() as other:
                answer_now = other.call(raw.ROUTE, topic="orders")
            assert route == (json.loads(answer_now.body) if answer_now.body else None)


def test_a_node_that_stops_says_goodbye(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as watcher:
        watcher.call(WATCH, asked("orders"))
        assert told(watcher.read())["kind"] == "synced"
        assert node.stop() == 0
        goodbye = told(watcher.read())
        assert (goodbye["kind"], goodbye["reason"]) == ("bye", "draining")
        assert 0 <= int(goodbye["retry_ms"]) < 1000
        with pytest.raises(Hangup):
            watcher.read()


def test_a_million_topics_are_refused_and_others_do_not_notice(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as watcher, node.connect() as other:
        before = node.memory()
        refusal = watcher.call(WATCH, asked(*(f"t{n}" for n in range(1_000_000))))
        assert refusal.code == raw.SYSTEM_ERROR
        assert refusal.remark == "one connection watches at most 10000 topics"
        assert other.call(HEALTH).code == raw.SUCCESS
        assert health(other)["watch"]["watchers"] == 0
        assert node.memory() - before < 100 * 1024 * 1024
        assert watcher.call(WATCH, asked("orders")).code == raw.SUCCESS, "it may ask for less"


# -- who does not read


async def test_a_reader_that_stops_is_parked_and_told_the_latest_when_it_reads(
    tmp_path: Path,
) -> None:
    topics = [f"topic-{n}" for n in range(9_000)]
    async with (
        local_node(tmp_path, server_socket_snd_buf_size=4096) as node,
        Peer(node.port) as broker,
        Peer(node.port) as slow,
        Peer(node.port) as quick,
    ):
        await Broker().register(broker, topics)
        slow.pause_reading()
        await slow.send(raw.request(WATCH, body=asked(*topics)))
        await quick.call(WATCH, asked("topic-7"))
        async with Peer(node.port) as other:
            await eventually(
                "it to be parked", lambda: watch_status(other), until=lambda s: s["parked"] == 1
            )
            await OTHER.register(other, topics)
            seen: list[dict[str, Any]] = []
            while not seen or len(seen[-1]["body"][0]["route"]["brokerDatas"]) < 2:
                frame = told(await quick.read())
                if frame["body"]:
                    seen.append(frame)
            assert (await watch_status(other))["untold"] <= len(topics)
            slow.resume_reading()
            assert (await slow.read()).code == raw.SUCCESS
            brokers: dict[str, int] = {}
            n = 0
            while len(brokers) < len(topics) or min(brokers.values()) < 2:
                frame = told(await slow.read())
                assert int(frame["n"]) == n + 1
                n += 1
                for entry in frame["body"]:
                    brokers[entry["topic"]] = len(entry["route"]["brokerDatas"])
            assert (await watch_status(other))["parked"] == 0


async def test_who_never_reads_is_closed_and_says_so_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hub, "SLOW_MS", 200)
    topics = [f"topic-{n}" for n in range(9_000)]
    async with (
        local_node(tmp_path, server_socket_snd_buf_size=4096) as node,
        Peer(node.port) as broker,
        Peer(node.port) as slow,
        Peer(node.port) as other,
    ):
        await Broker().register(broker, topics)
        slow.pause_reading()
        with caplog.at_level(logging.WARNING):
            await slow.send(raw.request(WATCH, body=asked(*topics)))
            status = await eventually(
                "its end", lambda: watch_status(other), until=lambda s: s["closed_as_slow"] == 1
            )
        assert status["watchers"] == 0
    assert len([r for r in caplog.records if "has not read what it watches" in r.message]) == 1


def test_many_who_never_read_cost_what_they_watch_and_a_frame_each(tmp_path: Path) -> None:
    topics = [f"topic-{n}" for n in range(2_000)]
    small = ("--server-socket-snd-buf-size", "4096")
    with (
        NodeProcess(tmp_path, *small) as node,
        node.connect() as broker,
        node.connect() as other,
        ExitStack() as opened,
    ):
        register(broker, topics)
        stalled = [opened.enter_context(node.connect()) for _ in range(30)]
        for peer in stalled:
            peer.send(raw.request(WATCH, body=asked(*topics)))

        def status() -> Any:
            return health(other)["watch"]

        wait_for("all to be parked", status, until=lambda found: found["parked"] == len(stalled))
        for counter in range(2, 12):
            register(broker, {t: {"readQueueNums": counter} for t in topics}, counter=counter)
        assert status()["untold"] <= len(stalled) * len(topics)
        held = health(other)["memory"]["kinds"]
        assert held["answers"] <= len(stalled) * 2 * (hub.FRAME_BYTES + 4096)
        assert held["watches"] <= len(stalled) * len(topics) * 700


async def test_who_watches_may_be_silent_for_longer_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        local_node(tmp_path, server_channel_max_idle_time_seconds=1) as node,
        Peer(node.port) as watcher,
        Peer(node.port) as silent,
    ):
        await watcher.call(WATCH, asked("orders"))
        await silent.call(raw.ROUTE, topic="orders")
        await silent.hung_up()
        async with Peer(node.port) as broker:
            await Broker().register(broker, ["orders", "stock"])
            assert told(await watcher.read())["kind"] == "synced"
            assert told(await watcher.read())["kind"] == "routes"


async def test_frames_come_over_tls_too(tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    server = identity(tmp_path, "server", signed_by=ours)
    context = ssl.create_default_context(cafile=ours.cert)
    keys = {"tls_server_cert_path": server.cert, "tls_server_key_path": server.key}
    async with (
        local_node(tmp_path / "node", **keys) as node,
        Peer(node.port, context=context) as watcher,
        Peer(node.port) as b,
    ):
        await watcher.call(WATCH, asked("orders"))
        assert told(await watcher.read())["kind"] == "synced"
        await Broker().register(b, ["orders", "stock"])
        assert told(await watcher.read())["body"][0]["topic"] == "orders"


# -- route caches


async def test_a_route_cache_is_told_of_changes_without_polling(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path) as node,
        nothing_left_behind(),
        Peer(node.port) as broker,
        NameServerClient(node.address) as client,
        RouteCache(client, poll_s=NEVER_S) as cache,
    ):
        await Broker().register(broker, ["orders", "stock"])
        assert len((await cache.route("orders")).brokers) == 1
        cache.use("refunds")  # which does not exist
        await soon("the watch", lambda: cache.watched)
        await OTHER.register(broker, ["orders", "refunds"])
        await soon(
            "both brokers", lambda: len(cache.publish_queues("orders")), until=lambda n: n == 16
        )
        await soon("the new topic", lambda: cache.entry("refunds"))
        await OTHER.unregister(broker)
        await soon(
            "one broker", lambda: len(cache.publish_queues("orders")), until=lambda n: n == 8
        )
        gone = await soon("that it is gone", lambda: cache.last_error("refunds"))
        assert "it unregistered" in str(gone)
        assert cache.entry("refunds") is not None, "a good route stays"
        cache.forget("orders")
        await eventually(
            "one topic less", lambda: watch_status(broker), until=lambda s: s["topics"] == 1
        )


@pytest.mark.parametrize("code", [raw.NOT_SUPPORTED, raw.SUCCESS])
async def test_a_route_cache_polls_where_no_watch_is_offered(code: int) -> None:
    async def java(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == WATCH:
                await caller.send(answer(request.opaque, code))
            else:
                await caller.send(answer(request.opaque, body=_route()))

    async with (
        Server(java) as server,
        NameServerClient(server.address) as client,
        RouteCache(client, poll_s=0.05) as cache,
    ):
        await cache.route("orders")
        await soon("many polls", lambda: codes(server).count(raw.ROUTE) > 5)
        assert not cache.watched
        assert codes(server).count(WATCH) == 1


def codes(server: Server) -> list[int]:
    return [request.code for request in server.requests]


def _route() -> bytes:
    return (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"b","cluster":"c"}],'
        b'"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":4}]}'
    )


async def test_a_route_cache_goes_on_with_another_node(tmp_path: Path) -> None:
    nodes: dict[int, NodeProcess] = {}
    try:
        for name in ("a", "b"):
            node = NodeProcess(tmp_path / name)
            await asyncio.to_thread(node.start)
            nodes[node.port] = node
        addresses = ";".join(f"127.0.0.1:{port}" for port in nodes)
        async with (
            NameServerClient(addresses) as client,
            RouteCache(client, poll_s=NEVER_S) as cache,
        ):
            for port in nodes:
                await _keep_registered(port, tmp_path)
            await cache.route("orders")
            await soon("the watch", lambda: cache.watched)
            chosen = client.chosen
            assert chosen is not None
            nodes[chosen.port].kill()
            [other] = [port for port in nodes if port != chosen.port]
            await soon(
                "the watch elsewhere",
                lambda: cache.watched and client.chosen,
                until=lambda node: isinstance(node, Address) and node.port == other,
            )
            async with Peer(other) as broker:
                await OTHER.register(broker, ["orders", "stock"])
                await soon(
                    "both brokers",
                    lambda: len(cache.publish_queues("orders")),
                    until=lambda n: n == 16,
                )
    finally:
        for node in nodes.values():
            node.kill()
        for peer in _KEPT:
            await peer.close()
        _KEPT.clear()


_KEPT: list[Peer] = []


async def _keep_registered(port: int, folder: Path) -> None:
    peer = await Peer(port).__aenter__()
    _KEPT.append(peer)
    await Broker().register(peer, ["orders", "stock"])


async def test_silence_ends_a_watch_and_polls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_watch, "SILENCE_S", 0.3)

    async def silent_after_a_while(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == WATCH:
                fields = {"kind": "reset", "reason": "new", "node": "n", "boot": "b", "rev": "1"}
                await caller.send(answer(request.opaque, ext_fields=fields))
                synced = {"kind": "synced", "boot": "b", "n": "1", "after": "1", "rev": "1"}
                await caller.send(raw.request(ROUTES, synced, flag=raw.ONEWAY))  # and nothing more
            elif request.code == raw.ROUTE:
                await caller.send(answer(request.opaque, body=_route()))

    async with (
        Server(silent_after_a_while) as server,
        NameServerClient(server.address) as client,
        RouteCache(client, poll_s=0.1) as cache,
    ):
        await cache.route("orders")
        await soon("the watch", lambda: cache.watched)
        await soon("its end", lambda: not cache.watched)
        await soon("another connection", lambda: server.accepted > 1)


async def test_a_broken_chain_ends_a_watch(caplog: pytest.LogCaptureFixture) -> None:
    async def forgetful(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == WATCH:
                fields = {"kind": "reset", "reason": "new", "node": "n", "boot": "b", "rev": "1"}
                await caller.send(answer(request.opaque, ext_fields=fields))
                for n in (1, 3):  # frame 2 is missing
                    place = {"kind": "synced", "boot": "b", "n": str(n), "after": "1", "rev": "1"}
                    await caller.send(raw.request(ROUTES, place, flag=raw.ONEWAY))
            elif request.code == raw.ROUTE:
                await caller.send(answer(request.opaque, body=_route()))

    with caplog.at_level(logging.INFO, "routebook.client.watch"):
        async with (
            Server(forgetful) as server,
            NameServerClient(server.address) as client,
            RouteCache(client, poll_s=NEVER_S) as cache,
        ):
            await cache.route("orders")
            await soon("that it says so", lambda: "frame 3 after" in caplog.text)
            await soon("a new beginning", lambda: codes(server).count(WATCH) > 1)
            assert UNWATCH in codes(server)


# -- relays


async def test_a_relay_is_milliseconds_behind(tmp_path: Path) -> None:
    async with (
        local_node(tmp_path) as node,
        Peer(node.port) as broker,
        local_relay(node.address, poll_s=NEVER_S) as relay,
        Peer(relay.port) as client,
    ):
        await Broker().register(broker, ["orders", "stock"])
        assert (await client.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS
        await soon("the watch", lambda: relay.health()["watched"])
        await OTHER.register(broker, ["orders", "stock"])

        async def brokers() -> int:
            body = (await client.call(raw.ROUTE, topic="orders")).body
            return len(json.loads(body)["brokerDatas"])

        await eventually("both brokers", brokers, until=lambda n: n == 2)
        await OTHER.unregister(broker)
        await eventually("one broker", brokers, until=lambda n: n == 1)


# -- the program


def test_the_node_survives_a_watcher_that_vanishes(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as broker:
        for _ in range(20):
            watcher = node.connect()
            watcher.call(WATCH, asked("orders"))
            watcher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            watcher.socket.close()
        register(broker, ["orders", "stock"])
        wait_for("nobody", lambda: health(broker)["watch"]["watchers"], until=lambda n: n == 0)
        node.signal(signal.SIGTERM)
        assert node.ended() == 0
        assert "Traceback" not in node.stderr
