"""What a node tells of its past begins with what it believed before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from routebook.cli.loops import run_loop
from routebook.events import (
    GroupRestated,
    JournalRecovered,
    KvChanged,
    NodeStarted,
    NodeStopped,
    StateRestated,
)
from routebook.journal.record import Record, decode
from routebook.journal.replay import replay
from routebook.journal.view import View
from routebook.server import latest_records, past
from support import raw
from support.brokers import Broker
from support.memories import journal_of, names, stopping_first, written
from support.nodes import NodeProcess, local_node
from support.raw import Peer
from support.waiting import eventually, wait_for

RECENT = 19_002
SHOWN = {"kv_values_shown_to": "127.0.0.0/8"}
BROKERS = [Broker(f"broker-{x}", addr=f"127.0.0.{n}:10911") for n, x in enumerate("abc", 1)]
STATED = GroupRestated | StateRestated
Told = tuple[dict[str, str], list[Record]]


async def told(peer: Peer, **about: str) -> Told:
    """The fields of the answer, and all its lines, once the state is read."""

    async def look() -> raw.Answer:
        return await peer.ask(RECENT, about)

    answer = await eventually(
        "the state", look, until=lambda a: "ask again" not in (a.ext_fields or {}).get("why", "")
    )
    assert answer.ext_fields is not None
    return answer.ext_fields, [decode(line) for line in answer.body.splitlines()]


def played(records: list[Record]) -> View:
    view = View()
    for record in records:
        view.apply(record)
    assert view.contradictions == []
    return view


def believed(view: View) -> object:
    routes = {topic: view.route(topic) for topic in view.topics()}
    return (
        {b[:3]: (b.member.known.addr, b.member.known.confirmed) for b in view.brokers()},
        routes,
        view.kv,
    )


def check_whole(folder: Path, found: Told) -> list[Record]:
    """Played from nothing it is what the journal says; returns what was recorded."""
    fields, records = found
    from_seq = int(fields["from_seq"])
    state = [record for record in records if record.seq < from_seq]
    assert fields["state"] == "yes"
    assert "why" not in fields
    assert all(isinstance(record.event, STATED) for record in state)
    assert isinstance(state[-1].event, StateRestated)
    assert len({(r.seq, r.wall_ms, r.mono_ms) for r in state}) == 1
    assert state[-1].wall_ms <= records[len(state)].wall_ms
    assert records[len(state)].seq == from_seq
    whole = wait_for(
        "all to be written",
        lambda: replay(folder, to_seq=records[-1].seq, damaged=print).view,
        until=lambda view: view.seq == records[-1].seq,
    )
    assert believed(played(records)) == believed(whole)
    return records[len(state) :]


@asynccontextmanager
async def with_brokers(folder: Path, **settings: object) -> AsyncIterator[Peer]:
    async with stopping_first(folder, **SHOWN, **settings) as (_, peer):
        for broker in BROKERS:
            await broker.register(peer, ["orders", broker.name])
        await peer.call(raw.PUT_KV, namespace="n", key="orders", value="v")
        yield peer


async def test_the_first_record_of_all_follows_an_empty_state(tmp_path: Path) -> None:
    async with with_brokers(tmp_path) as peer:
        fields, records = await told(peer)
        assert fields == {"dropped": "0", "from_seq": "1", "state": "yes"}
        assert names(records)[:2] == ["StateRestated", "NodeStarted"]
        assert len(list(played(records).brokers())) == 3


@pytest.mark.parametrize("small", [True, False], ids=["thread", "process"])
async def test_after_an_orderly_restart_all_brokers_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(past, "SMALL", 0)
    async with with_brokers(tmp_path):
        pass
    async with stopping_first(tmp_path, **SHOWN) as (_, peer):
        recorded = check_whole(journal_of(tmp_path), await told(peer))
        assert names(recorded) == ["NodeStopped", "NodeStarted"]
        fields, about = await told(peer, topic="orders")
        assert fields["state"] == "yes"
        view = played(about)
        assert len(view.route("orders")) == 3
        assert view.topics() == {"orders"}
        assert view.kv == {"n": {"orders": "v"}}
        _, about = await told(peer, broker="broker-b")
        view = played([record for record in about if not isinstance(record.event, NodeStarted)])
        assert [broker.broker for broker in view.brokers()] == ["broker-b"]
        assert view.topics() == {"orders", "broker-b"}


def test_a_large_journal_is_read_on_the_loop_that_a_node_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "SMALL", 0)

    async def asked() -> None:
        async with with_brokers(tmp_path):
            pass
        async with stopping_first(tmp_path, **SHOWN) as (_, peer):
            check_whole(journal_of(tmp_path), await told(peer))

    run_loop(asked())


async def test_what_was_forgotten_is_read_from_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_records, "MAX_RECORDS", 3)
    async with with_brokers(tmp_path) as peer:
        for value in "wxyz":
            await peer.call(raw.PUT_KV, namespace="n", key="other", value=value)
        found = await eventually(
            "all to be written",
            lambda: told(peer),
            until=lambda found: found[0]["state"] == "yes",
        )
        recorded = check_whole(journal_of(tmp_path), found)
        assert [type(record.event) for record in recorded] == [KvChanged] * 4
        fields, _ = found
        assert (fields["dropped"], fields["from_seq"]) == ("0", str(recorded[0].seq))


async def test_records_lost_before_are_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_brokers(tmp_path):
        pass
    [segment] = journal_of(tmp_path).glob("*.jsonl.gz")
    async with stopping_first(tmp_path, **SHOWN) as (_, peer):
        segment.write_bytes(b"no")
        fields, records = await told(peer)
        assert fields["state"] == "no"
        assert "missing" in fields["why"]
        assert not isinstance(records[0].event, STATED)


async def test_a_state_that_is_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "MAX_STATE", 500)
    async with with_brokers(tmp_path):
        pass
    async with stopping_first(tmp_path, **SHOWN) as (_, peer):
        fields, records = await told(peer)
        assert (fields["state"], names(records)) == ("no", ["NodeStarted"])
        assert "ask for a topic or a broker" in fields["why"]


async def test_without_a_journal_there_is_a_state_until_something_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "namesrv").mkdir()
    (tmp_path / "namesrv" / "kvConfig.json").write_text('{"configTable":{"n":{"k":"v"}}}')
    async with local_node(tmp_path, journal=False, **SHOWN) as node, Peer(node.port) as peer:
        await BROKERS[0].register(peer)
        fields, records = await told(peer)
        assert fields["state"] == "yes"
        assert played(records).kv == {"n": {"k": "v"}}
        monkeypatch.setattr(latest_records, "MAX_RECORDS", 1)
        await BROKERS[1].register(peer)
        fields, _ = await told(peer)
        assert fields["state"] == "no"
        assert "no journal" in fields["why"]


async def test_after_a_kill_the_numbers_leap_and_nothing_is_missing(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        async with Peer(node.port) as peer:
            for broker in BROKERS:
                await broker.register(peer)
            folder = node.data_dir / "journal"
            written(folder, NodeStarted)
            await told(peer)
            node.kill()
        node.start()
        async with Peer(node.port) as peer:
            recorded = check_whole(folder, await told(peer))
        assert names(recorded)[1:3] == ["JournalRecovered", "NodeStarted"]
        recovered = recorded[1].event
        assert isinstance(recovered, JournalRecovered)
        assert recovered.last_seq == recorded[0].seq
        assert not isinstance(recorded[0].event, NodeStopped)


@pytest.mark.parametrize("small", [True, False], ids=["thread", "process"])
@pytest.mark.parametrize("shown_to", ["", "10.0.0.0/8", "::1"])
async def test_values_are_sent_to_those_who_were_named_and_lengths_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown_to: str, small: bool
) -> None:
    if not small:
        monkeypatch.setattr(past, "SMALL", 0)
    settings = {"kv_values_shown_to": shown_to}
    async with stopping_first(tmp_path, **settings) as (_, peer):
        await peer.call(raw.PUT_KV, namespace="n", key="k", value="secret")
        _, records = await told(peer)
        assert played(records).kv == {"n": {"k": "(6 characters)"}}
    async with stopping_first(tmp_path, **settings) as (_, peer):
        await peer.call(raw.PUT_KV, namespace="n", key="k", value="x" * 5000)
        for about in ({}, {"topic": "k"}):
            fields, records = await told(peer, **about)
            assert fields["state"] == "yes"
            assert played(records).kv == {"n": {"k": "(5000 characters)"}}
            assert "secret" not in str(records)
        found = await peer.call(raw.GET_KV, namespace="n", key="k")
        assert found.ext_fields == {"value": "x" * 5000}  # as in RocketMQ
