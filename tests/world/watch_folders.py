"""The journals of a world in folders that are watched: what the source gives of them.

Which way they come there is drawn from the seed of the world: copied once they are sealed, or with
what is being written; a second life in the folder of the first, or beside it; followed by one watch
all the time, or by one that is started anew after each delivery.
"""

import gzip
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from routebook.journal.folder import ACTIVE, IDENTITY
from routebook_spark.source.journal import JournalStream
from world.folders import Segment, late_of, lost_of, segments_of, write_life
from world.truth import Life, Truth, Written

LifeKey = tuple[str, str]  # node and incarnation

_NEVER = 1 << 30


@dataclass(slots=True)
class Given:
    """What a watch was given of a world, by trigger and by life.

    ``cut_off`` are nodes one of whose segments was cut off when it was the next to be read and
    nobody was copying it any more; True when it was whole later on. ``emptied`` are nodes whose
    folder was there with nothing in it: that of a new life, before its first segment was sealed.
    ``shortened`` are nodes whose folder had less than had been read of it: what had been the active
    segment was not there any more, and not yet as a sealed one.
    """

    batches: list[list[pa.RecordBatch]] = field(default_factory=list)
    records: dict[LifeKey, list[Written]] = field(default_factory=dict)
    triggers: dict[LifeKey, list[int]] = field(default_factory=dict)  # at which each was given
    cut_off: dict[str, bool] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    shortened: set[str] = field(default_factory=set)


def all_of(truth: Truth) -> Given:
    """Everything its nodes wrote."""
    records = {(life.node, life.incarnation): life.written for life in truth.lives}
    return Given(records=records, triggers={key: [0] * len(of) for key, of in records.items()})


def given(truth: Truth, folder: Path) -> Given:
    """Carry the journals of a world to ``folder`` in steps, and read them there."""
    return _Delivery(truth, folder).run()


@dataclass(slots=True)
class _Carried:
    """A life, and at which step each of its segments comes whole, and half."""

    life: Life
    segments: list[Segment]
    home: Path
    away: Path
    whole: list[int]
    half: list[int]

    @property
    def key(self) -> LifeKey:
        return self.life.node, self.life.incarnation


