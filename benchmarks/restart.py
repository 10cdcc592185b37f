"""How soon routes are right again after a restart: the journal beside brokers that come back.

    python -m benchmarks.restart [--brokers 300] [--topics 10000] [--rounds 3]

A whole cluster registers. The node is stopped in order or killed, with a snapshot in its journal
or without, and started again from that folder; no broker returns. The clock runs from the start of
the process until the route of one topic, and then those of a hundred, are what they were before,
brokers in any order. The Java NameServer, and Routebook told not to use its journal, know nothing
until brokers return: all of them do, ten seconds after the start, which is early, as they register
every thirty.

Every round starts from a copy of the same folder, which is in the page cache.
"""

import argparse
import contextlib
import json
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet import many_topics
from benchmarks.frames import Answer, UnexpectedAnswer, ask, connect, route_query
from benchmarks.journal import journal_of
from benchmarks.probing import Probe, Registrar, probe_while_registering
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import spread
from benchmarks.servers import JAVA_HEAP, CannotRun, Launcher, Server, two_cores
from benchmarks.storm import DEADLINE_S, registrations_of

SAMPLE = 100
BROKERS_RETURN_S = 10.0
GIVE_UP_S = 300.0
TARGET_S = 5.0
SNAPSHOT_DEADLINE_S = 120.0
# A segment is sealed, and a snapshot made, at this age; or never while this runs.
SEAL_S, NEVER_S = 5, 86_400
NEVER_BYTES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    server: str
    killed: bool
    snapshot: bool = False
    warm: bool = False  # knows its routes without its brokers

    @property
    def settings(self) -> Mapping[str, str]:
        if self.server != "routebook":
            return {}
        return {
            "JOURNAL_ROTATE_SECONDS": str(SEAL_S if self.snapshot else NEVER_S),
            "JOURNAL_ROTATE_BYTES": str(NEVER_BYTES),
            "WARM_RESTART": str(self.warm).lower(),
        }


CASES = {
    "stopped": Case("Routebook, stopped", "routebook", killed=False, warm=True),
    "killed": Case("Routebook, killed", "routebook", killed=True, warm=True),
    "stopped-snapshot": Case(
        "Routebook, stopped, a snapshot", "routebook", killed=False, snapshot=True, warm=True
    ),
    "killed-snapshot": Case(
        "Routebook, killed, a snapshot", "routebook", killed=True, snapshot=True, warm=True
    ),
    "cold": Case("Routebook, `warmRestart=false`", "routebook", killed=True),
    "java": Case("Java", "java", killed=True),
}
FIGURES = (
    ("answers_s", "first answer, s", ".2f"),
    ("first_s", "first right route, s", ".2f"),
    ("all_s", "100 right routes, s", ".2f"),
    ("same_bytes", "of them with the same bytes", ".0f"),
    ("rss_mb", "RSS then, MB", ",.0f"),
    ("peak_rss_mb", "peak RSS, MB", ",.0f"),
    ("folder_mb", "journal, MB", ".1f"),
)


class Cluster:
    """All brokers, registered with one server for as long as this is open."""

    def __init__(self, port: int, registrations: Sequence[tuple[bytes, ...]]) -> None:
        self._cleanup = contextlib.ExitStack()
        connections = [self._cleanup.enter_context(connect(port)) for _ in registrations]
        pending: dict[socket.socket, tuple[bytes, ...]] = dict(
            zip(connections, registrations, strict=True)
        )
        with connect(port) as probing:
            probe_while_registering(
                Probe(probing, route_query(many_topics(1)[0])),
                [Registrar(connection) for connection in connections],
                next_registration=lambda registrar: pending.pop(registrar.connection, None),
                deadline_s=DEADLINE_S,
            )

    def close(self) -> None:
        self._cleanup.close()


class Returning:
    """Brokers that come back some time after ``started``, all at once."""

    def __init__(self, server: Server, registrations: Sequence[tuple[bytes, ...]]) -> None:
        self._server = server
        self._registrations = registrations
        self._cluster: Cluster | None = None
        self._thread = threading.Thread(target=self._return)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        if self._cluster is not None:
            self._cluster.close()

    def _return(self) -> None:
        time.sleep(max(0.0, self._server.started + BROKERS_RETURN_S - time.perf_counter()))
        self._cluster = Cluster(self._server.port, self._registrations)


def routes_of(server: Server, topics: Sequence[str]) -> dict[str, Answer]:
    with connect(server.port) as client:
        return {topic: ask(client, route_query(topic)) for topic in topics}


def is_right(found: Answer, before: Answer) -> bool:
    """Whether it sends clients to the same brokers and queues."""
    return found.code == 0 and (found.body == before.body or _sorted(found) == _sorted(before))


def _sorted(answer: Answer) -> dict[str, object]:
    route = json.loads(answer.body)
    for name in ("brokerDatas", "queueDatas"):
        route[name].sort(key=lambda data: data["brokerName"])
    return dict(route)


