"""UPDATE_NAMESRV_CONFIG: refused, or a few live settings in a file of their own."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import javaproperties
import pytest

from routebook.app import NameServer
from routebook.settings import LIVE_KEYS
from support import raw
from support.brokers import Broker
from support.nodes import NodeProcess, local_node
from support.raw import Answer, Peer


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[NameServer]:
    """A node that may be configured over the network."""
    settings: dict[str, object] = {"allow_remote_config": True, "data_dir": tmp_path / "data"}
    async with local_node(tmp_path, **settings) as node:
        yield node


@pytest.fixture
async def peer(node: NameServer) -> AsyncIterator[Peer]:
    async with Peer(node.port) as peer:
        yield peer


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "journal"
    }


async def shown(peer: Peer) -> dict[str, str]:
    body = (await peer.call(raw.GET_CONFIG)).body.decode()
    return dict(line.split("=", 1) for line in body.splitlines())


async def update(peer: Peer, text: str) -> Answer:
    return await peer.call(raw.UPDATE_CONFIG, text.encode())


async def test_it_is_refused_unless_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        before, files = await shown(peer), files_in(tmp_path)

        answer = await update(peer, "enableTopicList=false\n")

        assert answer.code == raw.NO_PERMISSION
        assert "allowRemoteConfig=true" in (answer.remark or "")
        assert await shown(peer) == before
        assert (await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")).code == raw.SUCCESS
        assert files_in(tmp_path) == files
        complaints = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        assert len(complaints) == 1
        assert peer.address in complaints[0]


async def test_a_live_setting_takes_effect_at_once(tmp_path: Path, peer: Peer) -> None:
    assert (await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")).code == raw.SUCCESS

    assert (await update(peer, "enableTopicList=false\n")).code == raw.SUCCESS

    refused = await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")
    assert (refused.code, refused.remark) == (raw.SYSTEM_ERROR, "disable")
    assert (await shown(peer))["enableTopicList"] == "false"
    kept = javaproperties.loads((tmp_path / "data" / "remote.properties").read_text())
    assert kept == {"enableTopicList": "false"}
    # And back.
    await update(peer, "enableTopicList=true\nwaitSecondsForService=7\n")
    assert (await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")).code == raw.SUCCESS
    kept = javaproperties.loads((tmp_path / "data" / "remote.properties").read_text())
    assert kept == {"enableTopicList": "true", "waitSecondsForService": "7"}


async def test_a_change_reaches_answers_that_are_kept_ready(node: NameServer, peer: Peer) -> None:
    """Routes are kept encoded; another setting must not leave the old ones in use."""
    slave = Broker(broker_id=1, addr="10.0.0.2:10911", acting_master=True)
    async with Peer(node.port) as broker:
        await slave.register(broker)
        before = (await peer.call(raw.ROUTE, topic="T1")).value["brokerDatas"][0]["brokerAddrs"]

        await update(peer, "supportActingMaster=true\n")

        after = (await peer.call(raw.ROUTE, topic="T1")).value["brokerDatas"][0]["brokerAddrs"]
    assert (list(before), list(after)) == (["1"], ["0"])


async def test_the_change_is_an_event(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "routebook.events")

    await update(peer, "enableTopicList=false\n")

    [event] = [r.getMessage() for r in caplog.records if '"ConfigChanged"' in r.getMessage()]
    assert f'"peer":"{peer.address}"' in event
    assert '"before":{"enableTopicList":"true"},"after":{"enableTopicList":"false"}' in event


@pytest.mark.parametrize(
    "line",
    [
        "listenPort=1",
        "kvConfigPath=/tmp/elsewhere.json",
        "configStorePath=/tmp/elsewhere.properties",
        "rocketmqHome=/tmp",
        "configBlackList=",
        "dataDir=/tmp",
        "allowRemoteConfig=true",
        "tls.server.certPath=/tmp/cert.pem",
        "maxConnections=1",
        "serverWorkerThreads=1",
        "enableTopiclist=false",
        "somebody.elses=key",
        "kvConfigPath:/tmp/x",
        "kvConfig\\u0050ath=/tmp/x",
    ],
)
async def test_anything_else_refuses_the_whole_request(
    tmp_path: Path, peer: Peer, line: str
) -> None:
    before, files = await shown(peer), files_in(tmp_path)

    answer = await update(peer, f"enableTopicList=false\n{line}\nenableAllTopicList=false\n")

    assert answer.code == raw.NO_PERMISSION
    assert "Can not update config in black list" in (answer.remark or "")
    assert await shown(peer) == before
    assert (await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")).code == raw.SUCCESS
    assert files_in(tmp_path) == files


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("enableTopicList=maybe", "enableTopicList", id="no-boolean"),
        pytest.param(
            "waitSecondsForService=-1",
            "waitSecondsForService must be a whole number from 0 to 2147483647, not '-1'",
            id="negative",
        ),
        pytest.param("waitSecondsForService=soon", "waitSecondsForService", id="no-number"),
        pytest.param("enableTopicList=\\u12", "string2Properties error", id="bad-escape"),
    ],
)
async def test_a_bad_value_refuses_the_whole_request(
    tmp_path: Path, peer: Peer, text: str, reason: str
) -> None:
    before = await shown(peer)

    answer = await update(peer, f"enableAllTopicList=false\n{text}\n")

    assert answer.code == raw.SYSTEM_ERROR
    assert reason in (answer.remark or "")
    assert await shown(peer) == before
    assert not (tmp_path / "data" / "remote.properties").exists()


async def test_a_body_that_is_no_text_is_refused(peer: Peer) -> None:
    answer = await peer.call(raw.UPDATE_CONFIG, b"enableTopicList=\xff\xfe\n")

    assert (answer.code, answer.remark) == (raw.SYSTEM_ERROR, "string2Properties error")


@pytest.mark.parametrize("text", ["", "# a comment\n", "enableTopicList=true\n", "{key=value}"])
async def test_nothing_new_changes_nothing(tmp_path: Path, peer: Peer, text: str) -> None:
    answer = await update(peer, text)

    # The reference says success to a nonsense body; here its keys are not on the list.
    assert answer.code == (raw.NO_PERMISSION if "{" in text else raw.SUCCESS)
    assert not (tmp_path / "data" / "remote.properties").exists()


async def test_a_change_that_cannot_be_written_is_not_made(tmp_path: Path, peer: Peer) -> None:
    (tmp_path / "data" / "remote.properties").mkdir()

    answer = await update(peer, "enableTopicList=false\n")

    assert answer.code == raw.SYSTEM_ERROR
    assert "remote.properties" in (answer.remark or "")
    assert (await shown(peer))["enableTopicList"] == "true"
    assert (await peer.call(raw.TOPICS_OF_CLUSTER, cluster="c")).code == raw.SUCCESS


async def test_a_file_somebody_damaged_meanwhile_is_said_so(tmp_path: Path, peer: Peer) -> None:
    await update(peer, "enableTopicList=false\n")
    damaged = b"enableTopicList=\\u12\n"
    (tmp_path / "data" / "remote.properties").write_bytes(damaged)

    answer = await update(peer, "enableAllTopicList=false\n")

    assert answer.code == raw.SYSTEM_ERROR
    assert "remote.properties" in (answer.remark or "")
    assert (tmp_path / "data" / "remote.properties").read_bytes() == damaged


async def test_updates_at_the_same_time_all_count(tmp_path: Path, node: NameServer) -> None:
    booleans = [key for key in LIVE_KEYS if key != "waitSecondsForService"]

    async def switch(key: str) -> int:
        async with Peer(node.port) as peer:
            value = "false" if (await shown(peer))[key] == "true" else "true"
            return (await update(peer, f"{key}={value}\n")).code

    assert set(await asyncio.gather(*map(switch, booleans))) == {raw.SUCCESS}

    kept = javaproperties.loads((tmp_path / "data" / "remote.properties").read_text())
    assert sorted(kept) == sorted(booleans)
    names = sorted(path.name for path in (tmp_path / "data").iterdir())
    assert names == ["journal", "node-id", "remote.properties"]


def test_changes_survive_a_restart_and_the_users_file_is_never_written(tmp_path: Path) -> None:
    file = tmp_path / "namesrv.properties"
    text = "# mine\nallowRemoteConfig=true\nenableTopicList=true\nwaitSecondsForService=5\n"
    file.write_text(text)
    with NodeProcess(tmp_path, "-c", file) as node, node.connect() as peer:
        update = b"enableTopicList=false\nneedWaitForService=true\n"
        assert peer.call(raw.UPDATE_CONFIG, update).code == raw.SUCCESS
        node.kill()  # acknowledged is durable

    with NodeProcess(tmp_path, "-c", file) as node, node.connect() as peer:
        shown = peer.call(raw.GET_CONFIG).body.decode().splitlines()
        assert {"enableTopicList=false", "needWaitForService=true"} <= set(shown)
        assert "waitSecondsForService=5" in shown
        assert peer.call(raw.ROUTE, topic="T").remark == "name server not ready"
        assert "remote.properties" in node.stdout  # the readiness line tells of it
    assert file.read_text() == text

    # A flag is stronger, and without the permission the file is not looked at.
    with (
        NodeProcess(tmp_path, "-c", file, "--enable-topic-list", "true") as node,
        node.connect() as peer,
    ):
        assert b"enableTopicList=true\n" in peer.call(raw.GET_CONFIG).body
    with (
        NodeProcess(tmp_path, "-c", file, "--allow-remote-config", "false") as node,
        node.connect() as peer,
    ):
        assert b"enableTopicList=true\n" in peer.call(raw.GET_CONFIG).body


def test_a_damaged_remote_file_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, "--allow-remote-config", "true")
    node.data_dir.mkdir()
    damaged = b"enableTopicList=maybe\n"
    (node.data_dir / "remote.properties").write_bytes(damaged)

    assert node.run() == 2

    [line] = node.stderr.splitlines()
    assert "remote.properties" in line
    assert "enableTopicList" in line
    assert (node.data_dir / "remote.properties").read_bytes() == damaged


async def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    settings = {"tls_server_key_password": "open sesame"}
    async with local_node(tmp_path, **settings) as node, Peer(node.port) as peer:
        body = (await peer.call(raw.GET_CONFIG)).body

    assert b"open sesame" not in body
