"""How long callers notice that something broke: the windows docs/discovery.md promises.

    python -m benchmarks.windows [--rounds 5]

Three nodes, two simulated brokers that are processes of their own with a listening socket, and
callers that never pause. Each round starts anew and measures

* a node killed, and a node frozen (SIGSTOP), while it is the one asked: calls that failed, the
  longest call
* all three nodes killed and started again: from the start of the first node until calls succeed
* a broker killed (SIGKILL) while a caller picks queues: messages that needed another attempt, those
  that failed, and when the dead broker was last picked
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import spread
from benchmarks.servers import CannotRun, Cores, Launcher, Server

from routebook.client import NameServerClient, NameServerError
from routebook.client.cache import RouteCache

TOPIC = "windows"
CALLERS = 8
BEFORE_S, AFTER_S = 1.0, 4.0
FIGURES = (
    ("kill_failed", "a node is killed: calls that failed", ".0f"),
    ("kill_longest_ms", "a node is killed: longest call, ms", ".0f"),
    ("freeze_failed", "a node is frozen: calls that failed", ".0f"),
    ("freeze_longest_ms", "a node is frozen: longest call, ms", ".0f"),
    ("outage_back_ms", "all nodes back: until the next call succeeds, ms", ".0f"),
    ("broker_retried", "a broker is killed: messages that took another attempt", ".0f"),
    ("broker_failed", "a broker is killed: messages that failed", ".0f"),
    ("broker_last_picked_ms", "a broker is killed: last picked after, ms", ".0f"),
)
# A broker: listens, registers with the agent, says where, and lives until it is killed.
_BROKER = """
import asyncio, sys
from routebook.agent import BrokerAgent, BrokerSettings, Topic
async def hang_up(reader, writer):
    writer.close()
async def main(name, nameservers, topic):
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    addr = "127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    topics = [Topic(topic), Topic(topic + "-2")]
    async with BrokerAgent(BrokerSettings(name=name, addr=addr), nameservers, topics=topics):
        print(addr, flush=True)
        await asyncio.Event().wait()
