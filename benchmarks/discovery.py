"""What discovery costs its user: polling, registering, importing.

    python -m benchmarks.discovery [--topics 10000] [--rounds 3] [--seconds 60]

Polling: a RouteCache keeps all topics in use over one connection at the default 30 s; its share of
a core is measured over two whole periods, against Routebook and against the Java NameServer.
Registering: processor time of the agent's process from the first byte encoded until the answer is
there, the first time (everything is built) and again (it is only sent). Importing: a fresh
interpreter, beside one that imports only asyncio, which every asyncio program does.
"""

import argparse
import asyncio
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import REAL_SERVERS, spread
from benchmarks.servers import CannotRun, Launcher, Server, two_cores

from routebook.agent import BrokerAgent, BrokerSettings, Topic
from routebook.client import NameServerClient
from routebook.client.cache import POLL_S, RouteCache

BROKERS = 4
FIGURES = (
    ("poll_core_percent", "polling {topics} topics every 30 s: percent of a core", ".2f"),
    ("poll_us", "polling: CPU µs a topic", ".0f"),
    ("register_first_ms", "registering {topics} topics, built and sent: CPU ms", ".1f"),
    ("register_again_ms", "registering {topics} topics again: CPU ms", ".1f"),
)
IMPORTS = (
    ("asyncio", "import asyncio"),
    ("client", "import routebook.client"),
)
_TIMED = """
import time
wall, cpu = time.perf_counter(), time.process_time()
{statement}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
import sys
assert "pyspark" not in sys.modules
print(wall * 1e3, cpu * 1e3)
"""


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(server: Server, topics: Sequence[Topic], seconds: float) -> Measured:
    address = f"127.0.0.1:{server.port}"
    agents = [
        BrokerAgent(
            BrokerSettings(name=f"bench-{n}", addr=f"10.0.0.{n + 1}:10911"), address, topics=topics
        )
        for n in range(BROKERS)
    ]
    before = cpu_s()
    await agents[0].start()
    first_ms = (cpu_s() - before) * 1e3
    before = cpu_s()
    outcomes = await agents[0].round()
    again_ms = (cpu_s() - before) * 1e3
    if not all(outcome.ok for outcome in outcomes.values()):
        raise CannotRun(f"the registration failed: {outcomes}")
    for agent in agents[1:]:
        await agent.start()
    figures = {"register_first_ms": first_ms, "register_again_ms": again_ms}
    figures |= await polling(address, topics, seconds)
    for agent in agents:
        await agent.leave()
    return figures


async def polling(address: str, topics: Sequence[Topic], seconds: float) -> Measured:
    async with NameServerClient(address) as client, RouteCache(client) as cache:
        for topic in topics:
            cache.use(topic.name)
        for topic in topics:
            await cache.route(topic.name)
        await asyncio.sleep(POLL_S)  # until the polls are spread over the period
        before, started = cpu_s(), time.perf_counter()
        await asyncio.sleep(seconds)
        used, elapsed = cpu_s() - before, time.perf_counter() - started
        oldest = max(cache.age_s(topic.name) or 0.0 for topic in topics)
        if oldest > 2 * POLL_S:
            raise CannotRun(f"polling fell behind: a route is {oldest:.0f} s old")
    polls = len(topics) * elapsed / POLL_S
    return {"poll_core_percent": used / elapsed * 100, "poll_us": used / polls * 1e6}


def import_ms(python: Path, statement: str) -> tuple[float, float]:
    """Wall and processor time."""
    output = subprocess.run(
        [python, "-c", _TIMED.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wall, cpu = output.split()
    return float(wall), float(cpu)


def measure_imports(python: Path, rounds: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {name: [] for name, _ in IMPORTS}
    for _, statement in IMPORTS:
        import_ms(python, statement)  # compiles what has to be compiled
    for _ in range(rounds):
        for name, statement in IMPORTS:
            wall, cpu = import_ms(python, statement)
            found[name].append({"wall_ms": wall, "cpu_ms": cpu})
    return found


def markdown(
    results: dict[str, list[Measured]], imports: dict[str, list[Measured]], topics: int
) -> Iterator[str]:
    yield "| figure | with Routebook | with Java 5.5.0 |"
    yield "|---|---|---|"
    for figure, title, form in FIGURES:
        cells = [
            spread(results[name], figure, form) if name in results else "-" for name in REAL_SERVERS
        ]
        yield f"| {title.format(topics=f'{topics:,}')} | {' | '.join(cells)} |"
    yield ""
    yield "| import | wall ms | CPU ms |"
    yield "|---|---|---|"
    for name, statement in IMPORTS:
        rounds = imports[name]
        yield (
            f"| `{statement}` | {spread(rounds, 'wall_ms', '.0f')}"
            f" | {spread(rounds, 'cpu_ms', '.0f')} |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Measure what discovery costs its user.")
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2 * POLL_S)
    parser.add_argument("--import-rounds", type=int, default=15)
    parser.add_argument("--servers", default=",".join(REAL_SERVERS), help="default: %(default)s")
    add_places(parser)
    options = parser.parse_args(arguments)
    names = options.servers.split(",")
    topics = [Topic(f"bench-topic-{n:05}") for n in range(options.topics)]
    results: dict[str, list[Measured]] = {name: [] for name in names}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars)
        imports = measure_imports(options.python, options.import_rounds)
        median_ms = statistics.median(found["wall_ms"] for found in imports["client"])
        note(f"import routebook.client: {median_ms:.0f} ms")
        for _ in range(options.rounds):
            for name in names:
                server = launcher.start(name)
                try:
                    figures = asyncio.run(measure(server, topics, options.seconds))
                finally:
                    server.stop()
                results[name].append(figures)
                note(f"{name}: " + ", ".join(f"{k} {v:.2f}" for k, v in figures.items()))
    except CannotRun as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results, imports, options.topics)))
    conditions = {
        "topics": options.topics,
        "brokers_a_topic": BROKERS,
        "rounds": options.rounds,
        "seconds": options.seconds,
    }
    note(f"every round: {save('discovery', conditions, {**results, 'imports': imports})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
