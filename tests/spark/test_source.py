"""The data source: journals that are followed while they are written, and nodes that are asked."""

import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadMaxBytes
from pyspark.testing import assertDataFrameEqual

from routebook.events import Cause, RouteQueries
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE, Listing, Span, list_folder
from routebook.journal.reader import read
from routebook.journal.record import UnknownEvent
from routebook_spark.bronze.records import events_of, lines_of
from routebook_spark.schemas import EVENTS
from routebook_spark.source import files
from routebook_spark.source.datasource import register
from routebook_spark.source.journal import JournalStream
from support.brokers import Broker
from support.journals import (
    NODE,
    chained,
    every_event,
    lay,
    opened,
    record,
    recovered,
    span_of,
    topics_changed,
    writer_of,
    written,
)
from support.misbehaving import unused_port
from support.nodes import NodeProcess
from support.raw import BlockingPeer
from support.waiting import wait_for
from support.watch_streams import ALL, notes, reached, rows_of, stream_of, taken


@pytest.fixture
def routebook(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


# -- journals, without Spark


def test_records_are_taken_once_however_files_change_under_the_stream(tmp_path: Path) -> None:
    rng = random.Random(4)
    folder = tmp_path / "ns-1"
    stream, start, found, written_upto = stream_of(tmp_path), dict[str, Any](), list[int](), 0
    with opened(folder, rotate_records=40, rotate_bytes=1 << 30) as writer:
        for turn in range(60):
            for _ in range(rng.randrange(20)):
                written_upto += 1
                assert writer.append(topics_changed(f"t{written_upto}")) is not None
            if rng.random() < 0.7:
                written(writer)
            end = stream.latestOffset(start, ReadMaxBytes(rng.choice([400, 4000, 1 << 20])))
            parts = stream.partitions(start, end)
            if rng.random() < 0.3:
                stream = stream_of(tmp_path)  # started again, from what the checkpoint knows
                parts = stream.partitions(start, end)
            for _ in range(rng.randrange(50) if turn % 3 == 0 else 0):
                written_upto += 1
                assert writer.append(topics_changed(f"t{written_upto}")) is not None
            found += [row["seq"] for part in parts for row in rows_of(stream.read(part))]
            start = end
        written(writer)
        while (step := taken(stream, start))[0]:
            found, start = found + step[0], step[1]
    assert found == list(range(1, written_upto + 1))
    assert any(folder.glob("*.jsonl.gz"))


def test_a_segment_that_is_closed_after_files_were_listed_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay(tmp_path, span_of(1, 4), active=span_of(5, 6))
    stream = stream_of(tmp_path)
    _, start = taken(stream, {})

    def listed_before_it_is_closed(path: Path) -> Listing:
        listing = list_folder(path)
        if (folder / ACTIVE).exists():
            (folder / ACTIVE).rename(folder / Span(5, 6).plain)
        return listing

    monkeypatch.setattr(files, "list_folder", listed_before_it_is_closed)
    assert taken(stream, start) == ([], start)


def test_a_line_that_is_not_finished_is_left_for_the_next_trigger(tmp_path: Path) -> None:
    lines = chained(span_of(1, 4))
    active = tmp_path / ACTIVE
    active.write_bytes(b"".join(lines[:2]) + lines[2][:30])
    stream = stream_of(tmp_path)
    first, start = taken(stream, {})
    active.write_bytes(b"".join(lines[:3]) + lines[3][:-1])
    second, start = taken(stream, start)
    active.write_bytes(b"".join(lines))
    third, end = taken(stream, start)
    assert (first, second, third, reached(end)) == ([1, 2], [3], [4], {".": 4})


def test_a_trigger_takes_about_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 5), span_of(6, 10), active=span_of(11, 20))
    stream, start, steps = stream_of(tmp_path), dict[str, Any](), []
    line = len(chained(span_of(11, 11))[0])
    while (step := taken(stream, start, ReadMaxBytes(3 * line + 1)))[0]:
        steps.append(step[0])
        start = step[1]
    # Segments that are full are taken whole, and so is a line that is too long.
    assert steps[:2] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    assert [len(step) for step in steps[2:]] == [3, 3, 3, 1]
    assert taken(stream_of(tmp_path), {".": 10}, ReadMaxBytes(1))[0] == [11]


