"""Worlds in one lake: their segments carried there in steps, with builds in between."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from routebook_spark.bronze.ingest import ingest
from routebook_spark.jobs import build
from routebook_spark.tables import Lake
from world.folders import held_of, late_of, lost_of, segments_of, write_life
from world.knowledge import Knowledge, known_of
from world.truth import Life, Truth

Row = dict[str, Any]
_AT_ONCE = 10_000  # segments
_LEAST = 40  # records of a segment: files take longer than what is in them


@dataclass(frozen=True, slots=True)
class Carried:
    """A life, its sealed segments at home, the folder they are carried to, and when each comes."""

    life: Life
    knowledge: Knowledge
    home: Path
    away: Path
    steps: tuple[int | None, ...]  # by segment; None: never
    halves: frozenset[int]  # half copied at the step before


def carry(truths: Sequence[Truth], folder: Path, *, steps: int) -> list[Carried]:
    found = [
        carried_by(truth, life, folder, steps=steps)
        for truth in truths
        for life in truth.lives
        if life.written
    ]
    for each in found:
        write_life(each.home, each.life, lost=set(), all_sealed=True)
    return found


def carried_by(truth: Truth, life: Life, folder: Path, *, steps: int) -> Carried:
    """Nothing is written yet."""
    name = f"{life.node}-{life.incarnation}"
    life.segment = max(life.segment, _LEAST)
    home = folder / "home" / name
    segments, lost, late = segments_of(life), lost_of(truth, life), late_of(truth, life)
    when: list[int | None] = []
    for place in range(len(segments)):
        step = place * steps // len(segments)
        if place in late:
            step = min(steps - 1, step + late[place].steps)
        when.append(None if place in lost else step)
    halves = frozenset(place for place, deed in late.items() if deed.half and when[place])
    knowledge = known_of(life, held_of(segments, lost))
    return Carried(life, knowledge, home, folder / "away" / name, tuple(when), halves)


def deliver(carried: Sequence[Carried], step: int | None) -> None:
    """Copy what comes at ``step``; None for all that ever comes, at once."""
    for each in carried:
        each.away.mkdir(parents=True, exist_ok=True)
        for place, segment in enumerate(segments_of(each.life)):
            packed, manifest = f"{segment.stem}.jsonl.gz", f"{segment.stem}.manifest.json"
            comes = each.steps[place]
            if comes is None:
                continue
            if step is None or comes == step:
                shutil.copyfile(each.home / packed, each.away / packed)
                shutil.copyfile(each.home / manifest, each.away / manifest)
            elif comes == step + 1 and place in each.halves:
                whole = (each.home / packed).read_bytes()
                (each.away / packed).write_bytes(whole[: len(whole) // 2])
                shutil.copyfile(each.home / manifest, each.away / manifest)


def ingest_all(lake: Lake, carried: Sequence[Carried]) -> None:
    ingest(lake, [str(each.away) for each in carried], at_once=_AT_ONCE)


def built_in_steps(lake: Lake, carried: Sequence[Carried], *, steps: int) -> None:
    for step in range(steps):
        deliver(carried, step)
        ingest_all(lake, carried)
        build(lake)


def built_at_once(lake: Lake, carried: Sequence[Carried]) -> None:
    deliver(carried, None)
    ingest_all(lake, carried)
    build(lake, full=True)


def rows_of(frame: DataFrame) -> list[Row]:
    """With times in milliseconds."""
    columns = [
        F.unix_millis(field.name).alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else F.col(field.name)
        for field in frame.schema.fields
    ]
    return [row.asDict(recursive=True) for row in frame.select(*columns).collect()]


def of_witness(rows: Sequence[Row], life: Life) -> Iterator[Row]:
    for row in rows:
        if row["node"] == life.node and row.get("incarnation", life.incarnation) in (
            life.incarnation,
            None,
        ):
            yield row
