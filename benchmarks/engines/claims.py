"""What nodes say of brokers and topics, as gold/groups.py and gold/divergence.py have it."""

import polars as pl
from benchmarks.engines.clocks import on_common_clock, on_common_clock_frame
from benchmarks.engines.columns import Scan, kept, of_one_fleet

from routebook_spark.gold.divergence import ARRIVAL_MS
from routebook_spark.gold.divergence import BROKER as FLEET_BROKER
from routebook_spark.gold.divergence import TOPIC as FLEET_TOPIC
from routebook_spark.gold.groups import REPLACED_WITHIN_MS
from routebook_spark.gold.pairs import ABSENT, UNSEEN_ENDS

BROKER = of_one_fleet(FLEET_BROKER)
TOPIC = of_one_fleet(FLEET_TOPIC)
GONE = "gone"  # a claim about a topic: it went with its broker

_GROUP = ("node", *BROKER)
_B, _G, _T = (", ".join(names) for names in (BROKER, _GROUP, TOPIC))

# -- by DuckDB: common table expressions, ``group_claims`` and ``topic_claims`` among them

CLAIMS = f"""
    stays AS (
        SELECT *, dense_rank() OVER (PARTITION BY {_B} ORDER BY broker_id) AS place,
               coalesce(cause = 'replaced' AND lead(began_ms) OVER (
                   PARTITION BY {_G}, broker_id ORDER BY from_seq) - ended_ms
                   <= {REPLACED_WITHIN_MS}, false) AS replaced,
               '"' || broker_id || '":"' || addr || '"' AS entry
        FROM ({on_common_clock("broker_sessions", "began_at", "ended_at")})),
    entries AS (
        SELECT {_G}, place, seq, entry, row_number() OVER in_order AS number,
               max(at_ms) OVER in_order AS at_ms, lead(seq) OVER in_order AS next_seq
        FROM (
            SELECT {_G}, place, from_seq AS seq, began_ms AS at_ms, entry, true AS begins
            FROM stays
            UNION ALL
            SELECT {_G}, place, to_seq, ended_ms + (cause IN {UNSEEN_ENDS!r})::int, '', false
            FROM stays WHERE to_seq IS NOT NULL AND NOT replaced)
        WINDOW in_order AS (PARTITION BY {_G} ORDER BY seq, begins
                            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)),
    entries_so_far AS (
        SELECT {_G}, seq, at_ms, next_seq, places.place,
               last_value(CASE WHEN entries.place = places.place THEN entry END IGNORE NULLS) OVER (
                   PARTITION BY {_G}, places.place ORDER BY number
                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS entry
        FROM entries JOIN (SELECT DISTINCT {_B}, place FROM entries) places USING ({_B})),
    members AS (
        SELECT {_G}, seq, at_ms,
               string_agg(entry, ',' ORDER BY place) FILTER (entry != '') AS members
        FROM entries_so_far WHERE next_seq IS NULL OR next_seq > seq GROUP BY {_G}, seq, at_ms),
    group_claims AS (
        SELECT {_G}, seq, at_ms, coalesce('{{' || members || '}}', '{ABSENT}') AS claim,
               CASE WHEN members IS NULL THEN lead(at_ms) OVER by_seq END AS back_ms,
               CASE WHEN members IS NULL THEN lead(seq) OVER by_seq END AS back_seq
        FROM members WINDOW by_seq AS (PARTITION BY {_G} ORDER BY seq)),
    lost AS (
        SELECT {_G}, seq AS to_seq, at_ms AS lost_ms, back_ms, back_seq
        FROM group_claims WHERE claim = '{ABSENT}'),
    versions AS (
        SELECT node, {_T}, from_seq, to_seq, valid_from_ms, lost_ms, back_ms, back_seq,
               greatest(valid_to_ms + (end_cause IN {UNSEEN_ENDS!r})::int, lost_ms) AS valid_to_ms,
               '[' || concat_ws(',', read_queues, write_queues, perm, flags) || ']' AS shape
        FROM ({on_common_clock("route_versions", "valid_from", "valid_to")})
            LEFT JOIN lost USING ({_G}, to_seq)),
    ordered AS (
        SELECT *, greatest(valid_from_ms, max(greatest(valid_from_ms, valid_to_ms)) OVER (
                      PARTITION BY {_T}, node ORDER BY from_seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS from_ms
        FROM versions),
    told AS (
        SELECT *, greatest(from_ms, valid_to_ms) AS to_ms, lead(from_ms) OVER in_order AS next_ms,
               to_seq IS NOT NULL AND lead(from_seq) OVER in_order IS DISTINCT FROM to_seq AS ends,
               greatest(from_ms, valid_to_ms, back_ms) AS back_at_ms
        FROM ordered WINDOW in_order AS (PARTITION BY {_T}, node ORDER BY from_seq)),
    topic_claims AS (
        SELECT node, {_T}, from_seq AS seq, from_ms AS at_ms, shape AS claim FROM told
        UNION ALL
        SELECT node, {_T}, to_seq, to_ms,
               CASE WHEN lost_ms IS NULL THEN '{ABSENT}' ELSE '{GONE}' END
        FROM told WHERE ends
        UNION ALL
        SELECT node, {_T}, back_seq, back_at_ms, '{ABSENT}' FROM told
        WHERE ends AND back_ms IS NOT NULL
            AND (next_ms IS NULL OR next_ms > back_at_ms + {ARRIVAL_MS}))"""

