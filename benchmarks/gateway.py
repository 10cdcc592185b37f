"""What a gateway costs its node: route queries beside the same node without one, and memory.

    python -m benchmarks.gateway [--rounds 7] [--seconds 10] [--core other|same]

Two nodes with the brokers of ``benchmarks.run``, asked in turn by its load generator. One has no
gateway. The gateway of the other one has 200 pages open (streams of events), is scraped once a
second, and answers one question about the past after the other. Who visits it is a process of its
own, with a lower priority than the gateway.

``--core other`` has gateway and visitors on the core of the load generator, which then has less of
it: that counts against us. ``same`` has them on the core of the node, as on a machine that has only
one.

Then the node's processor time with 1 and with 500 pages open, while a broker changes its topic ten
times a second; and resident memory of node and gateway.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import Fleet
from benchmarks.frames import UnexpectedAnswer, ask, connect, encode_request
from benchmarks.pairs import ratio_of
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import LOAD_ROWS, LoadRow, median, spread
from benchmarks.run import GENERATOR_WARM_UP_S, Generator
from benchmarks.servers import ROOT, CannotRun, Launcher, Server, cpu_seconds, free_port, two_cores
from benchmarks.watch import Changer

HEALTH = 19_001
PAGES, MANY_PAGES = 200, 500
OF_ONE_ADDRESS = 30  # pages; a gateway takes 32
TARGET = 0.97
CHANGE_EVERY_S = 0.1
READY_S = 60.0
STREAM = "/v1/events?state=true"
PAST = "/v1/history/broker?broker=bench-broker-000"
FIGURES = (
    ("rps", "route queries a second", ",.0f"),
    ("p99_us", "p99, µs", ",.0f"),
    ("server_us_per_query", "processor time of the node for a query, µs", ".2f"),
)


# -- visitors, in a process of their own


async def opened(port: int, path: str, source: str = "127.0.0.1") -> asyncio.StreamReader:
    """A stream whose header has come; raises CannotRun for anything but 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode())
    header = await reader.readuntil(b"\r\n\r\n")
    if not header.startswith(b"HTTP/1.1 200"):
        first = header.partition(b"\r\n")[0].decode()
        raise CannotRun(f"{path} is answered with {first}")
    _KEPT.append(writer)
    return reader


_KEPT: list[asyncio.StreamWriter] = []  # one that nobody holds is closed


async def read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass
    raise CannotRun("the gateway has ended a stream")


async def ask_again_and_again(port: int, path: str, pause_s: float) -> None:
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        answer = await reader.read(-1)
        writer.close()
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")):
            raise CannotRun(f"{path} is answered with {answer[:60]!r}")
        await asyncio.sleep(pause_s)


async def visit(port: int, pages: int, *, busy: bool) -> None:
    """Keep ``pages`` open; ``busy``: scrape, and ask about the past, too."""
    os.nice(10)
    async with asyncio.TaskGroup() as visitors:
        for number in range(pages):
            source = f"127.0.1.{1 + number // OF_ONE_ADDRESS}"
            visitors.create_task(read_all(await opened(port, STREAM, source)))
        if busy:
            visitors.create_task(ask_again_and_again(port, "/metrics", 1.0))
            visitors.create_task(ask_again_and_again(port, PAST, 0.0))
        print("open", flush=True)


@dataclass(frozen=True, slots=True)
class Visited:
    """A node with a gateway, on which cores it and its visitors are."""

    server: Server
    http_port: int
    core: int

    @property
    def gateway_pid(self) -> int:
        with connect(self.server.port) as connection:
            told = json.loads(ask(connection, encode_request(HEALTH, {})).body)
        pid = told["gateway"]["pid"]
        if told["gateway"]["state"] != "listening" or pid is None:
            raise CannotRun(f"the gateway does not listen: {told['gateway']}")
        return int(pid)

    def move_gateway(self) -> None:
        for task in Path(f"/proc/{self.gateway_pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), {self.core})

    def visitors(self, pages: int, *, busy: bool) -> "subprocess.Popen[str]":
        """A process that has as many pages open when this returns; it is for who asks to end it."""
        command = [sys.executable, "-m", "benchmarks.gateway", "--visit", str(self.http_port)]
        command += ["--pages", str(pages), *(["--busy"] if busy else [])]
        made = subprocess.Popen(
            ["taskset", "-c", str(self.core), *command], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert made.stdout is not None
        if made.stdout.readline() != "open\n":
            made.kill()
            made.wait()
            raise CannotRun("the pages could not be opened; the lines above say why")
        return made


def started(launcher: Launcher, core: int, cleanup: ExitStack) -> Visited:
    port = free_port()
    server = launcher.start("routebook", settings={"GATEWAY_PORT": str(port)})
    cleanup.callback(server.stop)
    visited = Visited(server, port, core)
    give_up = time.perf_counter() + READY_S
    while True:
        try:
            with connect(port):
                visited.move_gateway()
                return visited
        except OSError:
            if time.perf_counter() > give_up:
                raise CannotRun("the gateway did not listen within a minute") from None
            time.sleep(0.05)


def ended(visitors: "subprocess.Popen[str]") -> None:
    visitors.kill()
    visitors.wait()


# -- what is measured


def queries(
    launcher: Launcher, core: int, row: LoadRow, *, rounds: int, seconds: float
) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {"without": [], "with": []}
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="bench-load-")))
        generator = Generator(folder)
        plain = launcher.start("routebook")
        cleanup.callback(plain.stop)
        visited = started(launcher, core, cleanup)
        fleets = {"without": Fleet(plain.port), "with": Fleet(visited.server.port)}
        for fleet in fleets.values():
            cleanup.callback(fleet.close)
        for _ in range(rounds):
            for name, server in (("without", plain), ("with", visited.server)):
                fleets[name].refresh()
                visitors = visited.visitors(PAGES, busy=True) if name == "with" else None
                try:
                    figures = generator.run(
                        row, server, warm_up_s=GENERATOR_WARM_UP_S, seconds=seconds
                    )
                    if visitors is not None and visitors.poll() is not None:
                        raise CannotRun("the visitors gave up; the lines above say why")
                finally:
                    if visitors is not None:
                        ended(visitors)
                found[name].append(figures)
                note(f"{row.key} {name} gateway: {figures['rps']:,.0f} per second")
    return found


