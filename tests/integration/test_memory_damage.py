"""Journals that were damaged while no node ran: it starts, says so, and serves what it can."""

import gzip
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from routebook import app
from routebook.events import BrokerLeft, GroupRestated, NodeStarted, StateRestated
from routebook.journal.folder import ACTIVE
from routebook.journal.reader import read, segments
from routebook.journal.replay import replay
from routebook.journal.verify import verify
from routebook.settings import SettingsError
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.memories import (
    all_written,
    check_sound,
    events_of,
    files_in,
    journal_of,
    records,
    stopping_first,
    told,
    written,
)
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer, Peer
from support.waiting import soon, wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
B = Broker("broker-b", addr="10.0.0.2:10911", cluster="c1")
VERSION = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'


def register(peer: BlockingPeer, broker: Broker, *topics: str) -> None:
    answer = peer.ask(raw.REGISTER, broker.fields, registration_body(topics))
    assert answer.code == raw.SUCCESS, answer


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def codes(peer: BlockingPeer, *topics: str) -> list[int]:
    return [peer.call(raw.ROUTE, topic=topic).code for topic in topics]


async def async_codes(peer: Peer, *topics: str) -> list[int]:
    return [(await peer.call(raw.ROUTE, topic=topic)).code for topic in topics]


# -- after a kill: what is still in the active segment


@pytest.fixture(scope="module")
def left_by_a_killed_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    node = NodeProcess(tmp_path_factory.mktemp("killed"))
    with node, node.connect() as peer:
        register(peer, A, "orders", "payments")
        register(peer, B, "refunds", "returns")
        all_written(peer)
        node.kill()
    return node.data_dir


@pytest.fixture
def killed(tmp_path: Path, left_by_a_killed_node: Path) -> NodeProcess:
    node = NodeProcess(tmp_path)
    shutil.copytree(left_by_a_killed_node, node.data_dir)
    return node


def test_what_follows_a_line_that_does_not_read_is_set_aside(killed: NodeProcess) -> None:
    active = killed.data_dir / "journal" / ACTIVE
    lines = active.read_bytes().splitlines(keepends=True)
    lines[4] = b"X" + lines[4][1:]
    active.write_bytes(b"".join(lines))
    with killed, killed.connect() as peer:
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.TOPIC_NOT_EXIST]
        cut_off = sum(map(len, lines[4:]))
        wait_for("the log", lambda: killed.lines_with("after record 4", f"{cut_off} bytes"))
        register(peer, B, "refunds", "returns")
        killed.stop()
    torn = active.with_name("torn-000000000004.bin")
    assert torn.read_bytes() == b"".join(lines[4:])
    check_sound(active.parent)


def test_a_line_that_was_changed_is_said_so_and_what_it_tells_is_asked_for_again(
    killed: NodeProcess,
) -> None:
    active = killed.data_dir / "journal" / ACTIVE
    active.write_bytes(active.read_bytes().replace(b'"payments"', b'"paymenns"', 1))
    with killed, killed.connect() as peer:
        assert codes(peer, "orders", "payments") == [raw.SUCCESS, raw.TOPIC_NOT_EXIST]
        wait_for("the log", lambda: killed.lines_with("line 3 was changed"))
        answer = peer.ask(raw.QUERY_DATA_VERSION, A.fields, VERSION)
        assert answer.ext_fields == {"changed": "true"}
        register(peer, A, "orders", "payments")
        assert codes(peer, "payments") == [raw.SUCCESS]
        written(active.parent, StateRestated)
        killed.stop()
    assert not verify(active.parent).sound


