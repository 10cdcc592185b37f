"""What nodes wrote down of changes, as routebook_spark/gold/change_sightings.py has it.

What topics are known by is a number of each engine's own making, and is never written.
"""

import polars as pl
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import Scan, of_one_fleet

from routebook_spark.gold.change_sightings import (
    BROKER as FLEET_BROKER,
)
from routebook_spark.gold.change_sightings import (
    JOINED,
    LEFT,
    TOGETHER_MS,
    TOPICS,
    WINDOW_MS,
)
from routebook_spark.gold.change_sightings import (
    SUBJECT as FLEET_SUBJECT,
)
from routebook_spark.gold.pairs import UNSEEN_ENDS

BROKER = of_one_fleet(FLEET_BROKER)
SUBJECT = of_one_fleet(FLEET_SUBJECT)
_B, _S = ", ".join(BROKER), ", ".join(SUBJECT)
_TYPES = ("BrokerRegistered", "BrokerLeft", "TopicsChanged", "RegistrationCompleted")
_COLUMNS = (
    *SUBJECT,
    "node",
    "seq",
    "at_ms",
    "kind",
    "state",
    "topic",
    "what",
    "changes",
    "taken_back",
    "place",  # of a move among those of its process
)

# -- by DuckDB: common table expressions, the last of them ``sightings``

SIGHTINGS = f"""
    moves AS (
        SELECT *, row_number() OVER (PARTITION BY {_S} ORDER BY at_ms, node, seq) AS place,
               coalesce(lead(at_ms) OVER (PARTITION BY {_S}, node ORDER BY seq, at_ms) - at_ms
                        <= {WINDOW_MS}, false) AS taken_back
        FROM (
            SELECT node, {_B}, concat_ws(' ', broker_id, addr) AS subject, from_seq AS seq,
                   began_ms AS at_ms, '{JOINED}' AS kind, began = 'registered' AS shown
            FROM timed_sessions
            UNION ALL
            SELECT node, {_B}, concat_ws(' ', broker_id, addr), to_seq, ended_ms, '{LEFT}',
                   cause NOT IN {UNSEEN_ENDS!r}
            FROM timed_sessions WHERE to_seq IS NOT NULL)),
    told AS (
        SELECT node, {_B}, addr, peer, seq, "at", type,
               cardinality(data.addrs_before) = 0 AS first,
               '[' || array_to_string(data.data_version, ',') || ']' AS version,
               flatten(list_transform(data.changes, lambda c: c.topics)) AS names,
               flatten(list_transform(data.changes, lambda c:
                   list_transform(c.topics, lambda t: hash(t, c.after)))) AS contents,
               coalesce('[' || array_to_string(data.changes[-1].after, ',') || ']', 'null')
                   AS after
        FROM events WHERE type IN {_TYPES!r}),
    timed_records AS (
        SELECT node, {_B}, addr, peer, seq, at_ms, type, first, version, after,
               coalesce(len(names), 0) AS topics, list_min(names) AS first_topic,
               list_max(names) AS last_topic, list_bit_xor(contents) AS contents,
               list_bit_xor(list_transform(names, lambda t: hash(t))) AS names
        FROM ({on_common_clock("told", "at")})),
    parts AS (
        SELECT *, coalesce(last_value(CASE WHEN type = 'BrokerRegistered' AND first THEN true
                                           WHEN type IN ('BrokerLeft', 'RegistrationCompleted')
                                           THEN false END IGNORE NULLS) OVER (
                      PARTITION BY node, {_B} ORDER BY seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS arriving
        FROM timed_records
        QUALIFY type IN ('TopicsChanged', 'RegistrationCompleted')),
    numbered_parts AS (
        SELECT *, sum(apart::int) OVER (PARTITION BY node, {_B}, peer ORDER BY seq) AS number
        FROM (
            SELECT *, coalesce(lag(type) OVER of_peer = 'RegistrationCompleted'
                               OR at_ms - lag(at_ms) OVER of_peer > {TOGETHER_MS}, true) AS apart
            FROM parts WINDOW of_peer AS (PARTITION BY node, {_B}, peer ORDER BY seq))),
    wholes AS (
        SELECT node, {_B}, max(seq) AS seq, arg_max(at_ms, seq) AS at_ms,
               bool_or(arriving) AS arriving, max(addr) AS addr, max(version) AS version,
               sum(topics) AS topics, min(first_topic) AS first_topic,
               max(last_topic) AS last_topic, arg_max(after, seq) FILTER (topics > 0) AS after,
               bit_xor(names) AS names, bit_xor(contents) AS contents
        FROM numbered_parts GROUP BY node, {_B}, peer, number),
    sightings AS (
        SELECT {_S}, node, seq, at_ms, kind, kind AS state, NULL::varchar AS topic,
               subject AS what, true AS changes, taken_back, place
        FROM moves WHERE shown
        UNION ALL
        SELECT {_B}, CASE WHEN version IS NOT NULL THEN concat_ws(' ', addr, version)
                          ELSE names::varchar END,
               node, seq, at_ms, '{TOPICS}', coalesce(version, contents::varchar),
               CASE WHEN first_topic = last_topic THEN first_topic END,
               CASE WHEN first_topic = last_topic THEN after ELSE topics || ' topics' END,
               topics > 0 AND NOT arriving, false, NULL
        FROM wholes WHERE version IS NOT NULL OR topics > 0)"""
