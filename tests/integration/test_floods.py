"""Strangers fill neither journal nor log, and cannot make a node forget what came before them."""

import json
import random
from itertools import count
from pathlib import Path

import pytest

from routebook.events import (
    BrokerConflict,
    BrokerRegistered,
    KvChanged,
    NoiseCounted,
    RecordsLost,
    RequestRefused,
    StateRestated,
)
from routebook.journal.folder import list_folder
from routebook.server import recorder
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.journals import numbered, opened, topics_changed, written
from support.memories import (
    check_sound,
    events_of,
    journal_of,
    names,
    records,
    stopping_first,
)
from support.nodes import local_node
from support.raw import Peer
from support.waiting import soon, wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
MEGABYTE = 1024 * 1024
SMALL = {"journal_rotate_bytes": 65_536, "journal_retain_megabytes": 1}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return journal_of(tmp_path)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


async def send_all(peer: Peer, frames: list[bytes]) -> None:
    """Send ``frames`` and wait until the last one is answered."""
    peer.send_soon(b"".join(frames))
    for _ in frames:
        await peer.read()


def refused(number: int) -> bytes:
    """A request that is refused, with as many odd characters as a record takes."""
    fields = {"brokerName": "\x01" * 200, "namesrvAddr": str(number)}
    return raw.request(raw.REGISTER, fields, b"", opaque=number)


async def test_refusals_beyond_their_rate_are_counted_in_one_record(
    tmp_path: Path, folder: Path
) -> None:
    sent = 5_000
    async with stopping_first(tmp_path, **SMALL) as (node, peer):
        await A.register(peer, ["orders", "refunds"])
        await send_all(peer, [refused(number) for number in range(1, sent + 1)])
        assert node.health()["journal"]["counted"] > sent / 2  # type: ignore[index]
    written_down = events_of(folder, RequestRefused)
    counted = events_of(folder, NoiseCounted)
    assert 0 < len(written_down) < sent / 10
    assert sum(event.refused for event in counted) + len(written_down) == sent
    assert [noise.peer for noise in counted[0].peers] == ["127.0.0.1"]
    assert [event.broker for event in events_of(folder, BrokerRegistered)] == ["broker-a"]
    assert names(records(folder))[-2:] == ["NoiseCounted", "NodeStopped"]
    check_sound(folder)


async def test_conflicts_are_counted_likewise(tmp_path: Path, folder: Path) -> None:
    older = Broker("broker-a", addr="10.0.0.2:10911", cluster="c1")
    body = registration_body(["orders", "refunds"], state_version=1)
    async with stopping_first(tmp_path, **SMALL) as (_, peer):
        newer = registration_body(["orders", "refunds"], state_version=2)
        assert (await peer.ask(raw.REGISTER, A.fields, newer)).code == raw.SUCCESS
        frames = [
            raw.request(raw.REGISTER, older.fields, body, opaque=number)
            for number in range(1, 1501)
        ]
        await send_all(peer, frames)
    told = events_of(folder, BrokerConflict)
    assert 0 < len(told) < 750
    assert len(told) + sum(e.conflicts for e in events_of(folder, NoiseCounted)) == 1500


