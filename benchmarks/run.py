"""Route queries, registrations, start and memory: Routebook beside the Java NameServer.

    python -m benchmarks.run [--rounds 5] [--seconds 5] [--rows 16x1,64x64]

Both servers run at the same time, each pinned to the first core, but only one is loaded at a time:
every row is measured in rounds that go through the servers in turn, so a slow minute of the
machine hits all of them. The load comes from the second core. ``null`` is a server that only
copies bytes: what it reaches is what this machine, this generator and uvloop allow.

Prints Markdown, keeps every round as JSON in ``benchmarks/results/``.
"""

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import TOPIC_ON_16, Fleet, LargeBroker
from benchmarks.frames import UnexpectedAnswer, ask, connect, route_query
from benchmarks.probing import Probe, Registrar, probe_quietly, probe_while_registering
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import (
    ALL_ROWS,
    BEFORE,
    CHANGED,
    LOAD_ROWS,
    REAL_SERVERS,
    START,
    UNCHANGED,
    LoadRow,
    Results,
    markdown,
)
from benchmarks.servers import (
    JAVA_HEAP,
    ROOT,
    CannotRun,
    Launcher,
    Server,
    busy_seconds,
    children_seconds,
    two_cores,
)

# The Java server compiles its hot paths while it runs; figures rise for 20 to 30 seconds.
SERVER_WARM_UP_S = 60.0
# The generator is Java too: its first two seconds of every run are thrown away.
GENERATOR_WARM_UP_S = 2.0
IDLE_S = 5.0
DISTURBING_CPU = 0.1