@pytest.mark.parametrize("cut", [1, 200])
def test_a_line_that_was_being_written_is_cut_off(killed: NodeProcess, cut: int) -> None:
    active = killed.data_dir / "journal" / ACTIVE
    content = active.read_bytes()
    active.write_bytes(content[:-cut])
    with killed, killed.connect() as peer:
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.SUCCESS]
        # The last line said that the registration was complete: it is to be repeated.
        answer = peer.ask(raw.QUERY_DATA_VERSION, B.fields, VERSION)
        assert answer.ext_fields == {"changed": "true"}
        answer = peer.ask(raw.QUERY_DATA_VERSION, A.fields, VERSION)
        assert answer.ext_fields == {"changed": "false"}
        killed.stop()
    check_sound(active.parent)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 96, b"not json\n", b'{"pid":"x"}'],
    ids=["none", "zeros", "text", "json"],
)
def test_a_lock_that_says_nothing_is_no_reason_to_stop(killed: NodeProcess, content: bytes) -> None:
    folder = killed.data_dir / "journal"
    (folder / "lock").write_bytes(content)
    with killed, killed.connect() as peer:
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.SUCCESS]
        killed.stop()
    check_sound(folder)


def test_a_journal_of_a_newer_version_is_refused_and_not_touched(killed: NodeProcess) -> None:
    folder = killed.data_dir / "journal"
    active = folder / ACTIVE
    active.write_bytes(active.read_bytes().replace(b'{"v":1,', b'{"v":2,'))
    before = contents(folder)
    assert killed.run() == 2
    [line] = killed.stderr.splitlines()
    assert "schema version 2 was written by a newer Routebook; this one reads up to 1" in line
    assert "choose another --data-dir, or start with --journal false" in line
    assert contents(folder) == before


# -- after a stop: segments, manifests and snapshots


@pytest.fixture
async def stopped(tmp_path: Path) -> Path:
    """The journal of three lives, a segment each; B has joined in the second one."""
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer, ["orders", "payments"])
    async with stopping_first(tmp_path) as (_, peer):
        await A.register(peer, ["orders", "payments"])
        await B.register(peer, ["refunds", "returns"])
    async with stopping_first(tmp_path) as (_, peer):
        pass
    folder = journal_of(tmp_path)
    for snapshot in folder.glob("snapshot-*"):
        snapshot.unlink()
    assert len(segments(folder)) == 3
    return folder


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def snapshots_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("snapshot-*.json.gz"))


def packed(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.jsonl.gz"))[number]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: flip(packed(folder, 0)), id="flipped"),
        pytest.param(lambda folder: packed(folder, 0).write_bytes(b""), id="emptied"),
        pytest.param(lambda folder: packed(folder, 0).unlink(), id="gone"),
    ],
)
async def test_after_a_damaged_segment_the_rest_is_served_and_all_of_it_stated_anew(
    tmp_path: Path,
    stopped: Path,
    damage: Callable[[Path], object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    sound_from = segments(stopped)[1].first_seq
    damage(stopped)
    async with stopping_first(tmp_path) as (_, peer):
        warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert any("000000000001-000000000005.jsonl.gz" in text for text in warnings)
        assert await async_codes(peer, "orders", "refunds") == [raw.TOPIC_NOT_EXIST, raw.SUCCESS]
        # It may be half the truth: the broker is to tell all of it again.
        answer = await peer.ask(raw.QUERY_DATA_VERSION, B.fields, VERSION)
        assert answer.ext_fields == {"changed": "true"}
        await told(stopped, StateRestated, from_seq=sound_from)
        restated = events_of(stopped, GroupRestated, from_seq=sound_from)
        topics = {event.broker: {queue.topic for queue in event.queues} for event in restated}
        assert topics == {"broker-a": set(), "broker-b": {"refunds", "returns"}}
        assert "it was damaged; stating the tables anew" in caplog.text
        await A.register(peer, ["orders", "payments"])
    assert not verify(stopped).sound  # that does not heal
    async with stopping_first(tmp_path) as (_, peer):
        assert await async_codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.SUCCESS]
        answer = await peer.ask(raw.QUERY_DATA_VERSION, A.fields, VERSION)
        assert answer.ext_fields == {"changed": "false"}


@pytest.mark.parametrize("where", ["records", "manifest"])
async def test_sealed_segments_of_a_newer_version_are_refused_and_not_touched(
    tmp_path: Path, stopped: Path, where: str
) -> None:
    if where == "records":
        segment = packed(stopped, 2)
        text = gzip.decompress(segment.read_bytes())
        segment.write_bytes(gzip.compress(text.replace(b'{"v":1,', b'{"v":3,')))
    else:
        manifest = stopped / segments(stopped)[2].span.manifest
        found = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**found, "v": 3}))
    before = contents(stopped)
    with pytest.raises(SettingsError, match="version 3 was written by a newer Routebook"):
        await local_node(tmp_path).__aenter__()
    assert contents(stopped) == before