@dataclass(frozen=True, slots=True)
class Restarts:
    launcher: Launcher
    registrations: Sequence[tuple[bytes, ...]]
    sample: Sequence[str]
    rounds: int
    folder: Path

    def run(self, case: Case) -> list[Measured]:
        kept = self.folder / "kept"
        before = self._prepare(case, kept)
        found = []
        for number in range(self.rounds):
            data_dir = self.folder / f"data-{number}"
            if kept.exists():
                shutil.copytree(kept, data_dir)
            try:
                figures = self._restart(case, data_dir, before)
            finally:
                shutil.rmtree(data_dir, ignore_errors=True)
            if kept.exists():
                figures["folder_mb"] = _size_mb(kept / "journal")
            found.append(figures)
            note(f"{case.title}: {figures['first_s']:.2f} s, all {figures['all_s']:.2f} s")
        shutil.rmtree(kept, ignore_errors=True)
        return found

    def _prepare(self, case: Case, data_dir: Path) -> dict[str, Answer]:
        """Register everybody and end the server; what its routes were."""
        server = self.launcher.start(case.server, data_dir=data_dir, settings=case.settings)
        try:
            with contextlib.closing(Cluster(server.port, self.registrations)):
                before = routes_of(server, self.sample)
                for topic, answer in before.items():
                    if answer.code != 0:
                        raise UnexpectedAnswer(f"no route of {topic}: {answer.remark}")
                if case.server == "routebook":
                    self._wait_for_journal(server, data_dir / "journal", snapshot=case.snapshot)
                if case.killed:
                    server.kill()
                else:
                    server.stop()
        except BaseException:
            server.kill()
            raise
        return before

    def _wait_for_journal(self, server: Server, folder: Path, *, snapshot: bool) -> None:
        journal = journal_of(server, expected=True)
        if journal["lost"]:
            raise UnexpectedAnswer(f"the journal lost {journal['lost']:.0f} records")
        if not snapshot:
            return
        give_up = time.perf_counter() + SNAPSHOT_DEADLINE_S
        while _last_snapshot(folder) < journal["records"]:
            if time.perf_counter() > give_up:
                raise UnexpectedAnswer("there is no snapshot of the registrations")
            time.sleep(0.1)

    def _restart(self, case: Case, data_dir: Path, before: Mapping[str, Answer]) -> Measured:
        server = self.launcher.start(case.server, data_dir=data_dir, settings=case.settings)
        try:
            with contextlib.nullcontext() if case.warm else Returning(server, self.registrations):
                first_s = _until_right(server, self.sample[:1], before)
                all_s = _until_right(server, self.sample, before)
                now = routes_of(server, self.sample)
                return {
                    "same_bytes": sum(now[topic].body == before[topic].body for topic in now),
                    "answers_s": server.start_seconds,
                    "first_s": first_s,
                    "all_s": all_s,
                    "rss_mb": server.rss_mb(),
                    "peak_rss_mb": server.peak_rss_mb(),
                }
        finally:
            server.stop()


def _until_right(
    server: Server,
    topics: Sequence[str],
    before: Mapping[str, Answer],
) -> float:
    """Seconds from the start of the process."""
    while True:
        found = routes_of(server, topics)
        elapsed_s = time.perf_counter() - server.started
        if all(is_right(answer, before[topic]) for topic, answer in found.items()):
            return elapsed_s
        if elapsed_s > GIVE_UP_S:
            raise UnexpectedAnswer(f"{server.name}: routes were not right after {GIVE_UP_S} s")
        time.sleep(0.01)


def _last_snapshot(folder: Path) -> int:
    return max(
        (int(path.name[9:].split(".")[0]) for path in folder.glob("snapshot-*.gz")), default=0
    )


def _size_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def markdown(results: Mapping[str, Sequence[Measured]]) -> Iterator[str]:
    yield f"| restart | {' | '.join(title for _, title, _ in FIGURES)} | within {TARGET_S:.0f} s |"
    yield "|---" * (len(FIGURES) + 2) + "|"
    for key, rounds in results.items():
        cells = [
            spread(rounds, name, form) if name in rounds[0] else "-" for name, _, form in FIGURES
        ]
        soon = all(figures["all_s"] <= TARGET_S for figures in rounds)
        yield f"| {CASES[key].title} | {' | '.join(cells)} | {'yes' if soon else 'no'} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Measure how soon routes are right again.")
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    add_places(parser)
    options = parser.parse_args(arguments)
    cases = options.cases.split(",")
    if unknown := set(cases) - set(CASES):
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    topics = many_topics(options.topics)
    results: dict[str, list[Measured]] = {}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars)
        with tempfile.TemporaryDirectory(prefix="bench-restart-") as folder:
            restarts = Restarts(
                launcher,
                registrations_of(options.brokers, options.topics),
                sample=topics[:: max(1, len(topics) // SAMPLE)][:SAMPLE],
                rounds=options.rounds,
                folder=Path(folder),
            )
            for key in cases:
                results[key] = restarts.run(CASES[key])
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    conditions = {
        "brokers": options.brokers,
        "topics": options.topics,
        "rounds": options.rounds,
        "sample": SAMPLE,
        "brokers_return_seconds": BROKERS_RETURN_S,
        "java_heap": " ".join(JAVA_HEAP),
    }
    note(f"every round: {save('restart', conditions, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
