"""What the journal costs those who are served: the same node with its journal and without.

    python -m benchmarks.journal [--rounds 15] [--storm-rounds 7] [--rows 16x1,changed,storm]

A round measures a node with a journal (on), one without (off) and another one without (off again),
in an order that changes from round to round, each a fresh process on the first core, with its
journal's threads and the processes it starts. What "off again" differs from "off" is the noise of
the machine: a difference of "on" that is not larger says nothing. How much of the CPU time went to
threads that do not serve, the journal's among them, says something even then.

Ratios are those of rounds, on divided by off such that less than 1 is worse; the median of all
rounds comes with the interval that holds it with a certainty of 95 %.
"""

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import Fleet, LargeBroker
from benchmarks.frames import UnexpectedAnswer, ask, connect, encode_request
from benchmarks.pairs import Ratio, ratio_of
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import LOAD_ROWS, LoadRow, spread
from benchmarks.run import GENERATOR_WARM_UP_S, Generator, Stage, register
from benchmarks.servers import CannotRun, Launcher, Server, two_cores
from benchmarks.storm import registrations_of, storm

ON, OFF, AGAIN = "on", "off", "off again"
VARIANTS = (ON, OFF, AGAIN)
CHANGED, SEALING, STORM = "changed", "changed-sealing", "storm"
QUERY_ROWS = {row.key: row for row in LOAD_ROWS if row.key in ("16x1", "64x64")}
ALL_ROWS = (*QUERY_ROWS, CHANGED, SEALING, STORM)
ROUTEBOOK_HEALTH = 19_001
# Sums are written down every 2 s and not every 60, and brokers register every 2 s and not every
# 30: what a node writes in a minute is in every measurement.
WINDOW_S = 2
SEALING_BYTES = 4 * 1024 * 1024
WRITTEN_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Figure:
    """``target`` is for on / off, or off / on where ``less_is_better``."""

    name: str
    title: str
    form: str
    less_is_better: bool = False
    target: float | None = None

    def ratio(self, ours: Sequence[Measured], theirs: Sequence[Measured]) -> Ratio:
        pairs = [
            (our[self.name], their[self.name]) for our, their in zip(ours, theirs, strict=True)
        ]
        return ratio_of([(b, a) for a, b in pairs] if self.less_is_better else pairs)


QUERY_FIGURES = (
    Figure("rps", "queries per second", ",.0f", target=0.97),
    Figure("p99_us", "p99, µs", ",.0f", less_is_better=True, target=0.97),
    Figure("p50_us", "p50, µs", ",.0f", less_is_better=True),
    Figure("server_us_per_query", "CPU µs a query", ".2f", less_is_better=True),
)
CHANGED_FIGURES = (
    Figure("per_second", "registrations per second", ".1f"),
    Figure("p99_ms", "p99 of queries, ms", ".2f", less_is_better=True),
    Figure("longest_ms", "longest query, ms", ".1f", less_is_better=True),
)
STORM_FIGURES = (
    Figure("seconds", "all answered, s", ".2f", less_is_better=True, target=0.9),
    Figure("p99_ms", "p99 of queries, ms", ".1f", less_is_better=True),
    Figure("longest_ms", "longest query, ms", ".1f", less_is_better=True),
    Figure("cpu_s", "CPU until all is written, s", ".2f", less_is_better=True),
    Figure("peak_rss_mb", "peak RSS, MB", ",.0f", less_is_better=True),
)
TITLES = {
    **{row.key: f"{row.title}, brokers registering" for row in QUERY_ROWS.values()},
    CHANGED: "10,000 changed topics over and over",
    SEALING: "the same, segments of 4 MB",
    STORM: "a storm of registrations",
}


def figures_of(row: str) -> Sequence[Figure]:
    if row in QUERY_ROWS:
        return QUERY_FIGURES
    return STORM_FIGURES if row == STORM else CHANGED_FIGURES


def settings_of(variant: str, row: str) -> Mapping[str, str]:
    settings = {"JOURNAL": "true" if variant == ON else "false"}
    if row == SEALING:
        settings["JOURNAL_ROTATE_BYTES"] = str(SEALING_BYTES)
    if row in QUERY_ROWS:
        settings["JOURNAL_WINDOW_SECONDS"] = str(WINDOW_S)
    return settings