def clients(launcher: Launcher, core: int, *, rounds: int, seconds: float) -> list[Measured]:
    """The node's cores in use with one page open and with many, and memory."""
    found: list[Measured] = []
    for _ in range(rounds):
        with ExitStack() as cleanup:
            visited = started(launcher, core, cleanup)
            fleet = Fleet(visited.server.port)
            cleanup.callback(fleet.close)
            changer = Changer(visited.server.port)
            figures: Measured = {}
            for pages in (1, MANY_PAGES):
                visitors = visited.visitors(pages, busy=False)
                gateway = visited.gateway_pid
                before, began = visited.server.cpu_seconds(), time.perf_counter()
                gateway_before = cpu_seconds(gateway)
                while time.perf_counter() < began + seconds:
                    changer.change()
                    time.sleep(CHANGE_EVERY_S)
                elapsed = time.perf_counter() - began
                node_s = visited.server.cpu_seconds() - before
                figures[f"node_percent_{pages}"] = node_s / elapsed * 100
                gateway_s = cpu_seconds(gateway) - gateway_before
                figures[f"gateway_percent_{pages}"] = gateway_s / elapsed * 100
                figures[f"node_mb_{pages}"] = visited.server.rss_mb()
                figures[f"gateway_mb_{pages}"] = resident_mb(gateway)
                ended(visitors)
            found.append(figures)
            note(", ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    return found


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise CannotRun(f"no VmRSS in /proc/{pid}/status")


def markdown(found: dict[str, list[Measured]], pages: list[Measured], core: str) -> Iterator[str]:
    if found["with"]:
        yield f"| gateway on the {core} core | without a gateway | with | ratio |"
        yield "|---|---|---|---|"
        for figure, title, form in FIGURES:
            columns = [spread(found[name], figure, form) for name in ("without", "with")]
            # Of times less is better: a ratio below 1 is worse in every row.
            both = zip(found["with"], found["without"], strict=True)
            values = [(a[figure], b[figure]) for a, b in both]
            ratio = ratio_of(values if figure == "rps" else [(b, a) for a, b in values])
            verdict = ratio.verdict(TARGET)
            yield f"| {title} | {' | '.join(columns)} | {ratio}, at least {TARGET}: {verdict} |"
    if pages:
        yield ""
        yield f"| | 1 page open | {MANY_PAGES} pages open | ratio of medians |"
        yield "|---|---|---|---|"
        for figure, title, form in (
            ("node_percent", "processor time of the node, % of a core", ".2f"),
            ("gateway_percent", "of the gateway", ".2f"),
            ("node_mb", "resident memory of the node, MB", ".1f"),
            ("gateway_mb", "of the gateway", ".1f"),
        ):
            one, many = f"{figure}_1", f"{figure}_{MANY_PAGES}"
            columns = [spread(pages, name, form) for name in (one, many)]
            ratio_text = f"{median(pages, many) / median(pages, one):.2f}"
            yield f"| {title} | {' | '.join(columns)} | {ratio_text} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Measure what a gateway costs its node.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--row", default="16x1", choices=[row.key for row in LOAD_ROWS])
    parser.add_argument("--core", default="other", choices=("other", "same"))
    parser.add_argument("--skip", default="", help="queries, clients")
    parser.add_argument("--visit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pages", type=int, default=PAGES, help=argparse.SUPPRESS)
    parser.add_argument("--busy", action="store_true", help=argparse.SUPPRESS)
    add_places(parser)
    options = parser.parse_args(arguments)
    if options.visit is not None:
        try:
            asyncio.run(visit(options.visit, options.pages, busy=options.busy))
        except* (CannotRun, OSError) as errors:
            note(f"visitors: {errors.exceptions[0]}")
        return 2
    skipped = options.skip.split(",")
    found: dict[str, list[Measured]] = {"without": [], "with": []}
    pages: list[Measured] = []
    try:
        cores = two_cores()
        launcher = Launcher(cores, options.python, options.java_jars)
        core = cores.generator if options.core == "other" else cores.server
        [row] = [row for row in LOAD_ROWS if row.key == options.row]
        if "queries" not in skipped:
            found = queries(launcher, core, row, rounds=options.rounds, seconds=options.seconds)
        if "clients" not in skipped:
            pages = clients(launcher, core, rounds=options.rounds, seconds=options.seconds)
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(found, pages, options.core)))
    conditions = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "row": options.row,
        "core": options.core,
        "pages": PAGES,
    }
    results = {"queries": found, "clients": pages}
    note(f"every round: {save('gateway', conditions, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