TIMED_SESSIONS = on_common_clock("broker_sessions", "began_at", "ended_at")

# -- by Polars


def moves_frame(table: Scan) -> pl.LazyFrame:
    """Each time a process came or left, on each node."""
    timed = on_common_clock_frame(table("broker_sessions"), table, "began_at", "ended_at")
    subject = pl.col("broker_id").cast(pl.String) + " " + pl.col("addr")
    at_ms = pl.col("at_ms")

    def move(seq: str, at: str, kind: str, *, shown: pl.Expr) -> pl.LazyFrame:
        return timed.select(
            "node",
            *BROKER,
            subject.alias("subject"),
            pl.col(seq).alias("seq"),
            pl.col(at).alias("at_ms"),
            pl.lit(kind).alias("kind"),
            shown.alias("shown"),
        )

    comes = move("from_seq", "began_ms", JOINED, shown=pl.col("began") == "registered")
    goes = move("to_seq", "ended_ms", LEFT, shown=~pl.col("cause").is_in(UNSEEN_ENDS))
    returns_ms = at_ms.shift(-1).over(*SUBJECT, "node") - at_ms
    return (
        pl.concat([comes, goes.drop_nulls("seq")])
        .sort(*SUBJECT, "node", "seq", "at_ms")
        .with_columns((returns_ms <= WINDOW_MS).fill_null(False).alias("taken_back"))
        .sort(*SUBJECT, "at_ms", "node", "seq")
        .with_columns(pl.int_range(pl.len()).over(SUBJECT).alias("place"))
    )


def sightings_frame(table: Scan, moves: pl.LazyFrame) -> pl.LazyFrame:
    processes = moves.filter("shown").with_columns(
        pl.col("kind").alias("state"),
        pl.lit(None, pl.String).alias("topic"),
        pl.col("subject").alias("what"),
        pl.lit(True).alias("changes"),
    )
    by_version = pl.col("version").is_not_null()
    single = (pl.col("first_topic") == pl.col("last_topic")).fill_null(False)
    topics = pl.col("topics")
    of_topics = (
        _wholes(_parts(table))
        .filter(by_version | (topics > 0))
        .with_columns(
            pl.lit(TOPICS).alias("kind"),
            pl.when(by_version)
            .then(pl.concat_str("addr", "version", separator=" ", ignore_nulls=True))
            .otherwise(pl.col("names").cast(pl.String))
            .alias("subject"),
            pl.coalesce("version", pl.col("contents").cast(pl.String)).alias("state"),
            pl.when(single).then("first_topic").alias("topic"),
            pl.when(single)
            .then("after")
            .otherwise(topics.cast(pl.String) + " topics")
            .alias("what"),
            ((topics > 0) & ~pl.col("arriving")).alias("changes"),
            pl.lit(False).alias("taken_back"),
            pl.lit(None, pl.Int64).alias("place"),
        )
    )
    return pl.concat([processes.select(*_COLUMNS), of_topics.select(*_COLUMNS)])