async def test_the_log_is_not_filled_either(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with stopping_first(tmp_path, journal=False, **SMALL) as (_, peer):
        await send_all(peer, [refused(number) for number in range(1, 3001)])
    lines = [r.getMessage() for r in caplog.records if r.name == "routebook.events"]
    refusals = [line for line in lines if '"RequestRefused"' in line]
    assert 0 < len(refusals) < 300
    [counted] = [json.loads(line) for line in lines if '"NoiseCounted"' in line]
    assert counted["refused"] + len(refusals) == 3000


async def test_a_flood_of_changes_leaves_what_came_before_it(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served all the same; the journal says that it does not know, and later all anew."""
    monkeypatch.setattr(recorder, "QUIET_MS", 50)
    chance = random.Random(4)
    opaque = count(1)
    async with stopping_first(tmp_path, **SMALL) as (node, peer):
        await A.register(peer, ["orders", "refunds"])
        for _ in range(24):
            frames = [
                raw.request(
                    raw.PUT_KV,
                    {"namespace": "flood", "key": "key", "value": chance.randbytes(500).hex()},
                    opaque=next(opaque),
                )
                for _ in range(64)
            ]
            await send_all(peer, frames)
        await peer.call(raw.PUT_KV, namespace="flood", key="key", value="the last")
        found = await peer.call(raw.GET_KV, namespace="flood", key="key")
        assert found.ext_fields == {"value": "the last"}
        await soon("what was lost", lambda: events_of(folder, StateRestated))
        assert size_of(folder) < 2 * MEGABYTE
        assert node.health()["journal"]["flooded"] > 0  # type: ignore[index]
    assert [event.broker for event in events_of(folder, BrokerRegistered)] == ["broker-a"]
    assert events_of(folder, KvChanged)
    lost = events_of(folder, RecordsLost)
    assert sum(event.flooded for event in lost) == sum(event.count for event in lost) > 0
    check_sound(folder)
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        assert (await peer.call(raw.ROUTE, topic="orders")).code == raw.SUCCESS


async def test_long_values_are_recorded_by_length_and_digest(tmp_path: Path, folder: Path) -> None:
    async with stopping_first(tmp_path) as (_, peer):
        await peer.call(raw.PUT_KV, namespace="n", key="k", value="x" * 100_000)
    [event] = events_of(folder, KvChanged)
    assert event.after is not None
    assert event.after.startswith("(100000 characters, blake2b ")
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        found = await peer.call(raw.GET_KV, namespace="n", key="k")
        assert found.ext_fields == {"value": "x" * 100_000}
    assert len(events_of(folder, KvChanged)) == 1  # nothing to catch up with


def test_nothing_more_is_written_while_sealing_is_behind(tmp_path: Path) -> None:
    settings = {"rotate_bytes": 65_536, "retain_bytes": MEGABYTE}
    many = topics_changed(*(f"topic-{number}" for number in range(400)))
    with opened(tmp_path, **settings, max_queued=50_000) as writer:
        writer.append(numbered(1))
        written(writer)
        for number in range(1, 40):  # whatever the first segment turns out to be
            (tmp_path / f"{1:012d}-{number:012d}.jsonl.gz.tmp").mkdir()
        for _ in range(300):
            writer.append(many)
        wait_for("the wait", writer.status, until=lambda s: s.unsealed >= MEGABYTE // 4)
        plain = [tmp_path / span.plain for span in list_folder(tmp_path).plain]
        assert sum(path.stat().st_size for path in plain) < MEGABYTE // 2
        assert writer.status().queued > 0
        for path in tmp_path.glob("*.tmp"):
            path.rmdir()
        written(writer)
        wait_for("sealing", writer.status, until=lambda s: not s.unsealed)
    assert writer.status().lost == 0
    check_sound(tmp_path)


def test_segments_that_are_not_sealed_yet_count_for_retention(tmp_path: Path) -> None:
    with opened(tmp_path, rotate_records=20, retain_bytes=50_000) as writer:
        for number in range(1, 101):
            writer.append(numbered(number))
        written(writer)
        wait_for("sealing", lambda: len(list_folder(tmp_path).sealed), until=lambda n: n >= 4)
    kept = list_folder(tmp_path).sealed
    with (tmp_path / "torn-000000000001.bin").open("wb") as loose:
        loose.write(bytes(60_000))
    with opened(tmp_path, rotate_records=20, retain_bytes=50_000):
        wait_for("room", lambda: list_folder(tmp_path).sealed, until=lambda spans: spans != kept)


def test_a_loss_is_told_once_however_little_room_there_was_meanwhile(tmp_path: Path) -> None:
    small, large = numbered(1), topics_changed(*(f"topic-{number}" for number in range(80)))
    with opened(tmp_path, max_queued=20) as writer:
        (tmp_path / "active.jsonl").mkdir()
        writer.append(small)
        writer.append(large)  # of 11 units: the next does not fit, and a note of its loss would
        assert [writer.append(large) for _ in range(5)] == [None] * 5
        (tmp_path / "active.jsonl").rmdir()
        written(writer)
        assert writer.append(large) is not None
    assert [event.count for event in events_of(tmp_path, RecordsLost)] == [5]
    check_sound(tmp_path)
