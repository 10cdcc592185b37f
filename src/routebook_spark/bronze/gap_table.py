"""The table ``gaps``, brought up to what was taken. It costs about what is new.

How far it has come is noted in a file beside the checkpoints. Without that file everything is
looked at again.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook_spark.bronze.folders import Files
from routebook_spark.bronze.gaps import (
    MISSING,
    Gap,
    Hole,
    Span,
    gaps_of,
    holes_between,
    holes_inside,
    told_losses,
)
from routebook_spark.bronze.segments import were_taken
from routebook_spark.bronze.taking import day_of
from routebook_spark.local_frame import local_frame
from routebook_spark.schemas import LONG, STRING, struct
from routebook_spark.tables import EVENTS, GAPS, SEGMENTS, Lake, Table
from routebook_spark.witnesses import Witness, is_of_any, witness_of

_MANY_DAYS = 400
_SPANS = struct(fleet=STRING, node=STRING, incarnation=STRING, first_seq=LONG, last_seq=LONG)


def bring_up_gaps(lake: Lake) -> list[Gap]:
    """All gaps there are now. Nothing is written when they are the same as before."""
    files, note = Files(lake.spark), f"{lake.root}/_checkpoints/gaps"
    earlier = gaps_in(lake, GAPS)
    after = int(files.text_of(note) or 0)
    gaps, batch = gaps_since(lake, lake.read(SEGMENTS), after, earlier)
    if set(gaps) != set(earlier):
        write_gaps(lake, GAPS, gaps)
    if batch > after:
        files.write_text(note, str(batch))
    return gaps


def gaps_since(
    lake: Lake, segments: DataFrame, batch: int, earlier: Sequence[Gap]
) -> tuple[list[Gap], int]:
    """All gaps of ``segments``, and their last batch; ``earlier`` are those up to ``batch``.

    They follow from the segments that were taken and from what those say, in whatever order they
    came and however often this was asked in between.
    """
    taken = were_taken(segments)
    new = taken.where(F.col("batch") > batch).collect()
    if not new:
        return list(earlier), batch
    witnesses = {witness_of(row) for row in new}
    known = [gap for gap in earlier if witness_of(gap) in witnesses]
    rows = taken.where(is_of_any(witnesses)).collect()
    told = [Gap(*row) for row in told_losses(_events(lake, new)).collect()]
    holes = [*holes_between(map(_span, rows)), *_holes_inside(lake, rows, new, known)]
    gaps = [
        *(gap for gap in earlier if witness_of(gap) not in witnesses),
        *gaps_of(holes, [*told, *(gap for gap in known if gap.kind != MISSING)]),
    ]
    return gaps, max(row.batch for row in new)


def gaps_in(lake: Lake, table: Table) -> list[Gap]:
    if not lake.exists(table):
        return []
    names = {"from_ms": F.unix_millis("from_at"), "to_ms": F.unix_millis("to_at")}
    rows = lake.read(table).withColumns(names).select(*Gap._fields)
    return [Gap(*row) for row in rows.collect()]


def write_gaps(lake: Lake, table: Table, gaps: Iterable[Gap]) -> None:
    lake.replace(table, local_frame(lake.spark, table.schema, [_row(gap) for gap in gaps]))


def _holes_inside(
    lake: Lake, segments: Sequence[Any], new: Sequence[Any], known: Iterable[Gap]
) -> list[Hole]:
    """Looked for in odd segments that are new or share numbers with new ones; else as known."""
    odd = [
        row
        for row in segments
        if (row.quarantined or row.records != row.last_seq - row.first_seq + 1)
        and any(_overlap(row, other) for other in new)
    ]
    kept = [
        Hole(*gap[:5], gap.from_ms, gap.to_ms)
        for gap in known
        if any(_is_inside(gap, row) for row in segments)
        and not any(_is_inside(gap, row) for row in (*odd, *new))
    ]
    if not odd:
        return kept
    spans = local_frame(lake.spark, _SPANS, [row.asDict() for row in odd])
    found = holes_inside(spans, _events(lake, odd)).collect()
    return [*kept, *(Hole(*row) for row in found)]


def _overlap(one: Any, other: Any) -> bool:
    shared = one.first_seq <= other.last_seq and other.first_seq <= one.last_seq
    return bool(witness_of(one) == witness_of(other) and shared)


def _is_inside(gap: Gap, segment: Any) -> bool:
    return (
        gap.kind == MISSING
        and witness_of(gap) == witness_of(segment)
        and segment.first_seq - 1 <= gap.after_seq
        and gap.before_seq <= segment.last_seq + 1
    )


def _row(gap: Gap) -> dict[str, Any]:
    return gap._asdict() | {"from_at": _at(gap.from_ms), "to_at": _at(gap.to_ms)}


def _at(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _span(segment: Any) -> Span:
    return Span(
        witness_of(segment),
        segment.first_seq,
        segment.last_seq,
        segment.first_wall_ms,
        segment.last_wall_ms,
    )


def _events(lake: Lake, segments: Iterable[Any]) -> DataFrame:
    """Those of the days and nodes of ``segments``, at least."""
    witnesses: set[Witness] = set()
    days: set[date] = set()
    for row in segments:
        witnesses.add(witness_of(row))
        first, last = day_of(row.min_wall_ms), day_of(row.max_wall_ms)
        days |= {first + timedelta(days=n) for n in range((last - first).days + 1)}
    day = F.col("day")
    wanted = day.isin(*days) if len(days) <= _MANY_DAYS else day.between(min(days), max(days))
    return lake.read(EVENTS).where(wanted & is_of_any(witnesses))
