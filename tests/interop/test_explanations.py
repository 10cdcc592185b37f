"""What the journal tells of a day in the life of real brokers, sentence by sentence."""

import re
import subprocess
import sys

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import create_topic
from interop.support.launcher import Launcher
from interop.support.peers import NEW
from interop.support.servers import NameServerProcess
from routebook.client.sync import SyncNameServerClient
from support.waiting import wait_for

NAME, CLUSTER, TOPIC = "orders-broker", "shop", "orders"


def started(
    launcher: Launcher, namesrv: str, *, port: int | None = None, broker_id: int = 0
) -> Broker:
    """A broker that need not be known yet, on a port of its own choice unless told which."""
    settings = {} if port is None else {"listenPort": str(port)}
    return launcher.broker(
        NEW,
        namesrv,
        name=NAME,
        cluster=CLUSTER,
        settings=settings,
        registered=False,
        broker_id=broker_id,
    )


def wait_for_members(client: SyncNameServerClient, members: dict[int, str]) -> None:
    def seen() -> dict[int, str]:
        group = client.broker_group(CLUSTER, NAME)
        return {} if group is None else dict(group.addrs)

    wait_for(f"members {members}", seen, until=lambda addrs: addrs == members, timeout_s=60)


def told(node: NameServerProcess, subject: str) -> list[str]:
    """The sentences of ``history explain``, without dates, with times and ports made alike."""
    journal = node.folder / "data" / "journal"
    ran = subprocess.run(
        [sys.executable, "-m", "routebook", "history", "explain", subject, "--journal", journal],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in ran.stdout.splitlines() if re.match(r"\d\d:\d\d:\d\dZ ", line)]
    sentences = [line.partition(" ")[2] for line in lines]
    return [re.sub(r"after [\d.]+ m?s", "after T", sentence) for sentence in sentences]


def test_the_life_of_real_brokers_is_told_as_it_was(launcher: Launcher, admin: Admin) -> None:
    node = launcher.node()
    with SyncNameServerClient(node.address) as client:
        first = started(launcher, node.address)
        wait_for_members(client, {0: first.address})
        create_topic(admin, node.address, first, TOPIC)
        first.kill()
        wait_for_members(client, {})

        again = started(launcher, node.address, port=first.port)  # a new disk, the same address
        wait_for_members(client, {0: first.address})
        slave = started(launcher, node.address, broker_id=1)
        wait_for_members(client, {0: first.address, 1: slave.address})
        again.kill()
        wait_for_members(client, {1: slave.address})
        slave.terminate()
        wait_for_members(client, {})
        wait_for("the end of the slave", lambda: slave.running, until=lambda running: not running)
        started(launcher, node.address, port=slave.port)  # as the master
        wait_for_members(client, {0: slave.address})
        admin.run(node.address, "wipeWritePerm", "-b", NAME)

    sentences = [re.sub(r"from 127\.0\.0\.1:\d+", "from PEER", line) for line in told(node, NAME)]
    drained = sentences.pop()
    assert sentences == [
        f"{NAME} ({first.address}, id 0, cluster {CLUSTER}) registered from PEER with 15 topics.",
        f"{TOPIC} appeared on {NAME} with 4 read and 4 write queues, permission RW-,"
        " by a registration from PEER.",
        f"{NAME} left: its connection was closed by the peer; it had 16 topics.",
        f"{NAME} came back after T: {first.address}, id 0, cluster {CLUSTER},"
        " registered from PEER with 15 topics.",
        f"{NAME} ({slave.address}, id 1, cluster {CLUSTER}) registered from PEER as a slave.",
        f"{NAME} id 0 ({first.address}) left: its connection was closed by the peer;"
        f" still there: id 1 ({slave.address}).",
        f"{NAME} id 1 ({slave.address}) left: it unregistered; it had 15 topics.",
        f"{NAME} came back after T: {slave.address}, id 0, cluster {CLUSTER},"
        " registered from PEER with 15 topics.",
    ]
    assert re.fullmatch(
        r"permission to write was taken away by an administrator at 127\.0\.0\.1:\d+"
        rf" from 14 topics \(.+ and 11 more\) on {NAME}\.",
        drained,
    )
    topic = [re.sub(r"from 127\.0\.0\.1:\d+", "from PEER", line) for line in told(node, TOPIC)]
    assert topic == [
        f"{TOPIC} appeared on {NAME} with 4 read and 4 write queues, permission RW-,"
        " by a registration from PEER.",
        f"{NAME} left: its connection was closed by the peer; {TOPIC} is on no other broker,"
        " so there is no route.",
    ]
