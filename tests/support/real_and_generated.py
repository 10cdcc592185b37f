"""Journals of a generated fleet and of one with real brokers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import generate
from benchmarks.generate_plan import Scale
from pyspark.sql import SparkSession

from interop.support.brokers import Broker
from interop.support.cluster import create_topic
from interop.support.launcher import Launcher
from interop.support.peers import NEW, OLD
from interop.support.remoting import broker_addrs
from interop.support.servers import NameServerProcess
from routebook.events import BrokerConfirmed
from routebook.journal.reader import read
from support.waiting import wait_for

GENERATED, REAL = "default", "real"
NODES = ("ns-1", "ns-2")
TOPIC = "orders"
SCALE = Scale(
    brokers=6,
    topics=10,
    nodes=2,
    churn=3.0,
    queried=20,
    partition_on=0,
    loss_on=0,
    cold_on=0,
)


@dataclass(frozen=True, slots=True)
class Journals:
    """``real`` has those of its nodes by name."""

    generated: Path
    real: Mapping[str, Path]

    def ingest(self, tables: Path) -> list[str]:
        """The command that takes all of them."""
        folders = [str(folder) for folder in (self.generated, *self.real.values())]
        return ["ingest", *folders, "--tables", str(tables), "--memory", "1g"]


@contextmanager
def real_and_generated(spark: SparkSession, home: Path) -> Iterator[Journals]:
    with real_fleet(home / "real") as real:
        journals = Journals(home / "generated", real)
        generate(spark, SCALE, journals.generated)
        yield journals


@contextmanager
def real_fleet(home: Path) -> Iterator[dict[str, Path]]:
    """Two nodes: a broker of each release, one of them killed, the other stopped in order.

    The first node is killed between, and remembers.
    """
    home.mkdir(parents=True)
    launcher = Launcher(home)
    try:
        nodes = [launcher.node({"nodeId": name, "fleet": REAL}) for name in NODES]
        addresses = ";".join(node.address for node in nodes)
        settings = {"registerNameServerPeriod": "10000"}
        admin = launcher.admin()
        new, old = (
            launcher.broker(version, addresses, settings=settings, registered=False)
            for version in (NEW, OLD)
        )
        for broker in (new, old):
            _wait(nodes, broker, listed=True)
        create_topic(admin, nodes[0].address, new, TOPIC)
        create_topic(admin, nodes[0].address, old, TOPIC)
        nodes[0].restart(killed=True)
        wait_for("both brokers", lambda: _confirmed(nodes[0]), until=bool, timeout_s=60)
        old.kill()
        _wait(nodes, old, listed=False)
        new.terminate()
        _wait(nodes, new, listed=False)
        for node in nodes:
            assert node.stop() == 0
        yield {name: _journal(node) for name, node in zip(NODES, nodes, strict=True)}
    finally:
        launcher.close()


def _journal(node: NameServerProcess) -> Path:
    return node.folder / "data" / "journal"


def _confirmed(node: NameServerProcess) -> bool:
    return sum(isinstance(each.event, BrokerConfirmed) for each in read(_journal(node))) == 2


def _wait(nodes: Sequence[NameServerProcess], broker: Broker, *, listed: bool) -> None:
    for node in nodes:
        wait_for(
            f"{broker.name} at {node.address}",
            lambda node=node: broker_addrs(node.address, broker.name),  # type: ignore[misc]
            until=lambda addrs: bool(addrs) is listed,
            timeout_s=60,
        )
