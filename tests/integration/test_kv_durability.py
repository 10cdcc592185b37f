"""Key-value pairs are on disk before they are acknowledged, in RocketMQ's own file."""

import json
import logging
import stat
from pathlib import Path

import pytest

from routebook import app
from routebook.server.kv_file import KvFile
from routebook.state.kv import KvStore
from routebook.state.revision import Revision
from support import raw
from support.nodes import NodeProcess, local_node
from support.raw import Answer, BlockingPeer, Peer
from support.waiting import soon


def put(peer: BlockingPeer, key: str, value: str) -> None:
    assert peer.call(raw.PUT_KV, namespace="ns", key=key, value=value).code == raw.SUCCESS


def table(peer: BlockingPeer) -> dict[str, str]:
    answer = peer.call(raw.LIST_KV, namespace="ns")
    found: dict[str, str] = answer.value["table"] if answer.code == raw.SUCCESS else {}
    return found


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """Each round is killed with more puts under way than were acknowledged."""
    acknowledged: dict[str, str] = {}
    for round_number in range(5):
        with NodeProcess(tmp_path) as node, node.connect() as peer:
            found = table(peer)
            assert acknowledged.items() <= found.items()
            # Nothing but what was once asked for.
            assert all(value == f"value of {key}" for key, value in found.items())

            keys = [f"{round_number}-{number}" for number in range(60)]
            puts = [
                raw.request(
                    raw.PUT_KV,
                    {"namespace": "ns", "key": key, "value": f"value of {key}"},
                    opaque=opaque,
                )
                for opaque, key in enumerate(keys)
            ]
            peer.send(b"".join(puts))
            for _ in range(10 * round_number + 1):
                answer = peer.read()
                assert answer.code == raw.SUCCESS
                acknowledged[keys[answer.opaque]] = f"value of {keys[answer.opaque]}"
            node.kill()

    with NodeProcess(tmp_path) as node, node.connect() as peer:
        assert acknowledged.items() <= table(peer).items()


def test_deletions_and_overwrites_survive_kill_9(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        put(peer, "kept", "first")
        put(peer, "gone", "first")
        put(peer, "kept", "second")
        assert peer.call(raw.DELETE_KV, namespace="ns", key="gone").code == raw.SUCCESS
        node.kill()

    with NodeProcess(tmp_path) as node, node.connect() as peer:
        assert table(peer) == {"kept": "second"}
        # A namespace stays when its last key goes.
        peer.call(raw.DELETE_KV, namespace="ns", key="kept")
        node.kill()

    with NodeProcess(tmp_path) as node, node.connect() as peer:
        answer = peer.call(raw.LIST_KV, namespace="ns")
        assert (answer.code, answer.body) == (raw.SUCCESS, b'{"table":{}}')


def test_values_of_all_kinds_are_read_back_after_a_restart(tmp_path: Path) -> None:
    values = {
        "quotes": "\"double\" 'single' \\back",
        "control": "\x00\x01\t\n\r\x7f\x9f",
        "scripts": "Привет 世界 😀 \u2028",
        "empty": "",
        "json": '{"a":[1,2]}',
        "": "an empty key",
    }
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        for key, value in values.items():
            put(peer, key, value)
        assert table(peer) == values
        assert node.stop() == 0

    assert json.loads(node.kv_path.read_bytes()) == {"configTable": {"ns": values}}
    with NodeProcess(tmp_path) as node, node.connect() as peer:
        assert table(peer) == values


def test_a_file_of_rocketmq_is_taken_over_and_kept_in_its_format(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path)
    node.kv_path.write_text(
        '{"configTable":{"NSX":{},"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4;broker-b:4"}}}'
    )
    with node, node.connect() as peer:
        order = peer.call(raw.LIST_KV, namespace="ORDER_TOPIC_CONFIG")
        assert order.body == b'{"table":{"T1":"broker-a:4;broker-b:4"}}'
        assert peer.call(raw.LIST_KV, namespace="NSX").body == b'{"table":{}}'
        put(peer, "k", "v")

    assert node.kv_path.read_text() == (
        '{"configTable":{"NSX":{},"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4;broker-b:4"},'
        '"ns":{"k":"v"}}}'
    )


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param(" \n", {}, id="blank"),
        pytest.param("{}", {}, id="no-table"),
        pytest.param('{"configTable":{"n":{"k":7,"gone":null}}}', {"n": {"k": "7"}}, id="numbers"),
        pytest.param("{configTable:{'n':{k:'v',},}}", {"n": {"k": "v"}}, id="dialect"),
        pytest.param('{"other":1,"configTable":{"n":{}}}', {"n": {}}, id="unknown-members"),
    ],
)
async def test_files_fastjson_would_read_are_read(
    tmp_path: Path, text: str, tables: dict[str, dict[str, str]]
) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(text)
    async with local_node(tmp_path, kv_config_path=path) as node, Peer(node.port) as peer:
        for namespace, entries in tables.items():
            assert (await peer.call(raw.LIST_KV, namespace=namespace)).value == {"table": entries}
        assert path.read_text() == text  # starting changes nothing