async def test_a_damaged_manifest_is_no_reason_to_doubt_the_segment(
    tmp_path: Path, stopped: Path
) -> None:
    for name in files_in(stopped):
        if name.endswith(".manifest.json"):
            (stopped / name).write_text("{")
    async with stopping_first(tmp_path) as (_, peer):
        assert await async_codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.SUCCESS]
    assert len(events_of(stopped, NodeStarted)) == 4
    numbers = [record.seq for record in records(stopped)]
    assert numbers == sorted(set(numbers))


async def test_a_damaged_snapshot_is_passed_over(
    tmp_path: Path, stopped: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = [f"a-topic-with-a-long-name-{number}" for number in range(3000)]
    async with stopping_first(tmp_path, journal_rotate_bytes=65_536) as (_, peer):
        await A.register(peer, topics, counter=2)
        await soon("a snapshot", lambda: snapshots_in(stopped))
    snapshots = snapshots_in(stopped)
    for snapshot in snapshots:
        flip(snapshot)
    async with stopping_first(tmp_path) as (_, peer):
        assert await async_codes(peer, topics[7], "refunds") == [raw.SUCCESS, raw.SUCCESS]
        answer = await peer.ask(raw.QUERY_DATA_VERSION, A.fields, VERSION.replace(b":1,", b":2,"))
        assert answer.ext_fields == {"changed": "false"}  # nothing is missing
    assert f"{snapshots[0].name} " in caplog.text


async def test_a_folder_that_was_emptied_is_a_new_one(tmp_path: Path, stopped: Path) -> None:
    for name in files_in(stopped):
        (stopped / name).unlink()
    async with stopping_first(tmp_path) as (node, peer):
        assert node.health()["brokers"] == 0
        await A.register(peer)
    assert [record.seq for record in records(stopped)] == [1, 2, 3, 4, 5]
    check_sound(stopped)


# -- clocks


async def test_a_clock_that_is_set_back_confuses_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = journal_of(tmp_path)
    clock = {"ms": 1_800_000_000_000}

    def wall_ms() -> int:
        clock["ms"] += 1
        return clock["ms"]

    monkeypatch.setattr(app, "wall_ms", wall_ms)
    async with stopping_first(tmp_path, journal_rotate_bytes=65_536) as (_, peer):
        await A.register(peer, [f"topic-{number}" for number in range(5000)])
        await soon("a sealed segment", lambda: segments(folder))
        clock["ms"] -= 86_400_000
        await B.register(peer, ["refunds", "returns"])
        await peer.call(raw.DELETE_TOPIC, topic="topic-1")
        gone = await peer.call(raw.ROUTE, topic="topic-1")
        assert "2027-01-14T08:" in (gone.remark or "")
    clock["ms"] -= 3_600_000
    async with stopping_first(tmp_path) as (node, peer):
        assert node.health()["unconfirmed"] == 2
        assert await async_codes(peer, "topic-7", "refunds") == [raw.SUCCESS, raw.SUCCESS]
        await A.unregister(peer)
    check_sound(folder)
    found = records(folder)
    wall, mono = [record.wall_ms for record in found], [record.mono_ms for record in found]
    assert wall != sorted(wall)
    assert mono == sorted(mono)
    [left] = [record for record in found if isinstance(record.event, BrokerLeft)]
    # Who asks for a time is given all that was written under it.
    at = left.wall_ms
    assert [r.seq for r in read(folder, from_ms=at, to_ms=at)] == [left.seq]
    assert replay(folder, damaged=_unexpected).view.topics() == {"refunds", "returns"}


def _unexpected(error: Exception) -> None:
    raise error
