"""The data source: journals that are followed while they are written, and nodes that are asked."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes
from pyspark.testing import assertDataFrameEqual

from routebook.events import Cause, RouteQueries
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE
from routebook.journal.reader import read
from routebook.journal.record import UnknownEvent
from routebook_spark.bronze.records import events_of, lines_of
from routebook_spark.schemas import EVENTS
from routebook_spark.source.datasource import register
from routebook_spark.source.journal import JournalStream
from routebook_spark.source.offsets import place_in
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

ALL = ReadAllAvailable()


@pytest.fixture
def routebook(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


# -- journals, without Spark


def stream_of(folder: Path, **options: str) -> JournalStream:
    return JournalStream({"path": str(folder), **options})


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def taken(
    stream: JournalStream, start: dict[str, Any], limit: ReadLimit = ALL
) -> tuple[list[int], dict[str, Any]]:
    """The records of one trigger, and where it ended."""
    end = stream.latestOffset(start, limit)
    rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    return [row["seq"] for row in rows if row["seq"] is not None], end


def reached(offset: dict[str, Any]) -> dict[str, int]:
    """The last record taken of each folder."""
    return {name: place_in(offset, name).seq for name in offset}


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


# -- faults, told


def notes(stream: JournalStream, start: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """What is said between two records: type, node, reason."""
    end = stream.latestOffset(start, ALL)
    rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    return [(r["type"], r["node"], r["data"]["reason"]) for r in rows if r["seq"] is None]


def cut_off(folder: Path) -> str:
    packed = folder / "000000000006-000000000010.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    return f"{packed} is cut off"


def damaged(folder: Path) -> str:
    packed = folder / "000000000006-000000000010.jsonl.gz"
    content = bytearray(packed.read_bytes())
    content[20:24] = b"\0\xff\0\xff"
    packed.write_bytes(bytes(content))
    return f"{packed} cannot be read after line"


def without_its_segment(folder: Path) -> str:
    (folder / "000000000006-000000000010.jsonl.gz").unlink()
    return "000000000006-000000000010.jsonl.gz is missing"


def without_its_manifest(folder: Path) -> str:
    (folder / "000000000006-000000000010.manifest.json").unlink()
    return "000000000006-000000000010.manifest.json is missing"


def with_half_a_manifest(folder: Path) -> str:
    manifest = folder / "000000000006-000000000010.manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:50])
    return f"{folder}: {manifest.name} cannot be understood"


def with_a_folder_for_a_file(folder: Path) -> str:
    (folder / ACTIVE).unlink()
    (folder / ACTIVE).mkdir()
    return f"cannot read {folder / ACTIVE}: Is a directory"


def of_a_newer_schema(folder: Path) -> str:
    lines = [line.replace(b'"v":1', b'"v":2') for line in chained(span_of(11, 12))]
    (folder / ACTIVE).write_bytes(b"".join(lines))
    return f"{folder / ACTIVE} line 1 is of schema version 2"


def of_a_newer_schema_that_cannot_be_placed(folder: Path) -> str:
    (folder / ACTIVE).write_bytes(b'{"v":7,"number":11}\n')
    return f"{folder / ACTIVE} line 1 is of schema version 7"


def closed_and_cut_off(folder: Path) -> str:
    closed = folder / "000000000011-000000000012.jsonl"
    closed.write_bytes((folder / ACTIVE).read_bytes()[:-30])
    (folder / ACTIVE).unlink()
    return f"{closed} is cut off after line 1"


def gone(folder: Path) -> str:
    shutil.rmtree(folder)
    return f"the folder {folder} is gone"


def a_file(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.write_text("")
    return f"the folder {folder} is gone"


def a_link_to_itself(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.symlink_to(folder)
    return f"the folder {folder} is gone"


def an_older_copy(folder: Path) -> str:
    for path in (folder / ACTIVE, *folder.glob("000000000006*")):
        path.unlink()
    return f"the journal {folder} ends with record 5, and 7 had been read"


FAULTS = [
    cut_off,
    damaged,
    without_its_segment,
    without_its_manifest,
    with_half_a_manifest,
    with_a_folder_for_a_file,
    of_a_newer_schema,
    of_a_newer_schema_that_cannot_be_placed,
    closed_and_cut_off,
    gone,
    a_file,
    a_link_to_itself,
    an_older_copy,
]


@pytest.mark.parametrize("happens", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_one_folder_is_told_and_stays_with_it(
    tmp_path: Path, happens: Callable[[Path], str]
) -> None:
    """The other folder is followed, the fault is told once, and once when it is over."""
    root, kept = tmp_path / "journals", tmp_path / "kept"
    root.mkdir()
    bad, good = root / "ns-1", root / "ns-2"
    lay(bad, span_of(1, 5), span_of(6, 10), active=span_of(11, 12))
    shutil.copytree(bad, kept)
    lay(good, active=span_of(1, 3))
    start = {"ns-1": 7, "ns-2": 3}
    lay(good, active=span_of(1, 4))
    reason = happens(bad)
    stream = stream_of(root, on_fault="tell")
    stream.prepareForTriggerAvailableNow()  # nothing is waited for
    [(kind, node, said)] = notes(stream, start)
    assert kind == "JournalUnreadable"
    assert node in (NODE, "ns-1")  # as far as anything says whose it is
    assert said is not None
    assert reason in said
    seqs, told = taken(stream, start)
    assert reached(told)["ns-2"] == 4
    assert 4 in seqs
    assert notes(stream, told) == []  # it is known
    assert stream.latestOffset(told, ALL) == told
    if bad.is_dir():
        shutil.rmtree(bad)
    else:
        bad.unlink(missing_ok=True)
    shutil.copytree(kept, bad)
    again = stream_of(root, on_fault="tell")
    assert notes(again, told) == [("JournalReadable", node, None)]
    rest, end = taken(again, told)
    assert [*[seq for seq in seqs if seq > 7], *rest][-1] == 12
    assert reached(end) == {"ns-1": 12, "ns-2": 4}


def test_what_was_planned_and_is_gone_ends_no_stream(tmp_path: Path) -> None:
    lay(tmp_path / "ns-1", span_of(1, 5), active=span_of(6, 7))
    lay(tmp_path / "ns-2", active=span_of(1, 3))
    stream = stream_of(tmp_path, on_fault="tell")
    end = stream.latestOffset({}, ALL)
    shutil.rmtree(tmp_path / "ns-1")
    for again in (stream, stream_of(tmp_path, on_fault="tell")):
        parts = again.partitions({}, end)
        assert [row["seq"] for part in parts for row in rows_of(again.read(part))] == [1, 2, 3]


def test_what_retention_removed_is_passed_over_where_faults_are_told(tmp_path: Path) -> None:
    with opened(tmp_path, rotate_records=5, retain_bytes=1) as writer:
        for number in range(1, 30):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        wait_for("retention", lambda: (tmp_path / "removed.json").exists())
        assert taken(stream_of(tmp_path, on_fault="tell"), {".": 2})[0][-1] == 29


def test_a_disk_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "ns-1"
    with opened(folder) as writer:
        for number in range(1, 10):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        stream = stream_of(tmp_path, on_fault="tell")
        before, start = taken(stream, {})
    shutil.rmtree(folder)
    with opened(folder) as writer:
        for number in range(1, 4):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        end = stream.latestOffset(start, ALL)
        rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    assert before == list(range(1, 10))
    assert [row["seq"] for row in rows] == [1, 2, 3]
    lives = {place_in(start, "ns-1").incarnation, *(row["incarnation"] for row in rows)}
    assert len(lives) == 2


def test_a_replaced_journal_without_an_identity_is_known_by_its_first_line(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 9))
    stream = stream_of(tmp_path, on_fault="tell")
    _, start = taken(stream, {})
    (tmp_path / ACTIVE).write_bytes(b"".join(chained([record(1, topics_changed("new"))])))
    assert taken(stream, start)[0] == [1]


def test_an_identity_that_comes_after_its_segments_is_no_other_journal(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 9))
    stream = stream_of(tmp_path, on_fault="tell")
    _, start = taken(stream, {})
    identity = b'{"v":1,"node":"ns-1","fleet":"shop","incarnation":"9f86d081884c7d65"}'
    (tmp_path / "identity.json").write_bytes(identity)
    assert taken(stream, start)[0] == []


@pytest.mark.parametrize(
    ("identity", "option", "fleet"),
    [("", "", "default"), ("shop", "", "shop"), ("shop", "mine", "mine"), ("", "mine", "mine")],
)
def test_rows_say_their_fleet(tmp_path: Path, identity: str, option: str, fleet: str) -> None:
    lay(tmp_path, active=span_of(1, 2))
    text = f'{{"v":1,"node":"ns-1","fleet":"{identity}","incarnation":"abc"}}'
    (tmp_path / "identity.json").write_text(text)
    stream = stream_of(tmp_path, **({"fleet": option} if option else {}))
    end = stream.latestOffset({}, ALL)
    rows = [row for part in stream.partitions({}, end) for row in rows_of(stream.read(part))]
    assert {(row["fleet"], row["incarnation"]) for row in rows} == {(fleet, "abc")}


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
        F.lit(NODE).alias("node"),
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