# -- by Polars


def group_claims_frame(table: Scan) -> pl.LazyFrame:
    """What each node says of a broker from ``at_ms`` on; when one that is absent comes back."""
    entries = kept(_entries(table))
    places = entries.select(*BROKER, "place").unique()
    mine = pl.when(pl.col("place") == pl.col("own_place")).then("entry")
    members = (
        entries.rename({"place": "own_place"})
        .join(places, on=BROKER)
        .sort(*_GROUP, "place", "number")
        .with_columns(mine.forward_fill().over(*_GROUP, "place").alias("entry"))
        .filter((pl.col("next_seq") > pl.col("seq")).fill_null(True))
        .sort(*_GROUP, "seq", "place")
        .group_by(*_GROUP, "seq", maintain_order=True)
        .agg(
            pl.col("at_ms").first(),
            pl.col("entry").filter(pl.col("entry") != "").str.join(",").alias("members"),
        )
    )
    gone = pl.col("members") == ""
    said = pl.when(gone).then(pl.lit(ABSENT)).otherwise("{" + pl.col("members") + "}")
    return members.with_columns(
        said.alias("claim"),
        pl.when(gone).then(pl.col("at_ms").shift(-1).over(_GROUP)).alias("back_ms"),
        pl.when(gone).then(pl.col("seq").shift(-1).over(_GROUP)).alias("back_seq"),
    ).drop("members")


def _entries(table: Scan) -> pl.LazyFrame:
    sessions = table("broker_sessions").drop("gap_counts")
    waits_ms = pl.col("began_ms").shift(-1).over(*_GROUP, "broker_id") - pl.col("ended_ms")
    replaced = (pl.col("cause") == "replaced") & (waits_ms <= REPLACED_WITHIN_MS)
    entry = '"' + pl.col("broker_id").cast(pl.String) + '":"' + pl.col("addr") + '"'
    stays = (
        on_common_clock_frame(sessions, table, "began_at", "ended_at")
        .sort(*_GROUP, "broker_id", "from_seq")
        .with_columns(
            replaced.fill_null(False).alias("replaced"),
            pl.col("broker_id").rank("dense").over(BROKER).alias("place"),
            entry.alias("entry"),
        )
    )
    comes = stays.select(
        *_GROUP,
        "place",
        pl.col("from_seq").alias("seq"),
        pl.col("began_ms").alias("at_ms"),
        "entry",
        pl.lit(True).alias("begins"),
    )
    unseen = pl.col("cause").is_in(UNSEEN_ENDS).cast(pl.Int64)
    goes = stays.filter(pl.col("to_seq").is_not_null() & ~pl.col("replaced")).select(
        *_GROUP,
        "place",
        pl.col("to_seq").alias("seq"),
        (pl.col("ended_ms") + unseen).alias("at_ms"),
        pl.lit("").alias("entry"),
        pl.lit(False).alias("begins"),
    )
    return (
        pl.concat([comes, goes])
        .sort(*_GROUP, "seq", "begins")
        .with_columns(
            pl.int_range(pl.len()).over(_GROUP).alias("number"),
            pl.col("at_ms").cum_max().over(_GROUP),
            pl.col("seq").shift(-1).over(_GROUP).alias("next_seq"),
        )
    )


