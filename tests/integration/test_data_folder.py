"""The data folder: one node's alone, whatever happens to it, and nobody else's to read."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.events import NodeStarted
from routebook.journal.errors import FolderInUse
from routebook.journal.identity import find_identity
from routebook.journal.lock import lock_folder
from routebook.server.durable import clear_away, replace_file
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.journals import failing, numbered, opened, write_journal, written
from support.memories import (
    all_written,
    check_sound,
    events_of,
    files_in,
    health,
    journal_of,
    stopping_first,
)
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer
from support.waiting import soon, wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
B = Broker("broker-b", addr="10.0.0.2:10911", cluster="c1")


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def register(peer: BlockingPeer, broker: Broker) -> None:
    answer = peer.ask(raw.REGISTER, broker.fields, registration_body(["orders", broker.name]))
    assert answer.code == raw.SUCCESS, answer


# -- removed while a node runs


def test_a_folder_that_is_removed_lets_no_second_node_in(tmp_path: Path) -> None:
    first = NodeProcess(tmp_path / "first")
    with first, first.connect() as peer:
        register(peer, A)
        all_written(peer)
        node_id = health(peer)["node"]
        shutil.rmtree(first.data_dir)
        second = NodeProcess(tmp_path / "second", "--data-dir", first.data_dir)
        assert second.run() == 2
        assert "is written by another process; one folder serves one node" in second.stderr
        assert not first.data_dir.exists()
        register(peer, B)
        wait_for("the trouble", lambda: health(peer)["journal"]["failing"])
        assert "journal was removed; put it back, or make" in health(peer)["journal"]["last_error"]
        for topic in ("broker-a", "broker-b"):
            assert peer.call(raw.ROUTE, topic=topic).code == raw.SUCCESS
        (first.data_dir / "journal").mkdir(parents=True)
        wait_for("the end of it", lambda: health(peer)["ok"])
        incarnation = health(peer)["incarnation"]
        assert first.stop() == 0
    assert first.lines_with("ERROR", "was removed")
    with first, first.connect() as peer:
        assert (health(peer)["node"], health(peer)["incarnation"]) == (node_id, incarnation)
        for topic in ("broker-a", "broker-b"):
            assert peer.call(raw.ROUTE, topic=topic).code == raw.SUCCESS


def test_nothing_is_written_into_the_folder_of_another(tmp_path: Path) -> None:
    folder, others = tmp_path / "journal", tmp_path / "others"
    write_journal(others, [numbered(7)])
    with opened(folder) as writer:
        writer.append(numbered(1))
        written(writer)
        folder.rename(tmp_path / "moved")
        shutil.copytree(others, folder)
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        writer.append(numbered(2))
        status = failing(writer)
        assert "is not the folder it was" in str(status.last_error)
        writer.append(numbered(3))
        wait_for("more tries", writer.status, until=lambda status: status.errors >= 3)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        shutil.rmtree(folder)
        (tmp_path / "moved").rename(folder)  # its own is back
        written(writer)
        wait_for("the end of it", writer.status, until=lambda status: not status.failing)
    check_sound(folder)
    assert len(files_in(folder)) > 2


def test_a_claim_outlives_the_folder_and_ends_with_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    lock = lock_folder(folder)
    shutil.rmtree(folder)
    with pytest.raises(FolderInUse):
        lock_folder(folder)
    assert not folder.exists()
    lock.release()
    lock_folder(folder).release()


def test_folders_of_different_names_have_different_claims(tmp_path: Path) -> None:
    locks = [lock_folder(tmp_path / name) for name in ("a", "b")]
    (tmp_path / "c").symlink_to(tmp_path / "a")
    with pytest.raises(FolderInUse):
        lock_folder(tmp_path / "c")
    for lock in locks:
        lock.release()


# -- who may read it


@pytest.mark.usefixtures("careless")
async def test_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    settings = {"journal_rotate_seconds": 1, "allow_remote_config": True}
    async with stopping_first(tmp_path, **settings) as (_, peer):
        await A.register(peer)
        await peer.call(raw.PUT_KV, namespace="n", key="k", value="secret")
        await peer.ask(raw.UPDATE_CONFIG, {}, b"waitSecondsForService=46")
        folder = journal_of(tmp_path)
        await soon("a snapshot", lambda: list(folder.glob("snapshot-*.gz")))
        await soon("a sign of life", lambda: (folder / "alive.json").exists())
    found = {path: mode(path) for path in (tmp_path / "namesrv").rglob("*")}
    names = {path.name for path in found}
    assert {"kvConfig.json", "node-id", "remote.properties", "lock", "identity.json"} <= names
    assert {mode for path, mode in found.items() if path.is_file()} == {"600"}
    assert {mode for path, mode in found.items() if path.is_dir()} == {"700"}
    assert mode(tmp_path / "namesrv") == "700"


@pytest.mark.parametrize(
    ("readers", "file", "folder", "way"),
    [
        pytest.param("group", "640", "750", "710", id="group"),
        pytest.param("all", "644", "755", "711", id="all"),
    ],
)
@pytest.mark.parametrize("umask", [0o000, 0o077], ids=["careless", "careful"])
async def test_an_operator_may_open_the_journal_and_nothing_else(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    readers: str,
    file: str,
    folder: str,
    way: str,
    umask: int,
) -> None:
    settings = {"journal_rotate_seconds": 1, "allow_remote_config": True}
    home, journal = tmp_path / "namesrv", journal_of(tmp_path)
    before = os.umask(umask)
    try:
        async with stopping_first(tmp_path, journal_readable_by=readers, **settings) as (_, peer):
            await A.register(peer)
            await peer.call(raw.PUT_KV, namespace="n", key="k", value="secret")
            await peer.ask(raw.UPDATE_CONFIG, {}, b"waitSecondsForService=46")
            await soon("a snapshot", lambda: list(journal.glob("snapshot-*.gz")))
            await soon("a sign of life", lambda: (journal / "alive.json").exists())
    finally:
        os.umask(before)
    assert {mode(path) for path in journal.iterdir()} == {file}
    assert len(list(journal.glob("*.manifest.json"))) > 0
    assert (mode(home), mode(home / "routebook"), mode(journal)) == (way, way, folder)
    for own in ("kvConfig.json", "routebook/node-id", "routebook/remote.properties"):
        assert mode(home / own) == "600"
    assert "others may read" not in caplog.text


async def test_a_journal_is_opened_later_too_and_what_is_new_is_closed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_of(tmp_path)
    async with local_node(tmp_path):
        pass
    assert {mode(path) for path in journal.iterdir()} == {"600"}
    async with local_node(tmp_path, journal_readable_by="group"):
        pass
    assert {mode(path) for path in journal.iterdir()} == {"640"}
    closed = f"journalReadableBy=group, but {tmp_path / 'namesrv'} lets nobody else through"
    assert closed in caplog.text
    async with local_node(tmp_path):
        await soon("a record", lambda: (journal / "active.jsonl").exists())
        assert mode(journal / "active.jsonl") == mode(journal / "lock") == "600"
    assert "others may read" in caplog.text  # what was opened stays so


@pytest.mark.usefixtures("careless")
async def test_what_somebody_opened_to_others_stays_so_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "namesrv"
    folder = journal_of(tmp_path)
    folder.mkdir(parents=True)
    folder.parent.chmod(0o750)
    (home / "kvConfig.json").write_text('{"configTable":{}}')
    (home / "kvConfig.json").chmod(0o640)
    async with stopping_first(tmp_path) as (_, peer):
        await peer.call(raw.PUT_KV, namespace="n", key="k", value="v")
    assert (mode(folder.parent), mode(folder), mode(home / "kvConfig.json")) == (
        "750",
        "777",
        "640",
    )
    assert {mode(path) for path in folder.iterdir()} == {"600"}
    [said] = [r.getMessage() for r in caplog.records if "others may read" in r.getMessage()]
    for path, number in ((folder.parent, "750"), (folder, "777"), (home / "kvConfig.json", "640")):
        assert f"{path} ({number})" in said


async def test_nothing_is_said_where_all_is_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path):
        pass
    assert "others may read" not in caplog.text


# -- what killed nodes leave


async def test_what_killed_nodes_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    async with local_node(tmp_path):
        pass
    home, folder = tmp_path / "namesrv", journal_of(tmp_path)
    left = [
        home / ".kvConfig.json.4711.tmp",
        folder.parent / ".node-id.4711.tmp",
        folder.parent / ".remote.properties.4711.tmp",
        folder / "snapshot-000000000001.json.gz.tmp",
        folder / "000000000001-000000000002.jsonl.gz.tmp",
        folder / "torn-000000000001.bin.tmp",
        folder / "identity.json.tmp",
    ]
    foreign = [home / ".other.4711.tmp", folder / "mine.tmp"]
    for path in (*left, *foreign):
        path.write_text("half")
    async with local_node(tmp_path):
        assert [path.name for path in left if path.exists()] == []
        assert [path.name for path in foreign if not path.exists()] == []
    assert len(events_of(folder, NodeStarted)) == 2


def test_what_a_live_process_writes_is_not_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "file"
    being_written = tmp_path / ".file.1.tmp"
    with being_written.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        clear_away(path)
        assert being_written.exists()
    clear_away(path)
    assert not being_written.exists()
    replace_file(path, b"text")
    assert path.read_bytes() == b"text"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_an_identity_is_written_again_with_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    with opened(folder) as writer:
        writer.append(numbered(1))
        written(writer)
        identity = find_identity(folder)
        shutil.rmtree(folder)
        failing(writer)
        folder.mkdir()
        wait_for("the end of it", writer.status, until=lambda status: not status.failing)
        assert find_identity(folder) == identity
