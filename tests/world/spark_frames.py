"""The tables of worlds as frames, made by the functions of silver and gold without a lake."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from routebook.events import JournalRecovered
from routebook.journal.record import Record, encode
from routebook_spark import schemas
from routebook_spark.gold.availability import broker_availability
from routebook_spark.gold.convergence import convergence
from routebook_spark.gold.divergence import divergence
from routebook_spark.gold.exposure import stale_exposure
from routebook_spark.local_frame import local_frame
from routebook_spark.silver.build import silver_of
from routebook_spark.source.rows import batch_of
from world.finding import Finding
from world.plan import Plan
from world.simulate import happened
from world.spark_checks import Tables, check_tables
from world.spark_lake import Carried, carried_by, rows_of


def check_frames(spark: SparkSession, plans: Sequence[Plan]) -> list[Finding]:
    """All worlds in one frame; which fleet a row is of tells them apart."""
    lives = [
        carried_by(truth, life, Path("/"), steps=1)
        for truth in map(happened, plans)
        for life in truth.lives
        if life.written
    ]
    return list(check_tables(lives, tables_of(spark, lives)))


def tables_of(spark: SparkSession, lives: Sequence[Carried]) -> Tables:
    batches = [
        batch_of(
            [encode(each.record) for each in one.knowledge.held],
            fleet=one.life.fleet,
            incarnation=one.life.incarnation,
        )
        for one in lives
    ]
    events = spark.createDataFrame(pa.Table.from_batches(batches), schemas.EVENTS)
    gaps = spark.createDataFrame([gap for one in lives for gap in _gaps(one)], schemas.GAPS)
    events, gaps = events.localCheckpoint(), gaps.localCheckpoint()
    silver = silver_of(events, gaps)
    sessions, suspects = silver.sessions, silver.suspects.localCheckpoint()
    coverage, versions = silver.coverage, silver.versions.localCheckpoint()
    skew = silver.skew.localCheckpoint()
    none = local_frame(spark, schemas.DIVERGENCE, rows=())
    frames = {
        "node_coverage": coverage,
        "broker_sessions": sessions,
        "route_versions": versions,
        "clock_skew": skew,
        "broker_availability": broker_availability(sessions, suspects, coverage, skew),
        "divergence": divergence(versions, sessions, coverage, skew, earlier=none),
        "convergence": convergence(sessions, events, coverage, skew),
        "stale_exposure": stale_exposure(sessions, suspects, events, versions, coverage, skew),
    }
    return {name: rows_of(frame) for name, frame in frames.items()}


Gap = tuple[str, str, str, int, int, int, str, datetime, datetime]


def _gaps(one: Carried) -> list[Gap]:
    """Where records are missing, as bronze says it."""
    life = one.life
    return [
        (
            life.fleet,
            life.node,
            life.incarnation,
            before.record.seq,
            after.record.seq,
            after.record.seq - before.record.seq - 1,
            "missing",
            _at(before.record),
            _at(after.record),
        )
        for before, after in pairwise(one.knowledge.held)
        if after.record.seq != before.record.seq + 1 and not _leaps(before.record, after.record)
    ]


def _leaps(before: Record, after: Record) -> bool:
    """Whether numbers leap because the node was killed, and nothing is missing."""
    event = after.event
    return isinstance(event, JournalRecovered) and event.last_seq == before.seq


def _at(record: Record) -> datetime:
    return datetime.fromtimestamp(record.wall_ms / 1000, UTC)
