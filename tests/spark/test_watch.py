"""Watching journals as they are written: each alert once, across stops and kills."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from routebook.events import Cause, RecordsLost
from routebook.journal.folder import ACTIVE
from routebook.journal.record import Record
from routebook_spark.alerts.limits import Limits
from routebook_spark.alerts.protobuf import NoProtobuf, check_protobuf
from routebook_spark.commands.main import spark as spark_commands
from routebook_spark.watch import Tell, Watching, follow
from support.brokers import Broker, RegisteringBroker
from support.nodes import local_node
from support.raw import Peer
from support.spark_histories import histories
from support.waiting import soon, wait_for
from support.watch_events import T0_MS, Journal
from support.watch_process import STARTS_S, Folders, watching
from support.watch_runs import Named, expected_alerts
from support.webhooks import Receiver, receiving

LIMITS = Limits()
MONTH_MS = 30 * 86_400_000


def cut(
    by_node: Mapping[str, Sequence[Record]], *shares: float
) -> Iterator[dict[str, list[Record]]]:
    """Parts of the same time of all nodes, a second after a window at least."""
    first = min(records[0].wall_ms for records in by_node.values())
    last = max(records[-1].wall_ms for records in by_node.values())
    ends = [first + share * (last - first) for share in shares]
    done = dict.fromkeys(by_node, 0)
    for end in [*ends, last + 1]:
        part = {}
        for node, records in by_node.items():
            upto = next((i for i, one in enumerate(records) if one.wall_ms > end), len(records))
            part[node] = list(records[done[node] : upto])
            done[node] = max(done[node], upto)
        yield part


def history() -> dict[str, list[Record]]:
    """Two nodes and three brokers with all their troubles, a month ago."""
    return {
        node: [_earlier(record) for record in records]
        for node, records in histories(1, nodes=2, brokers=3, hours=6).items()
    }


def _earlier(record: Record) -> Record:
    event = record.event
    if isinstance(event, RecordsLost):
        event = replace(event, since_ms=event.since_ms - MONTH_MS)
    return replace(record, wall_ms=record.wall_ms - MONTH_MS, event=event)


def test_alerts_of_a_stream_are_each_told_once_across_stops_and_what_is_gone_is_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    by_node = history()
    # Days later one of the nodes is still there. Timers fire when the next records come.
    [lasting, gone] = sorted(by_node)
    last = by_node[lasting][-1]
    later = Journal(lasting, at_s=(last.wall_ms - T0_MS) / 1000)
    later.skip(last.seq)
    for _ in range(2):
        later.after(2 * 86_400).is_asked({})
    # Of the other one records are missing at the end, which stays an alert as long as it is known.
    last = by_node[gone][-1]
    missed = Journal(gone, at_s=(last.wall_ms - T0_MS) / 1000)
    missed.skip(last.seq + 500)
    missed.after(60).is_asked({})
    first, second, third = cut(by_node, 0.4, 0.7)
    for node, journal in ((lasting, later), (gone, missed)):
        third[node].append(journal.records[0])
        by_node[node].append(journal.records[0])

    folders = Folders(tmp_path / "journals")
    told: dict[int, list[Row]] = {}  # by trigger

    def watch(tell: Tell, every_s: float | None = None) -> StreamingQuery:
        checkpoint = str(tmp_path / "checkpoint")
        return follow(
            spark,
            [str(folders.root)],
            Watching(checkpoint=checkpoint, every_s=every_s, limits=LIMITS),
            tell=tell,
        )

    def tell_and_fail(number: int, rows: list[Row]) -> None:
        told[number] = rows
        raise ConnectionError("the other end went away")

    folders.write(first)
    with pytest.raises(StreamingQueryException, match="went away"):
        watch(tell_and_fail).awaitTermination(int(STARTS_S))
    [not_committed] = told.values()
    assert not_committed

    folders.write(second)
    assert watch(told.__setitem__).awaitTermination(int(STARTS_S))
    assert told[0] == not_committed

    folders.write(third)
    query = watch(told.__setitem__, every_s=0.1)
    query.processAllAvailable()
    found = [row for rows in told.values() for row in rows]
    assert Counter((row.id, row.state) for row in found) == expected_alerts(spark, by_node, LIMITS)
    assert len({row.kind for row in found}) >= 4

    told.clear()
    folders.write({lasting: later.records[1:]})
    query.processAllAvailable()
    query.stop()
    rows = [row for some in told.values() for row in some]
    forgotten = [row for row in rows if "is no longer watched" in row.sentence]
    assert forgotten
    assert all(gone in row.nodes and row.state == "resolved" for row in forgotten), forgotten


def test_a_folder_that_cannot_be_read_silences_its_node_alone_and_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One node writes a newer schema, the segment of another is cut off; a fleet beside them."""
    root = tmp_path / "journals"
    stories = {name: Journal(name) for name in ("ns-new", "ns-cut", "ns-well", "other")}
    for name, journal in stories.items():
        journal.starts()
        journal.joins("broker-a", topics=["orders"] if name != "other" else ["orders", "refunds"])
        journal.after(60).beats("broker-a")
    folders = Folders(root)
    folders.write({name: journal.records for name, journal in stories.items()})
    (root / "other" / "identity.json").write_text(
        '{"v":1,"node":"other","fleet":"shop","incarnation":"1"}'
    )
    whole = (root / "ns-new" / ACTIVE).read_bytes()
    (root / "ns-new" / ACTIVE).write_bytes(whole + b'{"v":2,"number":7}\n')
    closed = root / "ns-cut" / "000000000001-000000000005.jsonl"
    (root / "ns-cut" / ACTIVE).rename(closed)
    lines = closed.read_bytes()
    closed.write_bytes(lines[:-40])
    told: list[Row] = []

    def watch() -> None:
        watching = Watching(checkpoint=str(tmp_path / "checkpoint"), limits=LIMITS)
        query = follow(spark, [f"{root}/*"], watching, tell=lambda _, rows: told.extend(rows))
        assert query.awaitTermination(int(STARTS_S))

    watch()
    [cut, newer] = sorted(told, key=lambda row: row.nodes)
    assert [(row.kind, row.state, row.nodes, row.fleet) for row in (cut, newer)] == [
        ("node_silent", "raised", ["ns-cut"], "default"),
        ("node_silent", "raised", ["ns-new"], "default"),
    ]
    assert f"{root}/ns-new/active.jsonl line 6 is of schema version 2" in newer.sentence
    assert f"{closed} is cut off after line 4" in cut.sentence

    told.clear()
    closed.write_bytes(lines)
    (root / "ns-new" / ACTIVE).write_bytes(whole)
    more = {name: stories[name] for name in ("ns-new", "ns-well", "other")}
    for journal in more.values():
        journal.at(120).beats("broker-a")
        if journal.node == "ns-well":
            journal.leaves("broker-a", Cause.UNREGISTER)
        for at_s in (180, 240):
            journal.at(at_s).is_asked({})
    folders.write({name: journal.records[5:] for name, journal in more.items()})
    watch()
    silent = [row for row in told if row.kind == "node_silent"]
    assert [(row.state, row.nodes) for row in sorted(silent, key=lambda row: row.nodes)] == [
        ("resolved", ["ns-cut"]),
        ("resolved", ["ns-new"]),
    ]
    [divergence] = [row for row in told if row.kind == "divergence"]
    assert (divergence.nodes, divergence.fleet) == (["ns-new", "ns-well"], "default")