def topic_claims_frame(table: Scan, groups: pl.LazyFrame) -> pl.LazyFrame:
    """What each node says of the queues of a topic on a broker from ``at_ms`` on."""
    told = kept(_told(table, groups))
    to_ms, back_ms = pl.col("to_ms"), pl.col("back_ms")
    ended = told.filter("ends")
    back_at_ms = pl.max_horizontal(to_ms, back_ms)
    late = (pl.col("next_ms") > back_at_ms + ARRIVAL_MS).fill_null(True)
    end = pl.when(pl.col("lost_ms").is_null()).then(pl.lit(ABSENT)).otherwise(pl.lit(GONE))

    def claim(rows: pl.LazyFrame, seq: str, at_ms: pl.Expr, said: pl.Expr) -> pl.LazyFrame:
        return rows.select(
            "node", *TOPIC, pl.col(seq).alias("seq"), at_ms.alias("at_ms"), said.alias("claim")
        )

    return pl.concat(
        [
            claim(told, "from_seq", pl.col("from_ms"), pl.col("shape")),
            claim(ended, "to_seq", to_ms, end),
            claim(
                ended.filter(back_ms.is_not_null() & late), "back_seq", back_at_ms, pl.lit(ABSENT)
            ),
        ]
    )


def _told(table: Scan, groups: pl.LazyFrame) -> pl.LazyFrame:
    """Route versions in order, each from where the one before it ends at the earliest."""
    lost = groups.filter(pl.col("claim") == ABSENT).select(
        *_GROUP,
        pl.col("seq").alias("to_seq"),
        pl.col("at_ms").alias("lost_ms"),
        "back_ms",
        "back_seq",
    )
    queues = ("read_queues", "write_queues", "perm", "flags")
    shape = "[" + pl.concat_str(*queues, separator=",") + "]"
    columns = ("node", *TOPIC, "from_seq", "to_seq", "valid_from", "valid_to", "end_cause")
    versions = table("route_versions").select(*columns, shape.alias("shape"))
    unseen = pl.col("end_cause").is_in(UNSEEN_ENDS).cast(pl.Int64)
    key = (*TOPIC, "node")
    valid_from, valid_to = pl.col("valid_from_ms"), pl.col("valid_to_ms")
    latest_ms = pl.max_horizontal(valid_from, valid_to).cum_max().shift().over(key)
    from_seq, to_seq = pl.col("from_seq"), pl.col("to_seq")
    return (
        on_common_clock_frame(versions, table, "valid_from", "valid_to")
        .join(lost, on=[*_GROUP, "to_seq"], how="left")
        .with_columns(pl.max_horizontal(valid_to + unseen, "lost_ms").alias("valid_to_ms"))
        .drop("valid_from", "valid_to", "end_cause")
        .sort(*key, "from_seq")
        .with_columns(pl.max_horizontal(valid_from, latest_ms).alias("from_ms"))
        .with_columns(
            pl.max_horizontal("from_ms", valid_to).alias("to_ms"),
            pl.col("from_ms").shift(-1).over(key).alias("next_ms"),
            (to_seq.is_not_null() & from_seq.shift(-1).over(key).ne_missing(to_seq)).alias("ends"),
        )
    )