def test_folders_of_nodes_are_found_when_they_come(tmp_path: Path) -> None:
    stream = stream_of(tmp_path)
    assert taken(stream, {}) == ([], {})
    lay(tmp_path / "ns-1", active=span_of(1, 2))
    _, start = taken(stream, {})
    (tmp_path / "ns-2").mkdir()
    lay(tmp_path / "ns-2" / "journal", span_of(1, 3))
    seqs, end = taken(stream, start)
    assert (seqs, reached(end)) == ([1, 2, 3], {"ns-1": 2, "ns-2/journal": 3})


def test_a_pattern_finds_folders_that_come_to_fit_it(tmp_path: Path) -> None:
    lay(tmp_path / "ns-1", active=span_of(1, 2))
    some = stream_of(tmp_path / "*" / "journal")
    assert taken(some, {}) == ([], {})
    (tmp_path / "ns-2").mkdir()
    lay(tmp_path / "ns-2" / "journal", span_of(1, 3))
    seqs, end = taken(some, {})
    assert (seqs, reached(end)) == ([1, 2, 3], {"ns-2/journal": 3})


def test_a_segment_that_is_still_being_copied_is_waited_for(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 5), span_of(6, 10), active=span_of(11, 12))
    packed = tmp_path / "000000000006-000000000010.jsonl.gz"
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-20])
    stream = stream_of(tmp_path)
    seqs, start = taken(stream, {})
    assert seqs == [1, 2, 3, 4, 5]
    assert notes(stream_of(tmp_path, on_fault="tell"), start) == []
    packed.write_bytes(whole)
    assert taken(stream, start)[0] == [6, 7, 8, 9, 10, 11, 12]


def test_numbers_may_leap_after_a_node_was_killed(tmp_path: Path) -> None:
    lay(tmp_path, [*span_of(1, 3), record(2**21, recovered(3))], active=[record(2**21 + 1)])
    assert taken(stream_of(tmp_path), {".": 2})[0] == [3, 2**21, 2**21 + 1]


def test_records_that_retention_removed_before_they_were_read_are_missed(tmp_path: Path) -> None:
    with opened(tmp_path, rotate_records=5, retain_bytes=1) as writer:
        for number in range(1, 30):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        wait_for("retention", lambda: (tmp_path / "removed.json").exists())
        assert taken(stream_of(tmp_path), {})[0][-1] == 29
    with pytest.raises(JournalError, match=r"records 3 to \d+ .* were removed before"):
        stream_of(tmp_path).latestOffset({".": 2}, ALL)


def test_a_journal_that_became_shorter_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 5), active=span_of(6, 7))
    with pytest.raises(JournalError, match="ends with record 7, and 100 had been read before"):
        stream_of(tmp_path).latestOffset({".": 100}, ALL)


def test_a_broken_line_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = chained(span_of(1, 4))
    lines[1] = lines[1].replace(b'"data":{', b'"data":{{')
    lines[2] = lines[2].replace(b'"revision":3', b'"revision":"three"')
    (tmp_path / ACTIVE).write_bytes(b"".join(lines))
    assert taken(stream_of(tmp_path), {})[0] == [1, 4]
    assert "left out: 'three' is not a number" in caplog.text


def test_a_newer_schema_is_refused_with_its_file_line_and_version(tmp_path: Path) -> None:
    lines = chained(span_of(1, 4))
    lines[2] = lines[2].replace(b'"v":1', b'"v":2')
    (tmp_path / ACTIVE).write_bytes(b"".join(lines))
    stream = stream_of(tmp_path)
    seqs, start = taken(stream, {})
    assert seqs == [1, 2]
    where = re.escape(str(tmp_path / ACTIVE))
    with pytest.raises(JournalError, match=f"{where} line 3 is of schema version 2"):
        taken(stream, start)


