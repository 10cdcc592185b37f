"""Stories of a few nodes, told as silver rows: each on a day of its own, all in one frame.

    late = Story().knows("a", "b").lists("a", "b").has("a", until=60_000).has("b", until=75_000)
    frames = story_frames(spark, {"a change that is late": late, ...})

A node is of the fleet before the slash of its name, if there is one.

Times are milliseconds of the day of the story, and serve as sequence numbers too: what a node does
at the same time is one record. What is not ended goes on to the end of the story, and is gone when
the next one begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from pyspark.sql import SparkSession

from routebook.events import Cause, Event
from routebook.journal.record import Record
from support.gold_frames import Frames, gold_frames
from support.plain_silver import PlainSilver, instant
from support.spark_rows import T0, T0_MS

DAY_MS = 86_400_000
END_MS = 3_600_000
CLUSTER, BROKER, TOPIC, ADDR = "c1", "broker-a", "orders", "10.0.0.1:10911"

Row = dict[str, Any]


@dataclass(slots=True)
class Story:
    silver: PlainSilver = field(default_factory=PlainSilver)
    records: dict[str, list[Record]] = field(default_factory=dict)
    clocks: dict[str, tuple[int | None, int]] = field(default_factory=dict)

    def knows(
        self, *nodes: str, since: int = 0, until: int = END_MS, ends: str | None = "stopped"
    ) -> "Story":
        """``ends`` None: it goes on, and there are no later records."""
        for node in nodes:
            self.silver.coverage.append(
                {
                    "node": node,
                    "from_seq": since,
                    "to_seq": None if ends is None else until,
                    "from_at": since,
                    "to_at": until,
                    "begins": "started_warm",
                    "ends": ends,
                }
            )
        return self

    def lists(
        self,
        *nodes: str,
        since: int = 1000,
        until: int | None = None,
        cause: str = "expired",
        began: str = "registered",
        broker: str = BROKER,
        broker_id: int = 0,
        addr: str = ADDR,
        timeout_ms: int = 120_000,
    ) -> "Story":
        for node in nodes:
            self.silver.sessions.append(
                {
                    "node": node,
                    "cluster": CLUSTER,
                    "broker": broker,
                    "broker_id": broker_id,
                    "addr": addr,
                    "from_seq": since,
                    "to_seq": until,
                    "began_at": since,
                    "ended_at": until,
                    "began": began,
                    "cause": cause,
                    "heartbeat_timeout_ms": timeout_ms,
                }
            )
        return self

    def has(
        self,
        *nodes: str,
        queues: int = 4,
        since: int = 1000,
        until: int | None = None,
        cause: str = "register",
        topic: str = TOPIC,
        broker: str = BROKER,
        perm: int = 6,
        seqs: tuple[int | None, int | None] = (None, None),
    ) -> "Story":
        """``seqs``: where they do not follow from the times, as after a clock was set back."""
        for node in nodes:
            self.silver.versions.append(
                {
                    "node": node,
                    "cluster": CLUSTER,
                    "broker": broker,
                    "topic": topic,
                    "read_queues": queues,
                    "write_queues": queues,
                    "perm": perm,
                    "flags": 0,
                    "from_seq": seqs[0] or since,
                    "to_seq": seqs[1] or until,
                    "valid_from": since,
                    "valid_to": until,
                    "end_cause": cause,
                }
            )
        return self

    def holds(self, node: str, *, since: int, until: int, silent_ms: int) -> "Story":
        self.silver.suspects.append(
            {
                "node": node,
                "cluster": CLUSTER,
                "broker": BROKER,
                "broker_id": 0,
                "addr": ADDR,
                "kind": "held",
                "from_seq": since,
                "to_seq": until,
                "from_at": since,
                "to_at": until,
                "silent_ms": silent_ms,
            }
        )
        return self

    def clock(self, node: str, *, ahead_ms: int | None = 0, uncertainty_ms: int = 0) -> "Story":
        """All times of ``node`` are by this clock; ``ahead_ms`` None: nobody knows."""
        self.clocks[node] = (ahead_ms, uncertainty_ms)
        return self

    def writes(self, node: str, at_ms: int, *events: Event) -> "Story":
        each = self.records.setdefault(node, [])
        each += [Record(at_ms + i, at_ms, at_ms, node, event) for i, event in enumerate(events)]
        return self


def whose(node: str) -> Row:
    fleet, _, name = node.rpartition("/")
    return {"fleet": fleet or "default", "node": name}


def note(cause: Cause = Cause.REGISTER, peer: str = "10.0.0.1:40000") -> dict[str, Any]:
    return {"revision": 1, "cause": cause, "peer": peer}


def process(broker_id: int = 0, addr: str = ADDR, broker: str = BROKER) -> dict[str, Any]:
    return {
        "cluster": CLUSTER,
        "broker": broker,
        "broker_id": broker_id,
        "addr": addr,
        "generation": 1,
    }


def day_of_story(place: int) -> date:
    return (T0 + timedelta(days=place)).date()


def story_frames(spark: SparkSession, stories: Mapping[str, Story]) -> Frames:
    silver = PlainSilver()
    records: dict[str, list[Record]] = {}
    for place, story in enumerate(stories.values()):
        told = _Told(place, story)
        silver.coverage += [told.row(row, "to_at") for row in story.silver.coverage]
        silver.sessions += [told.row(row, "ended_at") for row in story.silver.sessions]
        silver.versions += [told.row(row, "valid_to") for row in story.silver.versions]
        silver.suspects += [told.row(row, "to_at") for row in story.silver.suspects]
        silver.skew += told.skew()
        for node, each in story.records.items():
            records.setdefault(node, []).extend(told.record(record) for record in each)
    return gold_frames(spark, silver, records)


@dataclass(frozen=True, slots=True)
class _Told:
    """A story on its day."""

    place: int
    story: Story

    @property
    def _nodes(self) -> set[str]:
        return {row["node"] for row in self.story.silver.coverage}

    def _ahead_ms(self, node: str) -> int:
        return self.story.clocks.get(node, (0, 0))[0] or 0

    def _wall_ms(self, node: str, ms: int) -> int:
        return T0_MS + self.place * DAY_MS + ms + self._ahead_ms(node)

    def row(self, row: Row, end: str) -> Row:
        goes_on = any(cover["ends"] is None for cover in self.story.silver.coverage)
        told = dict(row)
        if told["to_seq"] is None and "begins" not in told and not goes_on:
            told |= {"to_seq": END_MS + 1000, end: END_MS + 1000}
        if told["to_seq"] is None and "cause" in told:
            told["cause"] = None
        for name, value in told.items():
            if value is not None and (name.endswith("_at") or name.startswith("valid_")):
                told[name] = instant(self._wall_ms(told["node"], value))
            elif value is not None and name.endswith("_seq"):
                told[name] = self.place * DAY_MS + value
        return told | whose(told["node"])

    def record(self, record: Record) -> Record:
        return Record(
            self.place * DAY_MS + record.seq,
            self._wall_ms(record.node, record.wall_ms),
            record.mono_ms,
            record.node,
            record.event,
        )

    def skew(self) -> list[Row]:
        return [
            {
                "day": day_of_story(self.place),
                **whose(node),
                "against": min(self._nodes),
                "offset_ms": self.story.clocks.get(node, (0, 0))[0],
                "uncertainty_ms": self.story.clocks.get(node, (0, 0))[1],
                "samples": 9,
            }
            for node in sorted(self._nodes)
        ]
