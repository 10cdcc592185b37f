"""Random histories of several nodes: seeded, and such as real nodes write.

    by_node = histories(7)                  # {"ns-1": [Record, ...], "ns-2": ..., "ns-3": ...}
    events = events_frame(spark, by_node)   # a row for each record, with schemas.EVENTS
    write_journals(folder, by_node)         # folder/ns-1/000000000001-000000000200.jsonl.gz, ...

The records are made by the nodes' own tables, to which a fleet of brokers does everything that
brokers do: register, change topics, be drained, unregister, hang, die, reconnect, change roles and
names, be replaced, be cut off from one node. Nodes are stopped, killed, started warm and cold, lose
records and state their tables anew, engage their guard, and have clocks that are wrong (``skews``)
and are set back. 30 hours are about 2,700 records of each of 3 nodes, made in a second.

Segments that get lost or come late are a matter of delivery:

    some = without(records, lost_spans(records, seed=7))
    gaps = gaps_frame(spark, {"ns-1": some})    # what bronze says of it, with schemas.GAPS
    days = deliveries(by_node, seed=7)      # batches of segments, some of them late
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from routebook.events import JournalRecovered
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from support.history_world import HOUR_TICKS, SKEW_MS, World
from support.journal_folders import write_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEGMENT = 200
FLEETLESS = {"fleet": "default", "incarnation": ""}


def histories(
    seed: int, *, nodes: int = 3, brokers: int = 4, hours: float = 30
) -> dict[str, list[Record]]:
    """Records of each node, in order. ``brokers`` are groups; every second one has a slave."""
    world = World(random.Random(seed), nodes=nodes, brokers=brokers)
    for _ in range(round(hours * HOUR_TICKS)):
        world.tick()
    return {node.name: node.records for node in world.nodes}


def skews(seed: int, *, nodes: int = 3) -> dict[str, int]:
    """How far the clock of each node is ahead of the truth at the beginning, ms."""
    rng = random.Random(seed)
    return {f"ns-{number}": rng.randint(-SKEW_MS, SKEW_MS) for number in range(1, nodes + 1)}


# -- delivery

Span = tuple[int, int]  # first and last sequence number


def segments_of(records: Sequence[Record], size: int = SEGMENT) -> list[list[Record]]:
    return [list(records[start : start + size]) for start in range(0, len(records), size)]


def lost_spans(
    records: Sequence[Record], *, seed: int, share: float = 0.1, size: int = SEGMENT
) -> list[Span]:
    """Segments that got lost, never the last one."""
    rng = random.Random(seed)
    spans = [(part[0].seq, part[-1].seq) for part in segments_of(records, size)]
    return [span for span in spans[:-1] if rng.random() < share]


def without(records: Iterable[Record], spans: Iterable[Span]) -> list[Record]:
    gone = list(spans)
    return [one for one in records if not any(first <= one.seq <= last for first, last in gone)]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Segments that arrive together."""

    segments: tuple[tuple[Record, ...], ...]


def deliveries(
    by_node: Mapping[str, Sequence[Record]],
    *,
    seed: int,
    batches: int = 4,
    late: float = 0.1,
    size: int = SEGMENT,
) -> list[Delivery]:
    """All segments in the order of their times in ``batches``; some come a batch or two later."""
    rng = random.Random(seed)
    segments = [part for records in by_node.values() for part in segments_of(records, size)]
    segments.sort(key=lambda part: (part[-1].wall_ms, part[0].node))
    arrived: list[list[tuple[Record, ...]]] = [[] for _ in range(batches)]
    for number, part in enumerate(segments):
        batch = number * batches // len(segments)
        if rng.random() < late:
            batch = min(batches - 1, batch + rng.choice([1, 2]))
        arrived[batch].append(tuple(part))
    return [Delivery(tuple(parts)) for parts in arrived]


# -- as a journal, and as a frame


def write_journals(
    folder: Path, by_node: Mapping[str, Sequence[Record]], *, size: int = SEGMENT
) -> Path:
    """A folder for each node, all of it in sealed segments."""
    for node, records in by_node.items():
        ends = [part[-1].seq for part in segments_of(records, size)]
        write_journal(folder / node, records, sealed_at=ends)
    return folder


def is_leap(record: Record, last_seq: int) -> bool:
    """Whether numbers leap here because the node had been killed, and nothing is missing."""
    return isinstance(record.event, JournalRecovered) and record.event.last_seq == last_seq


def missing_before(records: Sequence[Record]) -> list[tuple[Record, Record]]:
    """Neighbours between which records are missing."""
    return [
        (last, record)
        for last, record in pairwise(records)
        if record.seq != last.seq + 1 and not is_leap(record, last.seq)
    ]


def gaps_frame(spark: "SparkSession", by_node: Mapping[str, Sequence[Record]]) -> "DataFrame":
    """The missing stretches, as bronze has them."""
    from routebook_spark import schemas
    from routebook_spark.local_frame import local_frame

    rows = [
        FLEETLESS
        | {
            "node": node,
            "after_seq": last.seq,
            "before_seq": record.seq,
            "missing": record.seq - last.seq - 1,
            "kind": "missing",
            "from_at": _at(last),
            "to_at": _at(record),
        }
        for node, records in by_node.items()
        for last, record in missing_before(records)
    ]
    return local_frame(spark, schemas.GAPS, rows)


def _at(record: Record) -> datetime:
    return datetime.fromtimestamp(record.wall_ms / 1000, UTC)


def events_frame(
    spark: "SparkSession", records: Mapping[str, Sequence[Record]] | Iterable[Record]
) -> "DataFrame":
    """A row for each record, as bronze has it."""
    from routebook_spark import schemas
    from routebook_spark.local_frame import local_frame

    flat: list[Record] = []
    for each in records.values() if isinstance(records, Mapping) else (records,):
        flat += each
    previous: dict[str, bytes] = {}
    rows = [event_row(record, previous) for record in flat]
    return local_frame(spark, schemas.EVENTS, rows)


def event_row(record: Record, previous: dict[str, bytes] | None = None) -> dict[str, Any]:
    """``previous`` has the hash of the last record of each node, and goes on with this one."""
    previous = {} if previous is None else previous
    line = encode(record, previous.get(record.node, CHAIN_START))
    previous[record.node] = hash_of(line) or CHAIN_START
    members = json.loads(line)
    data: dict[str, Any] = members["data"]
    at = _at(record)
    topics = data.get("topics")
    said = {**data, "topic_count": topics}
    if isinstance(topics, list):
        names = ("topic", "known", "unknown", "not_ready")
        said |= {"topic_count": None, "queries": [dict(zip(names, t, strict=True)) for t in topics]}
    for name in ("before", "after"):
        if not isinstance(said.get(name), str | None):
            said[name] = json.dumps(said[name], separators=(",", ":"))
    return {**members, **data, "day": at.date(), "at": at, "data": said, **FLEETLESS}