def test_the_usual_path_is_in_the_home_folder(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--kv-config-path", "")
    with node, node.connect() as peer:
        put(peer, "k", "v")
        expected = tmp_path / "namesrv" / "kvConfig.json"
        assert json.loads(expected.read_bytes()) == {"configTable": {"ns": {"k": "v"}}}


async def test_a_put_that_cannot_be_written_is_refused_and_not_visible(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "kvConfig.json"
    async with local_node(tmp_path, kv_config_path=path) as node, Peer(node.port) as peer:

        async def put(key: str, value: str) -> Answer:
            return await peer.call(raw.PUT_KV, namespace="ns", key=key, value=value)

        assert (await put("before", "1")).code == raw.SUCCESS
        # Not even root writes into a folder that is a file.
        path.unlink()
        folder.rmdir()
        folder.write_text("in the way")

        refused = await put("before", "2")
        removed = await peer.call(raw.DELETE_KV, namespace="ns", key="before")
        added = await put("added", "3")

        for answer in (refused, removed, added):
            assert answer.code == raw.SYSTEM_ERROR
            assert str(path) in (answer.remark or "")
            assert "nothing was changed" in (answer.remark or "")
        listed = await peer.call(raw.LIST_KV, namespace="ns")
        assert listed.value == {"table": {"before": "1"}}
        assert len([r for r in caplog.records if r.levelno >= logging.ERROR]) == 3

        # It recovers with the disk.
        folder.unlink()
        assert (await put("added", "3")).code == raw.SUCCESS
        assert json.loads(path.read_bytes()) == {
            "configTable": {"ns": {"before": "1", "added": "3"}}
        }


async def test_a_write_leaves_no_other_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "kv" / "kvConfig.json"
    async with local_node(tmp_path, kv_config_path=path) as node, Peer(node.port) as peer:
        for number in range(3):
            await peer.call(raw.PUT_KV, namespace="ns", key="k", value=str(number))

    assert [file.name for file in path.parent.iterdir()] == ["kvConfig.json"]


async def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "kv.json", tmp_path / "kvConfig.json"
    real.parent.mkdir()
    real.write_text("{}")
    link.symlink_to(real)
    async with local_node(tmp_path, kv_config_path=link) as node, Peer(node.port) as peer:
        await peer.call(raw.PUT_KV, namespace="ns", key="k", value="v")

    assert stat.S_ISLNK(link.lstat().st_mode)
    assert json.loads(real.read_bytes()) == {"configTable": {"ns": {"k": "v"}}}


async def test_answers_come_in_the_order_of_the_puts_they_acknowledge(tmp_path: Path) -> None:
    """Puts that share a write: the last one wins, as if each had been written alone."""
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        values = [str(number) for number in range(50)]
        for value in values:
            fields = {"namespace": "ns", "key": "k", "value": value}
            peer.send_soon(raw.request(raw.PUT_KV, fields, opaque=int(value)))
        answers = [await peer.read() for _ in values]

        found = await peer.call(raw.GET_KV, namespace="ns", key="k")

    assert {answer.code for answer in answers} == {raw.SUCCESS}
    assert found.ext_fields == {"value": "49"}


async def test_all_pairs_are_printed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = KvStore(Revision(), 1000, {"a": {"x": "1", "y": "2"}, "b": {}})

    await KvFile(tmp_path / "kvConfig.json", store, lambda events: None).log_all()

    assert [record.getMessage() for record in caplog.records] == [
        "configTable NS: a Key: x Value: 1",
        "configTable NS: a Key: y Value: 2",
    ]


async def test_what_is_printed_of_pairs_is_cut_and_has_no_control_characters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    table = {f"key-{number}": "v" for number in range(3000)}
    store = KvStore(Revision(), 10**6, {"a\x9b": {"k\n": "\x1b" + "x" * 100_000}, "b": table})

    await KvFile(tmp_path / "kvConfig.json", store, lambda events: None).log_all()

    said = [record.getMessage() for record in caplog.records]
    assert said[0].startswith("configTable NS: a\\u009b Key: k\\u000a Value: \\u001bxxx")
    assert len(said[0]) < 400
    assert len(said) == 1001
    assert said[-1] == "configTable: and 2001 more pairs"


async def test_pairs_are_printed_after_a_minute_and_then_every_ten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    assert (app.KV_LOG_FIRST_S, app.KV_LOG_EVERY_S) == (60, 600)
    monkeypatch.setattr(app, "KV_LOG_FIRST_S", 0.0)
    monkeypatch.setattr(app, "KV_LOG_EVERY_S", 0.05)
    path = tmp_path / "kvConfig.json"
    path.write_text('{"configTable":{"a":{"x":"1"}}}')

    def printed() -> int:
        return caplog.text.count("configTable NS: a Key: x Value: 1")

    async with local_node(tmp_path, kv_config_path=path):
        await soon("two prints", printed, until=lambda count: count >= 2)