class Generator:
    """Load.java, compiled once per run."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("javac") is None:
            raise CannotRun("javac is missing: install a JDK, 17 or newer")
        self._classes = folder
        source = ROOT / "benchmarks/load/Load.java"
        subprocess.run(["javac", "-d", str(folder), str(source)], check=True)

    def run(self, row: LoadRow, server: Server, *, warm_up_s: float, seconds: float) -> Measured:
        """Measure once.

        ``server_cpu`` and ``others_cpu`` are in cores, ``server_us_per_query`` is CPU time; all
        three include the warm-up.
        """
        arguments = [row.connections, row.depth, warm_up_s, seconds, row.topic]
        command = ["java", "-Xmx256m", "-cp", str(self._classes), "Load", "127.0.0.1"]
        command += [str(argument) for argument in (server.port, *arguments)]
        busy_before, server_before = busy_seconds(), server.cpu_seconds()
        generator_before, started = os.times(), time.perf_counter()
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise UnexpectedAnswer(f"{server.name}: the load generator gave up on {row.key}")
        elapsed = time.perf_counter() - started
        server_s = server.cpu_seconds() - server_before
        generator_s = children_seconds(os.times()) - children_seconds(generator_before)
        figures: Measured = json.loads(done.stdout)
        figures["server_cpu"] = round(server_s / elapsed, 3)
        figures["server_us_per_query"] = round(server_s * 1e6 / figures["answers_with_warm_up"], 2)
        others_s = busy_seconds() - busy_before - server_s - generator_s
        figures["others_cpu"] = round(max(0.0, others_s) / elapsed, 3)
        return figures


@dataclass(slots=True)
class Stage:
    """One real server with everything registered that its rows need."""

    server: Server
    fleet: Fleet
    large: LargeBroker | None = None

    def close(self) -> None:
        self.fleet.close()
        if self.large is not None:
            self.large.close()


@dataclass(frozen=True, slots=True)
class Benchmark:
    launcher: Launcher
    generator: Generator
    servers: Sequence[str]
    calibrated: bool
    rounds: int
    seconds: float
    warm_up_s: float

    def run(self, rows: Sequence[str]) -> Results:
        results: Results = {}
        if START in rows:
            results[START] = self._starts()
        load_rows = [row for row in LOAD_ROWS if row.key in rows]
        registrations = [key for key in (CHANGED, UNCHANGED) if key in rows]
        if not load_rows and not registrations:
            return results
        with contextlib.ExitStack() as cleanup:
            stages = []
            for name in self.servers:
                server = self.launcher.start(name)
                cleanup.callback(server.stop)
                stages.append(Stage(server, Fleet(server.port)))
                cleanup.callback(stages[-1].close)
            for row in load_rows:
                self._warm_up(row, stages, seconds=self.warm_up_s / len(load_rows))
            for row in load_rows:
                results[row.key] = self._load(row, stages)
            for stage in stages if registrations else ():
                stage.large = LargeBroker(stage.server.port)
                register(stage, changed=True, seconds=self.warm_up_s / 3)
            for key in registrations:
                results[key] = self._registrations(stages, changed=key == CHANGED)
        return results

    def _starts(self) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {name: [] for name in self.servers}
        for _ in range(self.rounds):
            for name in self.servers:
                server = self.launcher.start(name)
                rss_mb = server.rss_mb()
                time.sleep(IDLE_S)
                found[name].append(
                    {
                        "start_s": server.start_seconds,
                        "rss_mb": rss_mb,
                        "idle_rss_mb": server.rss_mb(),
                    }
                )
                server.stop()
                note(f"{START} {name}: {server.start_seconds:.2f} s")
        return found

    def _warm_up(self, row: LoadRow, stages: Sequence[Stage], *, seconds: float) -> None:
        for stage in stages:
            stage.fleet.refresh()
            self.generator.run(row, stage.server, warm_up_s=seconds, seconds=0.1)
            note(f"{row.key} {stage.server.name}: warmed up for {seconds:.0f} s")

    def _load(self, row: LoadRow, stages: Sequence[Stage]) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {}

        def measure(server: Server) -> Measured:
            figures = self.generator.run(
                row, server, warm_up_s=GENERATOR_WARM_UP_S, seconds=self.seconds
            )
            found.setdefault(server.name, []).append(figures)
            note(f"{row.key} {server.name}: {figures['rps']:,.0f} per second")
            return figures

        with contextlib.ExitStack() as cleanup:
            null: Server | None = None
            for _ in range(self.rounds):
                for stage in stages:
                    stage.fleet.refresh()
                    answer_bytes = int(measure(stage.server)["answer_bytes"])
                    if self.calibrated and null is None:
                        null = self.launcher.start("null", answer_bytes=answer_bytes)
                        cleanup.callback(null.stop)
                if null is not None:
                    measure(null)
        return found

    def _registrations(
        self, stages: Sequence[Stage], *, changed: bool
    ) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {stage.server.name: [] for stage in stages}
        for _ in range(self.rounds):
            for stage in stages:
                stage.fleet.refresh()
                figures = register(stage, changed=changed, seconds=self.seconds)
                found[stage.server.name].append(figures)
                note(
                    f"{CHANGED if changed else UNCHANGED} {stage.server.name}: "
                    f"{figures['per_second']:.0f} per second, "
                    f"longest query {figures['longest_ms']:.1f} ms"
                )
        return found


def register(stage: Stage, *, changed: bool, seconds: float) -> Measured:
    """Register 10,000 topics over and over and time route queries on another connection.

    ``changed``: every registration differs from the one before in all its topics.
    """
    large = stage.large
    assert large is not None
    versions = large.versions if changed else large.versions[:1]
    large.connection.setblocking(True)
    ask(large.connection, *versions[-1])
    upcoming = itertools.cycle(versions)
    sent = 0
    stop_at = 0.0

    def next_registration(_: Registrar) -> Sequence[bytes] | None:
        nonlocal sent
        if sent and time.perf_counter() >= stop_at:
            return None
        sent += 1
        return next(upcoming)

    query = route_query(TOPIC_ON_16)
    with connect(stage.server.port) as probing:
        quiet = probe_quietly(Probe(probing, query), min(1.0, seconds))
    with connect(stage.server.port) as probing:
        stop_at = time.perf_counter() + seconds
        latencies, elapsed = probe_while_registering(
            Probe(probing, query),
            [Registrar(large.connection)],
            next_registration=next_registration,
            deadline_s=seconds + 60,
        )
    return {
        "per_second": sent / elapsed,
        "registrations": sent,
        "seconds": elapsed,
        "queries": len(latencies.values),
        "p50_ms": latencies.quantile_ms(0.5),
        "p99_ms": latencies.quantile_ms(0.99),
        "longest_ms": latencies.longest_ms,
        "quiet_longest_ms": quiet.longest_ms,
        "frame_bytes": large.frame_bytes,
    }


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Routebook beside the Java NameServer.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="measured, per row and round")
    parser.add_argument(
        "--warm-up", type=float, default=SERVER_WARM_UP_S, help="seconds of load before all rows"
    )
    parser.add_argument("--rows", default=",".join(ALL_ROWS), help="default: %(default)s")
    parser.add_argument("--servers", default="routebook,java,null", help="default: %(default)s")
    add_places(parser)
    parsed = parser.parse_args(arguments)
    parsed.rows = parsed.rows.split(",")
    parsed.servers = parsed.servers.split(",")
    for name, known in (("rows", ALL_ROWS), ("servers", (*REAL_SERVERS, "null"))):
        unknown = set(getattr(parsed, name)) - set(known)
        if unknown:
            parser.error(f"unknown {name}: {', '.join(sorted(unknown))}")
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    options = parsed_arguments(arguments)
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars, options.before)
        with tempfile.TemporaryDirectory(prefix="bench-load-") as classes:
            benchmark = Benchmark(
                launcher,
                Generator(Path(classes)),
                servers=[
                    *([BEFORE] if options.before else []),
                    *(name for name in REAL_SERVERS if name in options.servers),
                ],
                calibrated="null" in options.servers,
                rounds=options.rounds,
                seconds=options.seconds,
                warm_up_s=options.warm_up,
            )
            results = benchmark.run(options.rows)
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    others = max((m.get("others_cpu", 0.0) for m in every_round(results)), default=0.0)
    if others > DISTURBING_CPU:
        note(
            f"other programs used up to {others:.2f} cores meanwhile: run again on a quiet machine"
        )
    conditions = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "server_warm_up_seconds": options.warm_up,
        "generator_warm_up_seconds": GENERATOR_WARM_UP_S,
        "java_heap": " ".join(JAVA_HEAP),
    }
    note(f"every round: {save('run', conditions, results)}")
    return 1 if any(measured.get("errors") for measured in every_round(results)) else 0


def every_round(results: Results) -> Iterator[Measured]:
    for found in results.values():
        for rounds in found.values():
            yield from rounds


if __name__ == "__main__":
    sys.exit(main())