class _Delivery:
    def __init__(self, truth: Truth, folder: Path) -> None:
        rng = self._rng = Random(f"watched {truth.plan.seed}")
        self._truth = truth
        self._steps = truth.plan.deliveries
        self._with_active = rng.random() < 0.5
        self._started_anew = rng.random() < 0.5
        self._with_identity = self._with_active or rng.random() < 0.5
        self._most_bytes = rng.choice(["20000", "1000000"])
        self._in_one_place = rng.random() < 0.5
        self._root = folder / "watched"
        self._root.mkdir(parents=True)
        self._found = Given()
        self._there: dict[Path, LifeKey] = {}
        self._lives = [self._carried(life, folder) for life in truth.lives if life.written]
        self._written = {
            (*each.key, written.record.seq): written
            for each in self._lives
            for written in each.life.written
        }

    def _carried(self, life: Life, folder: Path) -> _Carried:
        name = f"{life.node}-{life.incarnation}"
        away = self._root / (life.node if self._in_one_place else name)
        home = write_life(folder / "home" / name, life, lost=set(), all_sealed=True)
        carried = _Carried(life, segments_of(life), home, away, [], [])
        lost, late = lost_of(self._truth, life), late_of(self._truth, life)
        for place, segment in enumerate(carried.segments):
            comes, half = self._step_of(segment.written[-1].true_ms), _NEVER
            if place in lost:
                half = comes if self._rng.random() < 0.3 else _NEVER
                comes = _NEVER
            elif place in late:
                comes = min(self._steps - 1, comes + late[place].steps)
                half = comes - 1 if late[place].half else _NEVER
            carried.whole.append(comes)
            carried.half.append(half)
        return carried

    def _step_of(self, true_ms: float) -> int:
        return min(int(true_ms * self._steps / self._truth.plan.lasts_ms), self._steps - 1)

    def run(self) -> Given:
        stream = self._stream()
        offset: dict[str, Any] = {}
        for step in range(self._steps):
            self._deliver(step)
            if self._started_anew:
                stream = self._stream()
                stream.prepareForTriggerAvailableNow()
            offset = self._read(stream, offset)
        return self._found

    def _stream(self) -> JournalStream:
        return JournalStream(
            {"path": str(self._root), "on_fault": "tell", "max_bytes": self._most_bytes}
        )

    # -- what comes at a step

    def _deliver(self, step: int) -> None:
        begun = {
            each.away: each
            for each in self._lives
            if self._step_of(each.life.written[0].true_ms) <= step
        }
        for away, each in begun.items():
            if self._there.get(away) != each.key:
                self._there[away] = each.key
                shutil.rmtree(away, ignore_errors=True)
                away.mkdir()
                if self._with_identity:
                    shutil.copyfile(each.home / IDENTITY, away / IDENTITY)
            self._copy_sealed(each, step)
            if self._with_active:
                last_seq = self._copy_active(each, step)
                self._note_shortened(each, step, last_seq)
            read = {node for node, _ in self._found.records}
            if each.life.node in read and not any(away.iterdir()):
                self._found.emptied.add(each.life.node)
        if self._started_anew:
            self._note_cut_off(list(begun.values()), step)

    def _copy_sealed(self, each: _Carried, step: int) -> None:
        for place, segment in enumerate(each.segments):
            if self._with_active and place == len(each.segments) - 1:
                return
            packed, manifest = f"{segment.stem}.jsonl.gz", f"{segment.stem}.manifest.json"
            if min(each.whole[place], each.half[place]) > step:
                continue
            content = (each.home / packed).read_bytes()
            if each.whole[place] > step:
                content = content[: len(content) // 2]
            (each.away / packed).write_bytes(content)
            shutil.copyfile(each.home / manifest, each.away / manifest)

    def _copy_active(self, each: _Carried, step: int) -> int:
        """What is being written at the end of the step, and the next line as far as it has got.

        Returns the number of its last record, 0 when there is none.
        """
        ends = [self._step_of(segment.written[-1].true_ms) for segment in each.segments]
        later = [place for place, end in enumerate(ends) if end > step]
        segment = each.segments[min(later, default=-1)]
        lines = gzip.decompress((each.home / f"{segment.stem}.jsonl.gz").read_bytes())
        count = sum(self._step_of(written.true_ms) <= step for written in segment.written)
        there = lines.splitlines(keepends=True)
        torn = b"".join(line[: len(line) // 2] for line in there[count : count + 1])
        (each.away / ACTIVE).write_bytes(b"".join(there[:count]) + torn)
        return segment.written[count - 1].record.seq if count else 0

    def _note_shortened(self, each: _Carried, step: int, last_seq: int) -> None:
        sealed = [
            segment.written[-1].record.seq
            for segment, whole, half in zip(each.segments, each.whole, each.half, strict=True)
            if min(whole, half) <= step
        ]
        read = self._found.records.get(each.key)
        if read and read[-1].record.seq > max([last_seq, *sealed]):
            self._found.shortened.add(each.life.node)

    def _note_cut_off(self, lives: list[_Carried], step: int) -> None:
        now = {each.life.node for each in lives if self._is_cut_off(each, step)}
        for node in {*self._found.cut_off, *now}:
            self._found.cut_off[node] = node not in now

    def _is_cut_off(self, each: _Carried, step: int) -> bool:
        read = self._found.records.get(each.key)
        last_seq = read[-1].record.seq if read else 0
        return any(
            half <= step < whole and segment.written[-1].record.seq > last_seq
            for segment, whole, half in zip(each.segments, each.whole, each.half, strict=True)
        )

    # -- what is read of it

    def _read(self, stream: JournalStream, offset: dict[str, Any]) -> dict[str, Any]:
        while True:
            told = stream.latestOffset(offset, stream.getDefaultReadLimit())
            after: dict[str, Any] = json.loads(json.dumps(told))
            if after == offset:
                return offset
            batches = [
                batch
                for partition in stream.partitions(offset, after)
                for batch in stream.read(partition)
            ]
            self._found.batches.append(batches)
            for batch in batches:
                self._note(batch)
            offset = after

    def _note(self, batch: pa.RecordBatch) -> None:
        columns = (batch.column(name).to_pylist() for name in ("node", "incarnation", "seq"))
        for node, life, seq in zip(*columns, strict=True):
            if seq is not None:
                self._found.records.setdefault((node, life), []).append(
                    self._written[node, life, seq]
                )
                trigger = len(self._found.batches)
                self._found.triggers.setdefault((node, life), []).append(trigger)
