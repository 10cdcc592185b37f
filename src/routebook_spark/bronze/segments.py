"""Segments: what manifests say of sealed files, and what is to be done with each.

A file is known by its path. In the table ``segments`` it is

    taken      its events are there
    copy       the same as one that was taken, in another place
    waiting    missing, half-copied or damaged, with the reason
    refused    of no use, since its manifest cannot be read or is of a newer version

Those that wait or were refused are looked at again by every run.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from routebook_spark import schemas
from routebook_spark.bronze.checks import DAY_MS, manifest_problem
from routebook_spark.bronze.folders import MANIFEST, PACKED
from routebook_spark.schemas import DEFAULT_FLEET
from routebook_spark.witnesses import Witness

TAKEN, COPY, WAITING, REFUSED = "taken", "copy", "waiting", "refused"

UNSAID = "unsaid-"
"""How the incarnations begin that no manifest says; what follows is when the journal began."""

_READING = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
_EVER = "36500d"  # how old a manifest may be beside newer ones: late is not wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A sealed file and what its manifest says of it."""

    path: str
    node: str
    first_seq: int
    last_seq: int
    records: int
    first_wall_ms: int
    last_wall_ms: int
    min_wall_ms: int
    max_wall_ms: int
    first_hash: str
    last_hash: str
    sha256: str
    sealed_at_ms: int
    packed_bytes: int
    fleet: str = DEFAULT_FLEET
    incarnation: str = ""

    @property
    def witness(self) -> Witness:
        return Witness(self.fleet, self.node, self.incarnation)

    @property
    def stem(self) -> str:
        return stem_of(self.path)

    def overlaps(self, other: "Segment") -> bool:
        return (
            self.witness == other.witness
            and self.first_seq <= other.last_seq
            and other.first_seq <= self.last_seq
        )

    def same_as(self, other: "Segment") -> bool:
        mine = (self.witness, self.first_seq, self.last_seq, self.sha256)
        return mine == (other.witness, other.first_seq, other.last_seq, other.sha256)


