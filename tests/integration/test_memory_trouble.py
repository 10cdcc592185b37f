"""Folders that cannot be had, disks that fail, journals that are damaged: the node serves."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from routebook.app import NameServer
from routebook.events import (
    BrokerConfirmed,
    BrokerRegistered,
    GroupRestated,
    JournalRecovered,
    KvChanged,
    NodeStarted,
    RecordsLost,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.folder import ACTIVE
from routebook.journal.replay import replay
from routebook.journal.verify import verify
from routebook.server import recorder
from routebook.settings import SettingsError
from support import raw
from support.bad_disk import BadDisk
from support.brokers import Broker
from support.builders import compressed_body, registration_body
from support.memories import (
    all_written,
    check_sound,
    events_of,
    health,
    journal_of,
    stopping_first,
    told,
    written,
)
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer
from support.waiting import soon, wait_for

A = Broker("broker-a", addr="10.0.0.1:10911", cluster="c1")
B = Broker("broker-b", addr="10.0.0.2:10911", cluster="c1")
C = Broker("broker-c", addr="10.0.0.3:10911", cluster="c1")


def register(peer: BlockingPeer, broker: Broker, *topics: str) -> None:
    answer = peer.ask(raw.REGISTER, broker.fields, registration_body(topics))
    assert answer.code == raw.SUCCESS, answer


def codes(peer: BlockingPeer, *topics: str) -> list[int]:
    return [peer.call(raw.ROUTE, topic=topic).code for topic in topics]


# -- folders that cannot be had


def check_refusal(node: NodeProcess, *sentence: str) -> None:
    """One sentence, exit code 2, no traceback."""
    assert node.run() == 2
    [line] = node.stderr.splitlines()
    for words in sentence:
        assert words in line
    assert node.stdout == ""


def test_a_second_node_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "first") as first, first.connect() as peer:
        second = NodeProcess(tmp_path / "second", "--data-dir", first.data_dir)
        check_refusal(
            second,
            f"the journal {first.data_dir / 'journal'} is written by process {first.process.pid}",
            "choose another --data-dir, or start with --journal false",
        )
        register(peer, A, "orders", "payments")  # the first one is not harmed
        assert health(peer)["ok"]
        with NodeProcess(tmp_path / "third", "--data-dir", first.data_dir, "--journal", "false"):
            pass
        first.kill()
    with second, second.connect() as peer:  # what the killed one held is free
        assert codes(peer, "orders") == [raw.SUCCESS]
        second.stop()
    check_sound(first.data_dir / "journal")


async def test_two_nodes_of_one_process_do_not_share_a_folder_either(tmp_path: Path) -> None:
    async with local_node(tmp_path):
        with pytest.raises(SettingsError, match="one folder serves one node"):
            await local_node(tmp_path).__aenter__()


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        pytest.param("file", "Not a directory", id="a-file-in-its-place"),
        pytest.param("file/below", "Not a directory", id="below-a-file"),
        pytest.param("/proc/routebook", "No such file or directory", id="where-nobody-can-write"),
    ],
)
def test_a_folder_that_cannot_be_had_is_said_so(tmp_path: Path, folder: str, reason: str) -> None:
    (tmp_path / "file").write_text("in the way")
    place = tmp_path / folder
    remedy = "choose another --data-dir, or start with --journal false"
    check_refusal(NodeProcess(tmp_path / "a", "--data-dir", place), str(place), reason, remedy)
    named = NodeProcess(tmp_path / "b", "--data-dir", place, "--node-id", "ns-1")
    check_refusal(named, str(place / "journal"), reason, remedy)
    node = NodeProcess(tmp_path / "c", "--data-dir", place, "--journal", "false")
    with node, node.connect() as peer:
        register(peer, A, "orders", "payments")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        pytest.param(
            lambda data: (data / "journal").write_text(""),
            "cannot (use|read) the journal",
            id="journal",
        ),
        pytest.param(lambda data: (data / "node-id").mkdir(), "node-id cannot be read", id="id"),
        pytest.param(
            lambda data: (data / "node-id").write_text("two words\n"),
            "node-id does not hold a node id; repair or remove it",
            id="no-id",
        ),
        pytest.param(
            lambda data: (data / "node-id").write_bytes(b"\xff\n"),
            "node-id cannot be read",
            id="junk",
        ),
    ],
)
def test_files_of_another_kind_in_the_folder_are_said_so(
    tmp_path: Path, spoil: Callable[[Path], object], sentence: str
) -> None:
    data = tmp_path / "namesrv" / "routebook"
    data.mkdir(parents=True)
    spoil(data)
    with pytest.raises(SettingsError, match=sentence):
        local_node(tmp_path)._recorder.open()


async def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    folder = journal_of(tmp_path)
    foreign = {
        "notes.txt": b"mine",
        "0001.jsonl": b"{}\n",
        ".hidden": b"",
        "active.jsonl.bak": b"x",
    }
    folder.mkdir(parents=True)
    for name, content in foreign.items():
        (folder / name).write_bytes(content)
    (folder / "sub").mkdir()
    for _ in range(2):
        async with stopping_first(tmp_path) as (node, peer):
            await A.register(peer)
            assert node.health()["ok"]
    assert {name: (folder / name).read_bytes() for name in foreign} == foreign
    assert (folder / "sub").is_dir()
    assert len(events_of(folder, BrokerConfirmed)) == 1
    report = verify(folder)
    assert report.sound
    assert {finding.file for finding in report.findings} >= set(foreign)


# -- disks that fail


async def test_a_full_disk_delays_nobody_and_the_loss_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = journal_of(tmp_path)
    monkeypatch.setattr(recorder, "MAX_QUEUED", 20)
    disk = BadDisk(folder, monkeypatch)

    def journal(node: NameServer) -> dict[str, Any]:
        found = node.health()["journal"]
        assert isinstance(found, dict)
        return found

    async with stopping_first(tmp_path) as (node, peer):
        await A.register(peer, ["orders", "both"])
        await B.register(peer, ["refunds", "both"])
        await peer.call(raw.PUT_KV, namespace="ns", key="k", value="before")
        await told(folder, KvChanged)
        disk.full = True
        await A.unregister(peer)
        await C.register(peer, ["returns", "both"])
        for number in range(30):
            await peer.call(raw.PUT_KV, namespace="ns", key="k", value=str(number))
        await peer.call(raw.WIPE_WRITE, brokerName="broker-b")
        await soon("the trouble", lambda: journal(node)["failing"])
        status = journal(node)
        assert status["lost"] > 0
        assert status["last_error"] == "cannot write the active segment: No space left on device"
        assert node.health()["ok"] is False
        answers = {t: await peer.call(raw.ROUTE, topic=t) for t in ("orders", "refunds", "returns")}
        assert [answers[t].code for t in answers] == [raw.TOPIC_NOT_EXIST, raw.SUCCESS, raw.SUCCESS]

        disk.full = False
        await told(folder, StateRestated)
        await soon("the end of it", lambda: not journal(node)["failing"])
        assert node.health()["ok"] is True
        [lost] = events_of(folder, RecordsLost)
        assert lost.count == status["lost"]
        restated = events_of(folder, GroupRestated)
        assert {event.broker for event in restated} == {"broker-b", "broker-c"}
        # Records are gone; what there is tells the tables again.
        view = replay(folder, damaged=_unexpected).view
        assert view.topics() == {"refunds", "returns", "both"}
        assert view.kv == {"ns": {"k": "29"}}
        assert not view.unsure
        await peer.call(raw.PUT_KV, namespace="ns", key="k", value="after")
    check_sound(folder)

    async with stopping_first(tmp_path) as (node, peer):
        for topic, before in answers.items():
            after = await peer.call(raw.ROUTE, topic=topic)
            assert (after.code, after.body) == (before.code, before.body)
        assert node.health()["unconfirmed"] == 2
        assert (await peer.ask(raw.QUERY_DATA_VERSION, B.fields, b"{}")).body  # it has a version


def _unexpected(error: Exception) -> None:
    raise error


async def test_a_disk_that_stands_still_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = journal_of(tmp_path)
    disk = BadDisk(folder, monkeypatch)
    async with stopping_first(tmp_path, journal_sync="batch") as (node, peer):
        disk.stuck = True
        try:
            for counter in range(1, 50):
                await A.register(
                    peer, {"orders": {"readQueueNums": counter}, "x": {}}, counter=counter
                )
                answer = await peer.call(raw.ROUTE, topic="orders")
                assert answer.value["queueDatas"][0]["readQueueNums"] == counter
            status = node.health()["journal"]
            assert isinstance(status, dict)
            assert status["queued"] > 0
            assert status["synced_seq"] < status["last_seq"]
        finally:
            disk.stuck = False
    assert len(events_of(folder, TopicsChanged)) == 49
    check_sound(folder)


class SmallDisk(NodeProcess):
    """A node whose files may not grow beyond a size, which can be changed while it runs."""

    def limit_files(self, size: int) -> None:
        _, most = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, most))


TOPICS = 50_000


def test_a_node_out_of_space_serves_and_recovers_when_there_is_space_again(tmp_path: Path) -> None:
    node = SmallDisk(tmp_path)
    folder = node.data_dir / "journal"
    many = compressed_body([f"t{number}" for number in range(TOPICS)])
    with node, node.connect() as peer:
        fields = {**A.fields, "compressed": "true"}
        assert peer.ask(raw.REGISTER, fields, many).code == raw.SUCCESS
        all_written(peer)
        node.limit_files((folder / ACTIVE).stat().st_size + 100_000)
        drained, status = False, health(peer)["journal"]
        for _ in range(60):  # each takes some of the room for what is still to be written
            drained = not drained
            code = raw.WIPE_WRITE if drained else raw.ADD_WRITE
            assert peer.call(code, brokerName="broker-a").code == raw.SUCCESS
            status = health(peer)["journal"]
            if status["lost"] and drained:
                break
        assert status["lost"] > 0
        assert status["failing"]
        register(peer, B, "orders", "payments")
        assert codes(peer, "t7", "orders", "nobody") == [0, 0, raw.TOPIC_NOT_EXIST]
        assert not health(peer)["ok"]

        node.limit_files(resource.RLIM_INFINITY)
        wait_for("the end of it", lambda: health(peer)["ok"])
        since = status["last_seq"] + 1  # what is before is long, and takes its time to read
        [restated] = written(folder, StateRestated, from_seq=since)
        assert restated.groups == 2
        [lost] = events_of(folder, RecordsLost, from_seq=since)
        assert lost.count == health(peer)["journal"]["lost"]
        before = peer.call(raw.ROUTE, topic="t7").body
        all_written(peer)
        node.kill()
    with node, node.connect() as peer:
        assert peer.call(raw.ROUTE, topic="t7").body == before
        assert b'"perm":4' in before
        assert codes(peer, "orders", "payments") == [raw.SUCCESS] * 2
        assert health(peer)["topics"] == TOPICS + 2
        node.stop()
    assert verify(folder).sound


def test_a_node_killed_while_it_was_out_of_space_goes_on_from_what_was_written(
    tmp_path: Path,
) -> None:
    node = SmallDisk(tmp_path)
    folder = node.data_dir / "journal"
    with node, node.connect() as peer:
        register(peer, A, "orders", "payments")
        all_written(peer)
        node.limit_files((folder / ACTIVE).stat().st_size + 10)  # the next line is torn
        register(peer, B, "refunds", "returns")
        wait_for("the trouble", lambda: health(peer)["journal"]["failing"])
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS] * 2
        node.kill()
    with node, node.connect() as peer:
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS, raw.TOPIC_NOT_EXIST]
        register(peer, B, "refunds", "returns")
        node.stop()
    [recovered] = events_of(folder, JournalRecovered)
    assert (recovered.last_seq, recovered.torn_bytes) == (4, 10)
    check_sound(folder)


def test_a_node_starts_on_a_full_disk(tmp_path: Path) -> None:
    class Starting(SmallDisk):
        def launch(self) -> None:
            soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (250, most))
            try:
                super().launch()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))

    node = Starting(tmp_path)
    folder = node.data_dir / "journal"
    with node, node.connect() as peer:
        register(peer, A, "orders", "payments")
        wait_for("the trouble", lambda: health(peer)["journal"]["failing"])
        assert codes(peer, "orders") == [raw.SUCCESS]
        node.limit_files(resource.RLIM_INFINITY)
        wait_for("the end of it", lambda: health(peer)["ok"])
        node.stop()
    assert [event.brokers for event in events_of(folder, NodeStarted)] == [0]
    assert len(events_of(folder, BrokerRegistered)) == 1
    check_sound(folder)


def test_a_journal_that_is_taken_away_is_no_reason_to_stop(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    folder = node.data_dir / "journal"
    with node, node.connect() as peer:
        register(peer, A, "orders", "payments")
        all_written(peer)
        shutil.rmtree(folder)
        register(peer, B, "refunds", "returns")
        wait_for("the trouble", lambda: health(peer)["journal"]["failing"])
        assert codes(peer, "orders", "refunds") == [raw.SUCCESS] * 2
        folder.mkdir()
        wait_for("the end of it", lambda: health(peer)["ok"])
        register(peer, C, "returns", "new")
        assert node.stop() == 0
    with node, node.connect() as peer:
        assert codes(peer, "orders", "refunds", "new") == [raw.SUCCESS] * 3