asyncio.run(main(*sys.argv[1:]))
"""


class Calls:
    """Callers that ask for a route again and again; when each call ended, and how."""

    def __init__(self, client: NameServerClient) -> None:
        self._client = client
        self.ended: list[tuple[float, float, bool]] = []  # when, how long, whether it succeeded
        self._tasks = [asyncio.create_task(self._call()) for _ in range(CALLERS)]

    async def _call(self) -> None:
        while True:
            started = time.perf_counter()
            try:
                await self._client.route(TOPIC)
                good = True
            except NameServerError:
                good = False
            now = time.perf_counter()
            self.ended.append((now, now - started, good))
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def node_lost(client: NameServerClient, lose: Callable[[int], None], name: str) -> Measured:
    calls = Calls(client)
    await asyncio.sleep(BEFORE_S)
    assert client.chosen is not None
    lose(client.chosen.port)
    await asyncio.sleep(AFTER_S)
    await calls.stop()
    return {
        f"{name}_failed": sum(not good for _, _, good in calls.ended),
        f"{name}_longest_ms": max(took for _, took, _ in calls.ended) * 1e3,
    }


async def outage(
    client: NameServerClient, down: Callable[[], None], up: Callable[[], None]
) -> Measured:
    await client.route(TOPIC)
    await asyncio.to_thread(down)
    calls = Calls(client)
    await asyncio.sleep(AFTER_S)
    await asyncio.to_thread(up)
    back = time.perf_counter()
    for _ in range(600):
        if any(good and ended > back for ended, _, good in calls.ended):
            break
        await asyncio.sleep(0.05)
    await calls.stop()
    good_ones = [ended for ended, _, good in calls.ended if good]
    if not good_ones:
        raise CannotRun("no call succeeded within 30 s of the nodes' return")
    return {"outage_back_ms": max(0.0, min(good_ones) - back) * 1e3}


async def broker_lost(client: NameServerClient, lose: Callable[[], str]) -> Measured:
    retried = failed = 0
    last_picked = 0.0
    async with RouteCache(client) as cache:
        await cache.refresh(TOPIC)
        dead, killed_at = "", 0.0
        started = time.perf_counter()
        while (now := time.perf_counter()) < started + BEFORE_S + AFTER_S:
            if not dead and now > started + BEFORE_S:
                dead, killed_at = await asyncio.to_thread(lose), time.perf_counter()
            attempts, taken = await send(cache)
            retried += len(attempts) > 1
            failed += not taken
            if dead in attempts:
                last_picked = time.perf_counter() - killed_at
    return {
        "broker_retried": retried,
        "broker_failed": failed,
        "broker_last_picked_ms": last_picked * 1e3,
    }


async def send(cache: RouteCache) -> tuple[list[str], bool]:
    """The addresses tried, at most three, and whether the last one took it."""
    tried: list[str] = []
    queue = None
    for _ in range(3):
        queue = cache.pick(TOPIC, avoiding=queue)
        if queue is None:
            return tried, False
        address = cache.address_of(queue)
        if address is None:
            return tried, False
        tried.append(address)
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            cache.failed(queue)
            continue
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return tried, True
    return tried, False


class Stage:
    """Nodes and brokers of one round."""

    def __init__(self, launcher: Launcher, python: Path) -> None:
        self._launcher = launcher
        self._python = python
        self.nodes: list[Server] = []
        self.brokers: dict[str, subprocess.Popen[bytes]] = {}  # address -> process

    @property
    def addresses(self) -> str:
        return ";".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def set_up(self) -> None:
        self.nodes = [self._launcher.start("routebook") for _ in range(3)]
        for number in range(2):
            process = subprocess.Popen(
                [self._python, "-c", _BROKER, f"broker-{number}", self.addresses, TOPIC],
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            self.brokers[process.stdout.readline().decode().strip()] = process

    def signal_node(self, port: int, number: signal.Signals) -> None:
        next(node for node in self.nodes if node.port == port).process.send_signal(number)

    def kill_nodes(self) -> None:
        for node in self.nodes:
            node.process.kill()
            node.process.wait()

    def restart_nodes(self) -> None:
        """Until all three answer; the brokers find them by themselves."""
        self.nodes = [self._launcher.start("routebook", port=node.port) for node in self.nodes]

    def kill_a_broker(self) -> str:
        address, process = next(iter(self.brokers.items()))
        process.kill()
        process.wait()
        return address

    def clear(self) -> None:
        for process in self.brokers.values():
            process.kill()
            process.wait()
        for node in self.nodes:
            node.process.send_signal(signal.SIGCONT)
            node.stop()


async def one_round(launcher: Launcher, python: Path) -> Measured:
    figures: Measured = {}
    stories: list[Callable[[NameServerClient, Stage], Awaitable[Measured]]] = [
        lambda client, stage: node_lost(
            client, lambda port: stage.signal_node(port, signal.SIGKILL), "kill"
        ),
        lambda client, stage: node_lost(
            client, lambda port: stage.signal_node(port, signal.SIGSTOP), "freeze"
        ),
        lambda client, stage: outage(client, stage.kill_nodes, stage.restart_nodes),
        lambda client, stage: broker_lost(client, stage.kill_a_broker),
    ]
    for story in stories:
        stage = Stage(launcher, python)
        try:
            await asyncio.to_thread(stage.set_up)
            async with NameServerClient(stage.addresses) as client:
                figures |= await story(client, stage)
        finally:
            await asyncio.to_thread(stage.clear)
    return figures


def markdown(rounds: Sequence[Measured]) -> Iterator[str]:
    yield "| window | median (smallest..largest) |"
    yield "|---|---|"
    for figure, title, form in FIGURES:
        yield f"| {title} | {spread(rounds, figure, form)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Measure how long callers notice faults.")
    parser.add_argument("--rounds", type=int, default=5)
    add_places(parser)
    options = parser.parse_args(arguments)
    rounds: list[Measured] = []
    try:
        launcher = Launcher(Cores(server=0, generator=1), options.python, options.java_jars)
        for _ in range(options.rounds):
            rounds.append(asyncio.run(one_round(launcher, options.python)))
            note(", ".join(f"{name} {value:.0f}" for name, value in rounds[-1].items()))
    except CannotRun as error:
        note(str(error))
        return 2
    print("\n".join(markdown(rounds)))
    conditions = {"rounds": options.rounds, "callers": CALLERS}
    note(f"every round: {save('windows', conditions, {'rounds': rounds})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