@dataclass(frozen=True, slots=True)
class Refused:
    """A manifest that does not tell what its segment holds; ``raw`` is all of it."""

    path: str
    reason: str
    raw: str

    @property
    def stem(self) -> str:
        return stem_of(self.path)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with segments that are whole.

    ``overlapping`` ones have sequence numbers that others, ``overlapped``, have as well. ``copies``
    are the same as the segment beside them. ``remarks`` by path: what is odd, and no reason not to
    take it.
    """

    fresh: tuple[Segment, ...]
    overlapping: tuple[Segment, ...]
    overlapped: tuple[Segment, ...]
    copies: tuple[tuple[Segment, Segment], ...]
    remarks: Mapping[str, str]


def stem_of(path: str) -> str:
    """``000000000001-000000052000`` of a segment or a manifest."""
    return PurePosixPath(path).name.removesuffix(MANIFEST).removesuffix(PACKED)


def manifest_of(path: str) -> str:
    return path.removesuffix(PACKED) + MANIFEST


def manifest_stream(spark: SparkSession, pattern: str, *, at_once: int) -> DataFrame:
    """Manifests in folders, and in those below them, as they appear: ``uri`` and ``value``."""
    return (
        spark.readStream.format("text")
        .option("wholetext", True)
        .option("recursiveFileLookup", True)
        .option("pathGlobFilter", f"*{MANIFEST}")
        .option("maxFilesPerTrigger", at_once)
        .option("maxFileAge", _EVER)
        .load(pattern)
        .select(F.col("_metadata.file_path").alias("uri"), "value")
    )


def manifests_of(texts: DataFrame) -> DataFrame:
    """``texts`` has ``uri`` and ``value``; adds ``manifest``, a MANIFEST, and ``problem``."""
    name = F.substring_index("uri", "/", -1)
    return texts.withColumn(
        "manifest", F.from_json("value", schemas.MANIFEST, _READING)
    ).withColumn("problem", manifest_problem(F.col("manifest"), F.replace(name, F.lit(MANIFEST))))


def segment_of(row: Any, path: str, *, fleet: str | None = None) -> Segment | Refused:
    """What a row of ``manifests_of`` tells of the segment at ``path``.

    ``fleet`` is what whoever takes it says, and wins.
    """
    if row.problem is not None:
        return Refused(path, row.problem, row.value)
    said = row.manifest.asDict() | {
        "fleet": fleet or row.manifest.fleet or DEFAULT_FLEET,
        "incarnation": row.manifest.incarnation or "",
    }
    return Segment(path=path, **{name: said[name] for name in _SAID})


def known_segment(row: Any) -> Segment:
    """A row of the table, of one that was taken."""
    return Segment(path=row.path, **{name: row[name] for name in _SAID})


_SAID = [field.name for field in fields(Segment) if field.name != "path"]


def plan(
    found: Iterable[Segment],
    known: Iterable[Segment],
    *,
    now_ms: int,
    again: Collection[str] = (),
) -> Plan:
    """``known`` are those of the same nodes that were taken; at least all that overlap or touch.

    ``again`` are the paths of such that were taken before, and are to be once more.
    """
    by_witness: defaultdict[Witness, list[Segment]] = defaultdict(list)
    for each in known:
        by_witness[each.witness].append(each)
    chosen: list[Segment] = []
    copies: list[tuple[Segment, Segment]] = []
    for each in sorted(found, key=lambda one: (one.sealed_at_ms, one.path)):
        original = next((one for one in by_witness[each.witness] if each.same_as(one)), None)
        if original is not None:
            copies.append((each, original))
        else:
            chosen.append(each)
            by_witness[each.witness].append(each)
    fresh: list[Segment] = []
    overlapping: list[Segment] = []
    overlapped: dict[str, Segment] = {}
    remarks: dict[str, str] = {}
    for each in chosen:
        others = [one for one in by_witness[each.witness] if one is not each]
        shared = {one.path: one for one in others if each.overlaps(one)}
        (overlapping if shared or each.path in again else fresh).append(each)
        overlapped |= shared
        odd = [*_broken_chains(each, others), *_another(each), *_odd_clock(each, now_ms)]
        if remark := "; ".join(odd):
            remarks[each.path] = remark
    return Plan(
        tuple(fresh), tuple(overlapping), tuple(overlapped.values()), tuple(copies), remarks
    )


def near(segments: Sequence[Segment]) -> Column:
    """Which rows of the table overlap or touch one of ``segments``, by fleet and node."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for each in segments:
        whose = each.fleet, each.node
        first, last = spans.get(whose, (each.first_seq, each.last_seq))
        spans[whose] = (min(first, each.first_seq), max(last, each.last_seq))
    condition = F.lit(False)
    for (fleet, node), (first, last) in spans.items():
        condition |= (
            (F.col("fleet") == fleet)
            & (F.col("node") == node)
            & (F.col("first_seq") <= last + 1)
            & (F.col("last_seq") >= first - 1)
        )
    return condition


def were_taken(segments: DataFrame) -> DataFrame:
    """Rows of the table whose events are there, also while they are to be taken once more."""
    return segments.where("batch IS NOT NULL")


def _broken_chains(segment: Segment, others: Sequence[Segment]) -> Iterator[str]:
    """The hash of a segment's last line is the one before the first line of the next."""
    for one in others:
        if one.last_seq + 1 == segment.first_seq and one.last_hash != segment.first_hash:
            yield _twice(f"does not follow {one.path}", segment.node)
        elif segment.last_seq + 1 == one.first_seq and segment.last_hash != one.first_hash:
            yield _twice(f"is not what {one.path} follows", segment.node)


def _twice(what: str, node: str) -> str:
    return f"{what}: the node id {node} is used twice, or its journal was replaced"


def _another(segment: Segment) -> Iterator[str]:
    if segment.incarnation.startswith(UNSAID):
        yield (
            f"is of another journal of node {segment.node} than the one that was known: the node id"
            " is used twice, or its journal was replaced"
        )


def _odd_clock(segment: Segment, now_ms: int) -> Iterator[str]:
    ahead_ms = segment.sealed_at_ms - now_ms
    if ahead_ms > DAY_MS:
        yield (
            f"the clock of node {segment.node} was {ahead_ms // DAY_MS} days ahead of this"
            " machine's when it was sealed"
        )


def segment_row(
    segment: Segment,
    status: str,
    at: datetime,
    *,
    reason: str | None = None,
    batch: int | None = None,
    quarantined: int | None = None,
) -> dict[str, Any]:
    """A row of the table."""
    said = {"status": status, "reason": reason, "batch": batch, "quarantined": quarantined}
    return asdict(segment) | said | {"at": at}