def _json(numbers: pl.Expr) -> pl.Expr:
    return "[" + numbers.list.eval(pl.element().cast(pl.String)).list.join(",") + "]"


def _parts(table: Scan) -> pl.LazyFrame:
    """Records about topics; ``arriving`` while the first registration of the broker goes on."""
    data = pl.col("data").struct
    record = ("node", "seq")
    told = (
        table("events")
        .filter(pl.col("type").is_in(_TYPES))
        .select(
            *record,
            *BROKER,
            "addr",
            "peer",
            "at",
            "type",
            (data.field("addrs_before").cast(_ENTRIES).list.len() == 0).alias("first"),
            _json(data.field("data_version")).alias("version"),
            data.field("changes").alias("change"),
        )
    )
    change, topic = pl.col("change").struct, pl.col("topic")
    after = _json(change.field("after")).fill_null("null")
    content = pl.concat_str(topic, "after", separator="\0").hash()
    contents = (
        told.select(*record, "change")
        .explode("change", empty_as_null=False, keep_nulls=False)
        .with_columns(after.alias("after"), change.field("topics").alias("topic"))
        .explode("topic", empty_as_null=False, keep_nulls=False)
        .group_by(*record)
        .agg(
            pl.len().cast(pl.Int64).alias("topics"),
            topic.min().alias("first_topic"),
            topic.max().alias("last_topic"),
            topic.hash().bitwise_xor().alias("names"),
            content.bitwise_xor().alias("contents"),
        )
    )
    last = _json(pl.col("change").list.last().struct.field("after")).fill_null("null")
    comes = (pl.col("type") == "BrokerRegistered") & pl.col("first")
    settles = pl.col("type").is_in(("BrokerLeft", "RegistrationCompleted"))
    turn = pl.when(comes).then(True).when(settles).then(False)
    arriving = turn.forward_fill().shift().over("node", *BROKER).fill_null(False)
    return (
        on_common_clock_frame(told.with_columns(last.alias("after")).drop("change"), table, "at")
        .sort("node", *BROKER, "seq")
        .with_columns(arriving.alias("arriving"))
        .filter(pl.col("type").is_in(("TopicsChanged", "RegistrationCompleted")))
        .join(contents, on=record, how="left")
        .with_columns(pl.col("topics").fill_null(0))
    )


_ENTRIES = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))


def _wholes(parts: pl.LazyFrame) -> pl.LazyFrame:
    """One row for all records of one registration, or of one command."""
    of_peer = ("node", *BROKER, "peer")
    at_ms, topics = pl.col("at_ms"), pl.col("topics")
    completes = pl.col("type") == "RegistrationCompleted"
    waits_ms = at_ms - at_ms.shift().over(of_peer)
    apart = completes.shift().over(of_peer) | (waits_ms > TOGETHER_MS)
    return (
        parts.sort(*of_peer, "seq")
        .with_columns(apart.fill_null(True).alias("apart"))
        .with_columns(pl.col("apart").cum_sum().over(of_peer).alias("number"))
        .group_by(*of_peer, "number")
        .agg(
            pl.col("seq").max(),
            at_ms.max_by("seq"),
            pl.col("arriving").any(),
            pl.col("addr", "version", "last_topic").max(),
            topics.sum(),
            pl.col("first_topic").min(),
            pl.col("after").sort_by("seq").filter(topics.sort_by("seq") > 0).last(),
            pl.col("names", "contents").bitwise_xor(),
        )
    )