class Heartbeat:
    """Brokers that register again and again while something is measured."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._done.wait(WINDOW_S):
            self._fleet.refresh()


@dataclass(frozen=True, slots=True)
class Comparison:
    launcher: Launcher
    generator: Generator
    rounds: int
    storm_rounds: int
    seconds: float
    storm_registrations: Sequence[tuple[bytes, ...]]

    def run(self, row: str) -> dict[str, list[Measured]]:
        found: dict[str, list[Measured]] = {variant: [] for variant in VARIANTS}
        for number in range(self.storm_rounds if row == STORM else self.rounds):
            for turn in range(len(VARIANTS)):
                variant = VARIANTS[(number + turn) % len(VARIANTS)]
                server = self.launcher.start("routebook", settings=settings_of(variant, row))
                try:
                    figures = self._measure(row, server)
                    figures |= journal_of(server, expected=variant == ON)
                    figures["cpu_s"] = server.cpu_seconds()
                    threads_s = server.threads_seconds()
                    figures["threads_percent"] = 100 * threads_s / figures["cpu_s"]
                finally:
                    server.stop()
                found[variant].append(figures)
                first = figures_of(row)[0]
                note(f"{row} {variant}: {figures[first.name]:{first.form}} {first.title}")
        return found

    def _measure(self, row: str, server: Server) -> Measured:
        if row == STORM:
            return storm(server, self.storm_registrations)
        with contextlib.closing(Stage(server, Fleet(server.port))) as stage:
            if row in QUERY_ROWS:
                return self._query(QUERY_ROWS[row], stage)
            stage.large = LargeBroker(server.port)
            return register(stage, changed=True, seconds=self.seconds)

    def _query(self, row: LoadRow, stage: Stage) -> Measured:
        with Heartbeat(stage.fleet):
            return self.generator.run(
                row, stage.server, warm_up_s=GENERATOR_WARM_UP_S, seconds=self.seconds
            )


def journal_of(server: Server, *, expected: bool) -> Measured:
    """Wait until the journal has written everything; how long that took and how much it is."""
    started = time.perf_counter()
    with connect(server.port) as client:
        while True:
            journal = json.loads(ask(client, encode_request(ROUTEBOOK_HEALTH, {})).body)["journal"]
            if bool(journal) != expected:
                raise UnexpectedAnswer(f"the node has {'a' if journal else 'no'} journal")
            if not expected:
                return {}
            behind_s = time.perf_counter() - started
            if journal["written_seq"] == journal["last_seq"]:
                break
            if behind_s > WRITTEN_DEADLINE_S:
                raise UnexpectedAnswer(f"{journal['queued']} records are still not written")
            time.sleep(0.01)
    if journal["errors"]:
        raise UnexpectedAnswer(f"the journal failed: {journal['last_error']}")
    return {
        "behind_s": behind_s,
        "records": journal["last_seq"],
        "lost": journal["lost"],
        "journal_mb": journal["bytes"] / 1e6,
        "segments": journal["segments"],
    }


def markdown(results: Mapping[str, dict[str, list[Measured]]]) -> Iterator[str]:
    yield "| load | figure | on | off | on / off | off again / off | target |"
    yield "|---|---|---|---|---|---|---|"
    for row, found in results.items():
        for figure in figures_of(row):
            cells = [spread(found[variant], figure.name, figure.form) for variant in (ON, OFF)]
            ratio = figure.ratio(found[ON], found[OFF])
            noise = figure.ratio(found[AGAIN], found[OFF])
            target = f"{figure.target}: {ratio.verdict(figure.target)}" if figure.target else ""
            cells += [f"**{ratio}**" if figure.target else str(ratio), str(noise), target]
            yield f"| {TITLES[row]} | {figure.title} | {' | '.join(cells)} |"
    yield ""
    yield "| CPU of threads that do not serve, percent of all | on | off | off again |"
    yield "|---|---|---|---|"
    for row, found in results.items():
        cells = [spread(found[variant], "threads_percent", ".1f") for variant in VARIANTS]
        yield f"| {TITLES[row]} | {' | '.join(cells)} |"
    yield ""
    yield "| journal | records | MB | sealed | lost | written after the last answer, s |"
    yield "|---|---|---|---|---|---|"
    for row, found in results.items():
        on = found[ON]
        cells = [
            spread(on, "records"),
            spread(on, "journal_mb", ".1f"),
            spread(on, "segments"),
            spread(on, "lost"),
            spread(on, "behind_s", ".2f"),
        ]
        yield f"| {TITLES[row]} | {' | '.join(cells)} |"


def parsed_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what the journal costs.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--storm-rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured, per row and round")
    parser.add_argument("--brokers", type=int, default=300, help="of the storm")
    parser.add_argument("--topics", type=int, default=10_000, help="of the storm")
    parser.add_argument("--rows", default=",".join(ALL_ROWS), help="default: %(default)s")
    add_places(parser)
    parsed = parser.parse_args(arguments)
    parsed.rows = parsed.rows.split(",")
    unknown = set(parsed.rows) - set(ALL_ROWS)
    if unknown:
        parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
    return parsed


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    options = parsed_arguments(arguments)
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars)
        with tempfile.TemporaryDirectory(prefix="bench-load-") as classes:
            comparison = Comparison(
                launcher,
                Generator(Path(classes)),
                rounds=options.rounds,
                storm_rounds=options.storm_rounds,
                seconds=options.seconds,
                storm_registrations=registrations_of(options.brokers, options.topics),
            )
            results = {row: comparison.run(row) for row in ALL_ROWS if row in options.rows}
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    conditions = {
        "rounds": options.rounds,
        "storm_rounds": options.storm_rounds,
        "seconds": options.seconds,
        "storm_brokers": options.brokers,
        "storm_topics": options.topics,
        "window_seconds": WINDOW_S,
        "sealing_bytes": SEALING_BYTES,
    }
    note(f"every round: {save('journal', conditions, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