# -- processes


def in_file(file: Path) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def console_names(lines: Sequence[str]) -> set[Named]:
    """Of lines such as ``2026-11-15T03:16:39.204Z critical divergence 1bd0…: ns-1 and …``."""
    words = [line.split(" ") for line in lines]
    states = {"resolved": "resolved", "critical": "raised", "warning": "raised"}
    return {(found[3].rstrip(":"), states[found[1]]) for found in words}


def check_received(receiver: Receiver, lines: Sequence[Mapping[str, Any]]) -> None:
    """By HTTP each alert came at least once, and nothing else."""
    assert {key for key, _ in receiver.calls} == {f"{one['id']}-{one['state']}" for one in lines}
    bodies = {json.dumps(json.loads(body), sort_keys=True) for body in receiver.taken()}
    assert bodies == {json.dumps(line, sort_keys=True) for line in lines}


def test_a_watch_that_is_killed_in_a_trigger_tells_each_alert_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    by_node = history()
    folders = Folders(tmp_path / "journals")
    first, second = cut(by_node, 0.5)
    folders.write(first)
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "alerts.jsonl"
    planned = checkpoint / "offsets" / "1"
    with receiving(503, 200) as receiver:
        args: list[str | Path] = [folders.root, "--checkpoint", checkpoint, "--alerts", file]
        args += ["--webhook", receiver.url]
        with watching(tmp_path, *args, "--every", "1s") as watch:
            wait_for("alerts", watch.sees(lambda: in_file(file)), timeout_s=STARTS_S)
            folders.write(second)
            wait_for("a plan", watch.sees(planned.exists), timeout_s=STARTS_S)
            watch.kill()
        assert not (checkpoint / "commits" / "1").exists()
        done = invoked(*args, "--once")
        assert done.exit_code == 0, done.output
        lines = in_file(file)
        true = expected_alerts(spark, by_node, LIMITS)
        assert Counter((line["id"], line["state"]) for line in lines) == true
        check_received(receiver, lines)
    assert console_names([*watch.output, *done.stdout.splitlines()]) == set(true)