@pytest.mark.parametrize(
    ("path", "reason"),
    [("hdfs://namenode/journals", "not on this machine"), ("/no/such/folder", "no folder")],
)
def test_only_folders_of_this_machine_are_followed(path: str, reason: str) -> None:
    with pytest.raises(JournalError, match=reason):
        JournalStream({"path": path})


# -- journals, on Spark


class Taken:
    """A sink that remembers what it was given, and can fail."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[str, int]]] = {}
        self.fails = False

    def __call__(self, rows: DataFrame, batch: int) -> None:
        seen = [(row.node, row.seq) for row in rows.select("node", "seq").collect()]
        self.batches[batch] = seen
        if self.fails:
            raise RuntimeError("the sink is broken")

    @property
    def seqs(self) -> list[int]:
        return sorted(seq for batch in self.batches.values() for _, seq in batch)


def follow(spark: SparkSession, root: Path, sink: Taken, checkpoint: Path) -> None:
    events = spark.readStream.format("routebook").load(str(root))
    writing = events.writeStream.foreachBatch(sink).trigger(availableNow=True)
    writing.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def test_a_stream_goes_on_from_its_checkpoint(routebook: SparkSession, tmp_path: Path) -> None:
    journals, checkpoint, sink = tmp_path / "journals", tmp_path / "checkpoint", Taken()
    clocked = writer_of(journals / "ns-1", rotate_records=7)
    clocked.open()
    for number in range(1, 11):
        assert clocked.append(topics_changed(f"t{number}")) is not None
    written(clocked)
    follow(routebook, journals, sink, checkpoint)
    assert sink.seqs == list(range(1, 11))
    for number in range(11, 21):
        assert clocked.append(topics_changed(f"t{number}")) is not None
    clocked.close()
    sink.fails = True
    with pytest.raises(StreamingQueryException, match="the sink is broken"):
        follow(routebook, journals, sink, checkpoint)
    sink.fails = False
    follow(routebook, journals, sink, checkpoint)
    assert sink.seqs == list(range(1, 21))
    assert sink.batches[1] == [("ns-1-0a1b2c3d", seq) for seq in range(11, 21)]


def test_rows_of_the_stream_are_those_of_the_table_of_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    newer = {"revision": 7, "cause": "moon", "peer": "", "broker_id": "three", "limit": 4}
    unknown = UnknownEvent(revision=7, cause=Cause.ADMIN, peer="", type="MoonRose", data=newer)
    events = [*every_event(), unknown]
    records = [record(seq, event) for seq, event in enumerate(events, 1)]
    lay(tmp_path / "ns-1", records)
    stream = stream_of(tmp_path)
    end = stream.latestOffset({}, ALL)
    batches = [batch for part in stream.partitions({}, end) for batch in stream.read(part)]
    followed = spark.createDataFrame(pa.Table.from_batches(batches), EVENTS)
    texts = spark.createDataFrame([(line.decode(),) for line in chained(records)], "value STRING")
    segment = texts.limit(1).select(
        F.lit("u").alias("uri"),
        F.lit("p").alias("path"),
        F.lit(None).cast("string").alias("segment"),
        F.lit("default").alias("fleet"),
        F.lit(NODE).alias("node"),
        F.lit("").alias("incarnation"),
        F.lit(1).alias("first_seq"),
        F.lit(len(records)).alias("last_seq"),
        F.lit(records[-1].wall_ms).alias("sealed_at_ms"),
    )
    lines = lines_of(
        texts.select(F.lit("u").alias("uri"), F.rtrim("value", F.lit("\n")).alias("value")),
        segment,
        now_ms=records[-1].wall_ms,
    )
    assertDataFrameEqual(followed, events_of(lines), checkRowOrder=False)


# -- nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    """Two nodes; both know broker-a, the first one broker-b too."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(NodeProcess(tmp_path_factory.mktemp(f"ns-{number}")))
            for number in (1, 2)
        ]
        for node in running:
            keep = stack.enter_context(node.connect())
            tell(keep, Broker("broker-a", addr="10.0.0.1:10911"), ["orders", "refunds"])
        keep = stack.enter_context(running[0].connect())
        tell(keep, Broker("broker-b", addr="10.0.0.2:10911"), ["orders", "broker-b"])
        yield running


