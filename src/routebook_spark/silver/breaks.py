"""Breaks: where a node that runs, and whose records are all there, was no witness.

    stalled   it listened to nobody, and said so when it woke (NodeStalled)
    silent    brokers were listed, and nothing was recorded for more than two windows
    clock     wall and monotonic time disagree: the clock was set, or the machine slept

They are found between each two records that follow each other. The rules and their numbers are
those of ``routebook.history.finding.witness``. Two more kinds are no breaks, and kept for what
comes later:

    epoch     the clock was set while the node was down or stalled, which ends its time anyway
    window    from here on the latest windows of the node are others
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routebook.history.finding.witness import (
    BOOTS,
    DEFAULT_WINDOW_MS,
    JUMP_MS,
    JUMP_PER_MILLE,
    LATEST_WINDOWS,
    LEAST_SILENCE_MS,
    SILENT_WINDOWS,
    STALL_EDGES_MS,
    WINDOWS,
    WINDOWS_APART_MS,
)
from routebook_spark import schemas
from routebook_spark.schemas import WITNESS

STALLED, SILENT, CLOCK, EPOCH, WINDOW = "stalled", "silent", "clock", "epoch", "window"
BREAKS = (STALLED, SILENT, CLOCK)
EPOCHS = (CLOCK, EPOCH)

_EXPLAINED = ("NodeStalled", "RecordsLost")


def node_breaks(
    around: DataFrame, is_new: Column, *, known: DataFrame, sessions: DataFrame
) -> DataFrame:
    """Breaks before the records of ``around`` that are new.

    ``around`` are these and the one before the first of each witness; ``known`` the breaks of all
    before. ``sessions`` are those of the time: a node without brokers has nothing to record.
    """
    return _while_listed(_candidates(around, is_new, known), sessions)


def _candidates(around: DataFrame, is_new: Column, known: DataFrame) -> DataFrame:
    by_seq = Window.partitionBy(*WITNESS).orderBy("seq")
    last = F.lag(F.struct("seq", "wall_ms", "mono_ms")).over(by_seq)
    since_ms = F.when(F.col("type") == "NodeStalled", F.col("data.from_ms")).when(
        F.col("type") == "RecordsLost", F.col("data.since_ms")
    )
    # All records of one window are written at once, and count once; a stall cuts one short.
    said_at_ms = F.when(F.col("type").isin(*WINDOWS, "NodeStalled"), F.col("wall_ms"))
    since_last_ms = F.abs(F.col("said_at_ms") - _before("said_at_ms", 1))
    said_ms = F.when(F.coalesce(since_last_ms >= WINDOWS_APART_MS, F.lit(True)), F.col("window_ms"))
    records = (
        around.select(
            *WITNESS,
            "seq",
            "at",
            "wall_ms",
            "mono_ms",
            "type",
            said_at_ms.alias("said_at_ms"),
            F.when(F.col("type").isin(*WINDOWS), F.col("data.window_ms")).alias("window_ms"),
            since_ms.alias("since_ms"),
            F.when(F.col("type") == "NodeStalled", F.col("data.to_ms")).alias("woke_ms"),
            _slept().alias("slept"),
            F.col("data.clock_ms").alias("clock_ms"),
        )
        .withColumns({"last": last, "said_ms": said_ms})
        .where(is_new)
        .drop("window_ms")
    )
    before = (
        known.where(F.col("type") == WINDOW)
        .groupBy(*WITNESS)
        .agg(F.max_by("windows_ms", "seq").alias("known_ms"))
    )
    anew_ms = F.when(F.col("type") == "NodeStarted", F.lit(DEFAULT_WINDOW_MS))
    counted = (
        records.join(F.broadcast(before), list(WITNESS), "left")
        .withColumn("set_ms", F.coalesce(anew_ms, "said_ms"))
        .withColumn("windows_ms", _latest_windows())
        .withColumn("was_ms", F.coalesce(F.lag("windows_ms").over(by_seq), "known_ms"))
        .withColumn("window_ms", F.array_max("windows_ms"))
    )
    found = F.filter(
        F.array(_stalled(), _clock(), _silent(), _window()), lambda each: each["type"].isNotNull()
    )
    return counted.select(*WITNESS, "seq", "at", F.explode(found).alias("found")).select(
        *WITNESS, "seq", "at", "found.*"
    )


def _latest_windows() -> Column:
    """Those of a record and of the last ones before it, up to ``LATEST_WINDOWS``."""
    earlier = [_before("set_ms", back) for back in range(1, LATEST_WINDOWS + 1)]
    said = F.array_compact(F.array("set_ms", *earlier))
    known = F.coalesce("known_ms", F.array().cast("array<bigint>"))
    return F.slice(F.concat(said, known), 1, LATEST_WINDOWS)


def _before(name: str, back: int) -> Column:
    """The last, or one before the last, of those before a record that are not null."""
    order = f"PARTITION BY {', '.join(WITNESS)} ORDER BY seq"
    return F.expr(f"lag({name}, {back}) IGNORE NULLS OVER ({order})")


def _slept() -> Column:
    """Whether a node that says so slept; else its clock was set, and it listened all the time."""
    paused = (F.col("data.longest_ms") >= STALL_EDGES_MS) | (F.col("data.clock_ms") == 0)
    return F.coalesce(paused, F.lit(True))


def _stalled() -> Column:
    return _found(
        F.when(F.col("type") == "NodeStalled", F.when(F.col("slept"), STALLED).otherwise(CLOCK)),
        before_ms=F.col("since_ms"),
        again_ms=F.col("woke_ms"),
        clock_ms=F.when(~F.col("slept"), F.col("clock_ms")),
    )


def _clock() -> Column:
    told = F.col("type").isin(*BOOTS) | (F.col("type") == "NodeStalled")
    kind = F.when(_jumped() & told, EPOCH).when(_jumped(), CLOCK)
    return _found(kind, before_ms=F.col("last.wall_ms"), clock_ms=_apart_ms())


def _silent() -> Column:
    longest_ms = F.greatest(
        SILENT_WINDOWS * F.coalesce("window_ms", F.lit(DEFAULT_WINDOW_MS)), F.lit(LEAST_SILENCE_MS)
    )
    passed_ms = F.coalesce(F.col("mono_ms") - F.col("last.mono_ms"), _wall_passed_ms())
    explained = F.col("type").isin(*_EXPLAINED) & (
        F.col("since_ms") - F.col("last.wall_ms") <= longest_ms
    )
    follows = F.col("seq") == F.col("last.seq") + 1
    quiet = (passed_ms > longest_ms) & follows & ~F.col("type").isin(*BOOTS) & ~_jumped()
    kind = F.when(quiet & ~F.coalesce(explained, F.lit(False)), SILENT)
    return _found(kind, before_ms=F.col("last.wall_ms"))


def _window() -> Column:
    changes = ~F.col("windows_ms").eqNullSafe(F.col("was_ms"))
    return _found(F.when(changes, WINDOW), windows_ms=F.col("windows_ms"))


def _wall_passed_ms() -> Column:
    return F.col("wall_ms") - F.col("last.wall_ms")


def _apart_ms() -> Column:
    """How much more time passed by the wall clock than by the monotonic one."""
    return _wall_passed_ms() - (F.col("mono_ms") - F.col("last.mono_ms"))


def _jumped() -> Column:
    allowed = 1000 * JUMP_MS + JUMP_PER_MILLE * F.abs(F.col("mono_ms") - F.col("last.mono_ms"))
    return F.coalesce(1000 * F.abs(_apart_ms()) > allowed, F.lit(False))


def _found(
    kind: Column,
    *,
    before_ms: Column | None = None,
    again_ms: Column | None = None,
    clock_ms: Column | None = None,
    windows_ms: Column | None = None,
) -> Column:
    nothing = F.lit(None).cast("long")
    return F.struct(
        kind.alias("type"),
        F.timestamp_millis(nothing if before_ms is None else before_ms).alias("before_at"),
        F.timestamp_millis(nothing if again_ms is None else again_ms).alias("again_at"),
        (nothing if clock_ms is None else clock_ms).alias("clock_ms"),
        (F.lit(None) if windows_ms is None else windows_ms)
        .cast("array<bigint>")
        .alias("windows_ms"),
    )


def _while_listed(found: DataFrame, sessions: DataFrame) -> DataFrame:
    """Without silences in which no broker was listed."""
    silent = found.where(F.col("type") == SILENT).select(*WITNESS, "seq").distinct()
    spans = sessions.select(*WITNESS, "from_seq", "to_seq")
    listed = (
        spans.join(F.broadcast(silent), list(WITNESS))
        .where("from_seq < seq AND (to_seq IS NULL OR to_seq >= seq)")
        .select(*WITNESS, "seq")
        .distinct()
        .withColumn("listed", F.lit(True))
    )
    return (
        found.join(F.broadcast(listed), [*WITNESS, "seq"], "left")
        .where((F.col("type") != SILENT) | F.col("listed"))
        .select(*schemas.NODE_BREAKS.names)
    )


def clock_epochs(breaks: DataFrame) -> DataFrame:
    """The records with which clock epochs begin, of each witness that had several: ``epochs``."""
    return (
        breaks.where(F.col("type").isin(*EPOCHS))
        .groupBy(*WITNESS)
        .agg(F.array_sort(F.collect_set("seq")).alias("epochs"))
    )


def epoch_of(seq: Column) -> Column:
    """The first record of the clock epoch that ``seq`` is in; 0 for the first one."""
    begun = F.filter("epochs", lambda first: first <= seq)
    return F.coalesce(F.array_max(begun), F.lit(0)).cast("long")