async def test_nodes_that_run_are_watched_by_what_they_write(tmp_path: Path) -> None:
    """One broker reaches one of two nodes at first; a client asks for a topic nobody holds."""
    homes, file = tmp_path / "nodes", tmp_path / "alerts.jsonl"
    topics = ["orders", "refunds"]
    limits = ["--divergence", "1s", "--unknown-per-minute", "100"]
    with receiving(503, 503, 200) as receiver:
        async with (
            local_node(homes / "a", journal_window_seconds=1, node_id="ns-a") as reached,
            local_node(homes / "b", journal_window_seconds=1, node_id="ns-b") as lonely,
            Peer(lonely.port) as client,
        ):
            broker = RegisteringBroker(Broker(), [reached.port], topics)
            for _ in range(20):
                await client.call(105, topic="oders")
            args: list[str | Path] = [homes / "a", homes / "b"]
            args += ["--checkpoint", tmp_path / "checkpoint"]
            args += ["--alerts", file, "--webhook", receiver.url, "--every", "1s", *limits]
            with watching(tmp_path, *args) as watch:

                async def told(kind: str, state: str) -> dict[str, Any]:
                    found = await soon(
                        f"{kind} {state}",
                        watch.sees(
                            lambda: [
                                line
                                for line in in_file(file)
                                if (line["kind"], line["state"]) == (kind, state)
                            ]
                        ),
                        timeout_s=STARTS_S,
                    )
                    return found[0]

                divergence = await told("divergence", "raised")
                storm = await told("unknown_topics", "raised")
                same = RegisteringBroker(Broker(), [lonely.port], topics)
                agreed = await told("divergence", "resolved")
                await soon(
                    "all alerts at the webhook",
                    watch.sees(lambda: len(receiver.calls) >= len(in_file(file))),
                    timeout_s=STARTS_S,
                )
                await asyncio.to_thread(watch.end)
            await broker.vanish()
            await same.vanish()
        lines = in_file(file)
        check_received(receiver, lines)
    assert (divergence["broker"], divergence["nodes"]) == ("broker-a", ["ns-a", "ns-b"])
    assert "with 2 topics on ns-a, not listed on ns-b" in divergence["sentence"]
    assert agreed["id"] == divergence["id"]
    assert (storm["topic"], storm["nodes"]) == ("oders", ["ns-b"])
    assert console_names(watch.output) == {(line["id"], line["state"]) for line in lines}
    assert "does not take alerts (status 503)" in watch.errors
    assert "Python worker" not in watch.errors  # they tell Spark how they get along
    assert "Traceback" not in watch.errors


# -- the command line


def invoked(*args: str | Path) -> Result:
    return CliRunner().invoke(spark_commands, ["watch", *map(str, args)])


def refused(*args: str | Path) -> str:
    done = invoked(*args)
    assert done.exit_code in (1, 2)
    return " ".join(done.output.split())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = refused(tmp_path / "nowhere", "--checkpoint", tmp_path / "checkpoint")
    assert f"there is no folder {tmp_path / 'nowhere'}" in said


def test_a_pattern_need_not_fit_anything_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.runtime_version", None)  # it ends early
    (tmp_path / "n-1").mkdir()
    for pattern in (tmp_path / "n*", tmp_path / "*" / "journal"):
        said = refused(pattern, "--checkpoint", tmp_path / "checkpoint")
        assert f"there is no journal in what fits {pattern} yet" in said
        assert "protobuf is not installed" in said
    said = refused(tmp_path / "typo" / "n*", "--checkpoint", tmp_path / "checkpoint")
    assert "there is no folder" in said


def test_a_checkpoint_of_other_folders_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "routebook-folders.json").write_text(json.dumps(["/data/others"]))
    said = refused(tmp_path, "--checkpoint", checkpoint)
    assert "is of /data/others" in said


def test_without_protobuf_a_watch_says_so_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.runtime_version", None)
    said = refused(tmp_path, "--checkpoint", tmp_path / "checkpoint")
    assert "protobuf is not installed" in said
    assert "pip install" in said


def test_a_protobuf_older_than_the_messages_of_spark_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_protobuf()
    monkeypatch.delitem(sys.modules, "pyspark.sql.streaming.proto.StateMessage_pb2")
    monkeypatch.setattr("google.protobuf.runtime_version.MAJOR", 5)
    with pytest.raises(NoProtobuf, match="protobuf is too old"):
        check_protobuf()


def test_folders_without_journals_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.runtime_version", None)  # it ends early
    said = refused(tmp_path, "--checkpoint", tmp_path / "checkpoint")
    assert f"there is no journal in {tmp_path} or below it yet" in said


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--every", "soon", "is no span of time: write 10s, 2m or 1h"),
        ("--every", "0s", "is no span of time"),
        ("--webhook", "file:///etc/passwd", "write https://host/path"),
        ("--webhook", "//[", "--webhook"),
        ("--late-percent", "0", "is not in the range"),
    ],
)
def test_options_that_make_no_sense_are_explained(
    tmp_path: Path, option: str, value: str, reason: str
) -> None:
    said = refused(tmp_path, "--checkpoint", tmp_path / "checkpoint", option, value)
    assert reason in said


def test_spans_of_time_are_read_as_seconds() -> None:
    from routebook_spark.commands.watch import watch

    every: Any = next(option for option in watch.params if option.name == "every_s")
    spans = {text: every.type.convert(text, None, None) for text in ("10s", "1.5m", "500ms", "1h")}
    assert spans == {"10s": 10.0, "1.5m": 90.0, "500ms": 0.5, "1h": 3600.0}
