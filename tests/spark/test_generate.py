"""The generator of benchmarks/generate.py: journals as nodes write them, always the same ones."""

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest
from benchmarks.generate import SCALE as MADE_OF
from benchmarks.generate import generate, main
from benchmarks.generate_plan import Scale
from pyspark.sql import SparkSession

from routebook.events import (
    BrokerConfirmed,
    BrokerLeft,
    Cause,
    HeartbeatGaps,
    NodeStarted,
    RegistrationCompleted,
    RouteQueries,
    StateRestated,
)
from routebook.journal.reader import read
from routebook.journal.record import CHAIN_START, Record, decode, encode, hash_of
from routebook.journal.segment import chunks_of, lines_of
from routebook.journal.verify import verify
from routebook.journal.view import View
from support.small_spark import environment

ROOT = Path(__file__).parents[2]
DAY_MS = 86_400_000
BROKERS, NODES, DAYS = 9, 2, 2
# Everything that can happen happens on the first two days.
SCALE = f"--brokers {BROKERS} --topics 40 --nodes {NODES} --days {DAYS} --churn 3 --queried 30"
FAULTS = "--partition-on 0 --loss-on 1 --cold-on 0"
PATIENCE_S = 500.0


@dataclass(frozen=True)
class Journals:
    """The same journals, planned in one way and in another."""

    folder: Path
    again: Path

    @property
    def nodes(self) -> list[Path]:
        return sorted(self.folder.glob("ns-*"))

    def records(self) -> list[list[Record]]:
        return [list(read(node)) for node in self.nodes]


def _run(folder: Path, *options: str) -> None:
    """As a program of its own."""
    command = [sys.executable, "-m", "benchmarks.generate", str(folder), *SCALE.split()]
    done = subprocess.run(
        [*command, *FAULTS.split(), "--memory", "512m", *options],
        cwd=ROOT,
        env=environment(folder.parent),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def journals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Journals:
    home = tmp_path_factory.mktemp("generated")
    made = Journals(home / "first", home / "again")
    _run(made.folder, "--master", "local[1]", "--partitions", "1")
    # In the session there is, which has two cores.
    scale = json.loads((made.folder / MADE_OF).read_text())
    first_day = date.fromisoformat(scale.pop("first_day"))
    generate(spark, Scale(**scale, first_day=first_day), made.again, partitions=7)
    return made


@pytest.fixture(scope="module")
def records(journals: Journals) -> list[list[Record]]:
    return journals.records()


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_bytes_do_not_depend_on_partitions_or_cores(journals: Journals) -> None:
    assert _digests(journals.folder) == _digests(journals.again)


def test_every_journal_verifies(journals: Journals) -> None:
    reports = [verify(node) for node in journals.nodes]
    assert [report.findings for report in reports] == [()] * NODES
    assert all(report.segments >= 24 * DAYS for report in reports)


def test_lines_are_those_a_node_would_write(journals: Journals) -> None:
    for node in journals.nodes:
        previous = CHAIN_START
        for segment in sorted(node.glob("*.jsonl.gz")):
            for line in lines_of(chunks_of(segment)):
                assert line == encode(decode(line), previous)
                previous = hash_of(line) or CHAIN_START


def test_records_are_numbered_without_gaps_and_contradict_nothing(
    records: list[list[Record]],
) -> None:
    for journal in records:
        assert [record.seq for record in journal] == list(range(1, len(journal) + 1))
        view = View()
        for record in journal:
            view.apply(record)
        assert view.contradictions == []
        assert not view.unsure


def test_brokers_and_nodes_fail_in_many_ways(records: list[list[Record]]) -> None:
    events = [record.event for journal in records for record in journal]
    left = Counter(event.cause for event in events if isinstance(event, BrokerLeft))
    assert {Cause.UNREGISTER, Cause.CONNECTION_CLOSED, Cause.EXPIRED} <= set(left)
    starts = [event.brokers for event in events if isinstance(event, NodeStarted)]
    assert starts.count(0) == NODES + 1  # each for the first time, and one that forgot
    assert max(starts) > 0
    assert any(isinstance(event, BrokerConfirmed) for event in events)
    assert sum(isinstance(event, StateRestated) for event in events) == 1
    queries = [event for event in events if isinstance(event, RouteQueries)]
    assert all(len(event.topics) > 1 for event in queries)
    assert any(count.unknown for event in queries for count in event.topics)


def test_one_node_alone_loses_a_zone_for_an_hour(records: list[list[Record]]) -> None:
    expired = [
        sum(
            isinstance(record.event, BrokerLeft) and record.event.cause is Cause.EXPIRED
            for record in journal
        )
        for journal in records
    ]
    assert abs(expired[0] - expired[1]) >= BROKERS // 3


def test_clocks_of_the_nodes_differ(records: list[list[Record]]) -> None:
    seen: list[dict[tuple[object, ...], int]] = []
    for journal in records:
        completed = [
            record for record in journal if isinstance(record.event, RegistrationCompleted)
        ]
        seen.append({(r.event.addr, r.event.data_version): r.wall_ms for r in completed})  # type: ignore[attr-defined]
    offsets = sorted(seen[1][key] - at for key, at in seen[0].items() if key in seen[1])
    assert 20 < abs(offsets[len(offsets) // 2]) < 1000


def test_gaps_of_a_broker_add_up_to_the_time_between_them(records: list[list[Record]]) -> None:
    """Beats come about every 30 s, and none is counted twice or left out."""
    heard: dict[tuple[str, int], list[tuple[int, tuple[int, ...]]]] = {}
    for record in records[0]:
        event = record.event
        if isinstance(event, HeartbeatGaps):
            windows = heard.setdefault((event.addr, event.generation), [])
            windows.append((record.mono_ms, event.gaps_ms))
    longest = max(heard.values(), key=len)
    gaps = [gap for _, of_window in longest for gap in of_window]
    assert len(gaps) > 100
    lasted_ms = longest[-1][0] - longest[0][0]
    assert abs(sum(gaps) - lasted_ms) < 120_000
    near = [gap for gap in gaps if 29_000 < gap < 31_000]
    assert len(near) > 0.9 * len(gaps)
    every = [gap for windows in heard.values() for _, of_window in windows for gap in of_window]
    assert 45_000 < max(every) <= 120_000


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert main([str(tmp_path)]) == 2
    assert "is not empty" in "".join(capsys.readouterr())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
