"""Simulated brokers as nodes see them, and the command that runs them."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from routebook.cli.main import cli
from routebook.client import NameServerClient, TopicRoute
from routebook.simulation.cluster import Happened, SimulatedCluster
from routebook.simulation.faults import Fault, FaultKind
from routebook.wire.answers import BrokerGroup
from support.nodes import NodeProcess, local_node
from support.programs import Program
from support.waiting import eventually, soon

CLUSTER = "SimulatedCluster"


@asynccontextmanager
async def simulated(
    folder: Path,
    *,
    brokers: int = 2,
    heartbeat_timeout_s: float = 60.0,
    listen: bool = False,
) -> AsyncIterator[tuple[SimulatedCluster, NameServerClient]]:
    async with (
        local_node(folder) as node,
        NameServerClient(node.address) as client,
        SimulatedCluster(
            node.address,
            brokers=brokers,
            topics=3,
            queues=4,
            heartbeat_timeout_s=heartbeat_timeout_s,
            listen=listen,
        ) as cluster,
    ):
        yield cluster, client


@asynccontextmanager
async def suffering(cluster: SimulatedCluster, kind: FaultKind) -> AsyncIterator[None]:
    """The first broker suffers ``kind`` until the block ends, and is well again after it."""
    playing = asyncio.create_task(cluster.play([Fault(0.0, 0, kind, lasts_s=3600.0)]))
    try:
        yield
    finally:
        await cluster.end()
        await playing


def group_of(
    client: NameServerClient, name: str = "broker-0"
) -> Callable[[], Awaitable[BrokerGroup | None]]:
    return lambda: client.broker_group(CLUSTER, name)


def route_of(client: NameServerClient, topic: str) -> Callable[[], Awaitable[TopicRoute | None]]:
    return lambda: client.find_route(topic)


async def test_all_brokers_have_all_topics(tmp_path: Path) -> None:
    async with simulated(tmp_path, brokers=5) as (cluster, client):
        assert await client.topics() == ("topic-0000", "topic-0001", "topic-0002")
        route = await client.route("topic-0002")
        assert [group.name for group in route.brokers] == [f"broker-{i}" for i in range(5)]
        assert {(q.read_queues, q.write_queues, q.perm) for q in route.queues} == {(4, 4, 6)}
        assert all(view.registered == view.nodes == 1 for view in cluster.views())


async def test_brokers_unregister_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "routebook.events")
    async with simulated(tmp_path):
        pass
    assert _causes(caplog) == ["unregister", "unregister"]


async def test_brokers_can_end_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "routebook.events")
    async with simulated(tmp_path) as (cluster, client):
        await cluster.end(kill=True)
        await eventually("both to be gone", client.cluster_view, until=lambda v: not v.brokers)
    assert _causes(caplog) == ["connection_closed", "connection_closed"]


def _causes(caplog: pytest.LogCaptureFixture) -> list[str]:
    events = [json.loads(r.getMessage()) for r in caplog.records if r.name == "routebook.events"]
    return [event["cause"] for event in events if event["event"] == "BrokerLeft"]


@pytest.mark.parametrize("kind", ["kill", "leave"])
async def test_a_broker_that_goes_is_not_listed_and_the_others_are(
    tmp_path: Path, kind: FaultKind
) -> None:
    async with simulated(tmp_path) as (cluster, client), suffering(cluster, kind):
        await eventually("it to be gone", group_of(client), until=lambda group: group is None)
        assert await client.broker_group(CLUSTER, "broker-1") is not None


@pytest.mark.parametrize("kind", ["kill", "leave", "hang", "flap"])
async def test_a_broker_that_went_comes_back(tmp_path: Path, kind: FaultKind) -> None:
    async with simulated(tmp_path) as (cluster, client):
        await cluster.play([Fault(0.0, 0, kind, lasts_s=0.1)])

        assert [view.state for view in cluster.views()] == ["up", "up"]
        route = await client.route("topic-0000")
        assert [group.name for group in route.brokers] == ["broker-0", "broker-1"]


async def test_a_broker_that_hangs_stays_listed(tmp_path: Path) -> None:
    async with simulated(tmp_path) as (cluster, client):
        await cluster.brokers[0].hang()

        assert cluster.views()[0].state == "hung"
        route = await client.route("topic-0000")
        assert [group.name for group in route.brokers] == ["broker-0", "broker-1"]


async def test_a_broker_that_hangs_is_dropped_when_its_time_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "routebook.events")
    async with (
        simulated(tmp_path, heartbeat_timeout_s=2.0) as (cluster, client),
        suffering(cluster, "hang"),
    ):
        await eventually("it to be gone", group_of(client), until=lambda group: group is None)
        # Its neighbour speaks all the time and stays.
        assert await client.broker_group(CLUSTER, "broker-1") is not None
    assert _causes(caplog)[0] == "expired"


async def test_a_drained_broker_is_read_only_until_it_is_over(tmp_path: Path) -> None:
    async with simulated(tmp_path) as (cluster, client):
        playing = asyncio.create_task(cluster.play([Fault(0.0, 0, "drain", lasts_s=0.5)]))
        drained = await eventually(
            "read-only queues",
            route_of(client, "topic-0001"),
            until=lambda route: route is not None and not route.queues[0].writable,
        )
        assert drained is not None
        assert [queues.perm for queues in drained.queues] == [4, 6]
        await playing
        assert [q.perm for q in (await client.route("topic-0001")).queues] == [6, 6]


async def test_a_demoted_broker_is_a_slave_at_the_same_address(tmp_path: Path) -> None:
    async with simulated(tmp_path) as (cluster, client):
        playing = asyncio.create_task(cluster.play([Fault(0.0, 0, "role", lasts_s=0.5)]))
        await eventually(
            "the slave",
            group_of(client),
            until=lambda group: group is not None and group.addrs == {1: "127.1.0.1:10911"},
        )
        await playing
        group = await client.broker_group(CLUSTER, "broker-0")
        assert group is not None
        assert group.addrs == {0: "127.1.0.1:10911"}


async def test_churned_topics_come_change_and_go(tmp_path: Path) -> None:
    topic = "broker-0-churned-2"
    async with simulated(tmp_path) as (cluster, client):
        playing = asyncio.create_task(cluster.play([Fault(0.0, 0, "churn", lasts_s=1.0)]))

        async def queues() -> list[int]:
            route = await client.find_route(topic)
            return [] if route is None else [q.read_queues for q in route.queues]

        for count in (4, 8):
            await eventually("the queues", queues, until=[count].__eq__)
        await playing
        route = await client.route(topic)
        assert [queues.perm for queues in route.queues] == [0]
        assert cluster.views()[0].topics == 3


async def test_listening_brokers_can_be_reached_until_they_are_killed(tmp_path: Path) -> None:
    async with simulated(tmp_path, listen=True) as (cluster, client):
        group = await client.broker_group(CLUSTER, "broker-0")
        assert group is not None
        host, _, port = group.addrs[0].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

        await cluster.brokers[0].kill()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))

        await cluster.brokers[0].start()
        back = await client.broker_group(CLUSTER, "broker-0")
        assert back is not None
        assert back.addrs == group.addrs


async def test_the_end_does_not_wait_for_faults_to_be_over(tmp_path: Path) -> None:
    events: list[Happened] = []
    async with local_node(tmp_path) as node:
        cluster = SimulatedCluster(node.address, brokers=1, topics=1, on_event=events.append)
        async with cluster:
            far_away = Fault(3600.0, 0, "kill", lasts_s=3600.0)
            playing = asyncio.create_task(
                cluster.play([Fault(0.0, 0, "drain", lasts_s=3600.0), far_away])
            )
            await soon("the first fault", lambda: [e for e in events if e.what == "drain"])
        await playing
    assert [event.what for event in events] == ["up", "drain", "left"]


async def test_faults_of_one_broker_wait_for_each_other(tmp_path: Path) -> None:
    events: list[Happened] = []
    async with (
        local_node(tmp_path) as node,
        SimulatedCluster(node.address, brokers=1, topics=1, on_event=events.append) as cluster,
    ):
        await cluster.play(
            [Fault(0.0, 0, "kill", lasts_s=0.3), Fault(0.1, 0, "leave", lasts_s=0.1)]
        )
    assert [event.what for event in events] == ["up", "kill", "back", "leave", "back", "left"]


# -- the command


def events_of(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_command_tells_what_happens_and_leaves_in_order(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node:
        program = Program(
            tmp_path / "sim",
            *("simulate", "-n", f"127.0.0.1:{node.port}", "--brokers", "3", "--topics", "2"),
            *("--duration", "0.5"),
            ready="",
        )
        assert program.run() == 0
        left = node.lines_with("BrokerLeft")

    lines = [line.split(" ", 1)[1] for line in program.stdout.splitlines()]
    assert sorted(lines[:3]) == [f"broker-{i} up registered with 1 of 1 nodes" for i in range(3)]
    assert lines[3:] == ["broker-0 left", "broker-1 left", "broker-2 left"]
    assert program.stderr == ""
    assert len(left) == 3
    assert all('"cause":"unregister"' in line for line in left)


def test_the_command_without_an_end_stops_when_told_and_can_stop_without_a_word(
    tmp_path: Path,
) -> None:
    with NodeProcess(tmp_path / "node") as node:
        arguments = ["simulate", "-n", f"127.0.0.1:{node.port}", "--brokers", "1", "--kill"]
        with Program(tmp_path / "sim", *arguments, ready="broker-0 up") as program:
            program.signal(signal.SIGINT)
            assert program.ended() == 0
        node.stop()
        assert len(node.lines_with('"cause":"connection_closed"')) == 1
    assert "broker-0 killed" in program.stdout


def test_the_same_seed_plays_the_same_faults(tmp_path: Path) -> None:
    plays: list[list[tuple[object, object, object]]] = []
    with NodeProcess(tmp_path / "node") as node:
        for number in range(2):
            program = Program(
                tmp_path / f"sim{number}",
                *("simulate", "-n", f"127.0.0.1:{node.port}", "--brokers", "4", "--json"),
                *("--faults", "kill,leave", "--every", "0.1", "--seed", "5", "--duration", "1.5"),
                ready="",
            )
            assert program.run() == 0
            events = events_of(program.stdout)
            plays.append(
                [
                    (e["broker"], e["event"], e["detail"])
                    for e in events
                    if e["event"] in ("kill", "leave")
                ]
            )
    first, second = plays
    assert len(first) == 4
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        pytest.param(["--faults", "kill,quake"], 2, "'quake' is none of kill", id="fault"),
        pytest.param(["--brokers", "0"], 2, "--brokers", id="no-broker"),
        pytest.param([], 3, "no NameServer took a registration", id="no-nameserver"),
    ],
)
def test_what_cannot_be_simulated_is_said_in_a_sentence(
    arguments: list[str], code: int, sentence: str
) -> None:
    result = CliRunner().invoke(cli, ["simulate", "-n", "127.0.0.1:1", *arguments])

    assert result.exit_code == code
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_on_a_terminal_a_table_shows_how_the_brokers_stand(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "routebook", "simulate", "--brokers", "2", "--topics", "3"],
            env={
                **os.environ,
                "NAMESRV_ADDR": f"127.0.0.1:{node.port}",
                "TERM": "xterm",
                "COLUMNS": "100",
                "LINES": "40",
            },
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        with process, os.fdopen(ours, "rb", buffering=0) as screen:
            text = b""
            while b"2 of 2 brokers registered everywhere" not in text:
                text += screen.read(65536)
            process.send_signal(signal.SIGINT)
            with suppress(OSError):  # how a terminal says that its last user is gone
                while more := screen.read(65536):
                    text += more
        assert process.returncode == 0
        assert len(node.lines_with("BrokerLeft", '"cause":"unregister"')) == 2
    assert b"127.1.0.2:10911" in text
    assert b"broker-1 left" in text
    assert b"Traceback" not in text