def tell(peer: BlockingPeer, broker: Broker, topics: list[str]) -> None:
    peer.send(broker.registration(topics))
    assert peer.read().code == 0


def address(node: NodeProcess) -> str:
    return f"127.0.0.1:{node.port}"


def asked(spark: SparkSession, nameservers: str, **options: str) -> DataFrame:
    reader = spark.read.format("routebook").option("nameservers", nameservers)
    return reader.options(**options).load()


def test_nodes_are_asked_for_routes_brokers_and_topics(
    routebook: SparkSession, nodes: list[NodeProcess]
) -> None:
    first, second = map(address, nodes)
    both = f"{first};{second}"
    routes = asked(routebook, both).where("topic != broker AND topic NOT LIKE '%Cluster'")
    found = routes.select("node", "topic", "broker", "write_queues", "perm", "addrs").collect()
    assert {(row.node, row.topic, row.broker) for row in found} == {
        (first, "orders", "broker-a"),
        (first, "orders", "broker-b"),
        (first, "refunds", "broker-a"),
        (second, "orders", "broker-a"),
        (second, "refunds", "broker-a"),
    }
    assert {row.addrs["0"] for row in found} == {"10.0.0.1:10911", "10.0.0.2:10911"}
    brokers = asked(routebook, both, table="brokers").groupBy("node").count()
    assert {(row.node, row["count"]) for row in brokers.collect()} == {(first, 2), (second, 1)}
    topics = asked(routebook, both, table="topics").where(f"node = '{second}'")
    assert {"orders", "refunds"} <= {row.topic for row in topics.collect()}


def test_a_question_about_one_topic_asks_for_that_one_only(
    routebook: SparkSession, tmp_path: Path
) -> None:
    with NodeProcess(tmp_path / "ns") as node:
        with node.connect() as peer:
            tell(peer, Broker(), ["orders", "refunds", "returns"])
            routes = asked(routebook, address(node)).where("topic = 'orders' AND write_queues > 0")
            assert [row.broker for row in routes.collect()] == ["broker-a"]
            assert routes.where("topic = 'refunds'").count() == 0
        assert node.stop() == 0
    counted = [
        r.event for r in read(node.data_dir / "journal") if isinstance(r.event, RouteQueries)
    ]
    assert {count.topic for event in counted for count in event.topics} == {"orders"}


def test_a_node_that_is_down_is_named_or_left_out(
    routebook: SparkSession, nodes: list[NodeProcess]
) -> None:
    up, down = address(nodes[0]), f"127.0.0.1:{unused_port()}"
    with pytest.raises(PySparkException, match=rf"{down}: .*on_error=skip"):
        asked(routebook, f"{up};{down}", table="topics").collect()
    left = asked(routebook, f"{up};{down}", table="topics", on_error="skip")
    assert {row.node for row in left.select("node").distinct().collect()} == {up}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"table": "queues"}, "there is no table 'queues'"),
        ({"tabel": "routes"}, "there is no option tabel"),
        ({"deadline_s": "soon"}, "must be a number of seconds"),
        ({"on_error": "ignore"}, "must be fail or skip"),
    ],
)
def test_options_that_say_nothing_are_refused(
    routebook: SparkSession, options: dict[str, str], reason: str
) -> None:
    with pytest.raises(PySparkException, match=reason):
        asked(routebook, "127.0.0.1:1", **options).collect()
