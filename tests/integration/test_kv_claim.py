"""The key-value file: one node's alone, and missed when somebody takes it away."""

import fcntl
import json
import os
import shutil
from pathlib import Path

import pytest

from routebook.server.kv_claim import Found, claim_kv_file
from routebook.settings import SettingsError
from support import raw
from support.memories import files_in, health
from support.nodes import NodeProcess, local_node
from support.raw import BlockingPeer, Peer
from support.waiting import eventually, wait_for


def put(peer: BlockingPeer, key: str, value: str = "v") -> raw.Answer:
    return peer.call(raw.PUT_KV, namespace="n", key=key, value=value)


def test_a_second_node_with_the_same_file_is_refused_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    first = NodeProcess(tmp_path / "first")
    second = NodeProcess(tmp_path / "second", "--kv-config-path", first.kv_path)
    with first, first.connect() as peer:
        for written in (False, True):
            if written:
                assert put(peer, "k").code == raw.SUCCESS
            assert second.run() == 2
            [line] = second.stderr.splitlines()
            assert f"the key-value file {first.kv_path} is written by another node" in line
            assert "choose another --kv-config-path, or stop that node first" in line
            assert not second.data_dir.exists()
        assert put(peer, "again").code == raw.SUCCESS  # the first one is not harmed
        first.kill()
    with second, second.connect() as peer:  # what the killed one held is free
        assert peer.call(raw.LIST_KV, namespace="n").value == {"table": {"k": "v", "again": "v"}}


async def test_two_nodes_of_one_process_do_not_share_a_file_either(tmp_path: Path) -> None:
    shared = {"kv_config_path": tmp_path / "kv.json", "journal": False}
    async with local_node(tmp_path / "a", **shared):
        with pytest.raises(SettingsError, match="one file serves one node"):
            await local_node(tmp_path / "b", **shared).__aenter__()
    async with local_node(tmp_path / "b", **shared):
        pass


async def test_a_node_that_cannot_have_its_journal_lets_go_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    async with local_node(tmp_path / "a"):
        with pytest.raises(SettingsError, match="one folder serves one node"):
            await local_node(tmp_path / "a", kv_config_path=path).__aenter__()
        async with local_node(tmp_path / "b", kv_config_path=path):
            pass


def test_a_node_that_sees_no_names_of_others_is_kept_out_by_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.write_text("{}")
    with path.open("rb") as elsewhere:  # a container with the same volume
        fcntl.flock(elsewhere, fcntl.LOCK_EX)
        with pytest.raises(SettingsError, match="written by another node"):
            claim_kv_file(path)
    claim = claim_kv_file(path)
    claim.write(b"[]")
    with path.open("rb") as elsewhere, pytest.raises(BlockingIOError):
        fcntl.flock(elsewhere, fcntl.LOCK_EX | fcntl.LOCK_NB)
    claim.release()
    assert files_in(tmp_path) == ["kv.json"]


def test_nothing_is_written_over_the_file_of_another_node(tmp_path: Path) -> None:
    path = tmp_path / "kv" / "kv.json"
    claim = claim_kv_file(path)
    claim.write(b"ours")
    shutil.rmtree(path.parent)
    assert claim.look() is Found.NOTHING
    path.parent.mkdir()
    with path.open("wb") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert claim.look() is Found.ANOTHER
        with pytest.raises(OSError, match="another node writes it"):
            claim.write(b"ours again")
        assert path.read_bytes() == b""
    claim.write(b"ours again")  # nobody has it any more
    assert (path.read_bytes(), claim.look()) == (b"ours again", Found.OURS)
    claim.release()


def test_a_file_that_is_removed_is_missed_and_its_pairs_are_served_on(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        put(peer, "k")
        node.kv_path.unlink()
        told = wait_for(
            "the node to miss it", lambda: health(peer), until=lambda now: not now["ok"]
        )
        [why] = told["tasks"]["failing"].values()
        assert why.startswith(f"{node.kv_path} was removed; 1 pairs are served on")
        assert peer.call(raw.GET_KV, namespace="n", key="k").ext_fields == {"value": "v"}
        second = NodeProcess(tmp_path / "second", "--kv-config-path", node.kv_path)
        assert second.run() == 2

        put(peer, "another")
        wait_for("all to be well", lambda: health(peer), until=lambda now: now["ok"])
        expected = {"configTable": {"n": {"k": "v", "another": "v"}}}
        assert json.loads(node.kv_path.read_bytes()) == expected
        assert len(node.lines_with("was removed")) == 1
        assert len(node.lines_with("is there again")) == 1


async def test_a_file_that_is_replaced_while_a_node_runs_is_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, other = tmp_path / "kv.json", tmp_path / "other"
    path.write_text('{"configTable":{"n":{"k":"v"}}}')
    async with local_node(tmp_path, kv_config_path=path) as node, Peer(node.port) as peer:
        other.write_text('{"configTable":{}}')
        os.replace(other, path)  # noqa: PTH105

        async def said() -> bool:
            return f"{path} was replaced; its pairs are not served" in caplog.text

        await eventually("the node to say so", said)
        assert (await peer.call(raw.LIST_KV, namespace="n")).value == {"table": {"k": "v"}}
        assert node.health()["ok"]
