"""Facts: events in the form in which they are watched, one row for each bucket of their fleet.

A bucket watches some of the brokers, nodes and topics, by a hash of their names. Whatever happens,
every bucket is told that the node wrote a record, when, and of what type: so each knows the clocks
of all nodes, and that one of them stopped. What it says of a broker or a topic is told to one
bucket alone.

What is in lists of topics is summed up here: the queues of a group as a digest (the exclusive or of
a hash of each topic with its queues, so that a change takes the old out and the new in), how many
topics it has, and how large they make its registration.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from routebook_spark.gold.forecast import TOPIC_BYTES
from routebook_spark.schemas import BOOLEAN, DEFAULT_FLEET, INT, LONG, STRING, STRINGS, struct

BUCKETS = 8
"""Part of the state: with another number a new checkpoint is needed."""

AHEAD_MS = 60_000
"""How much further than the clock here one of a node is believed."""

SHORTEST_WINDOW_MS = 10_000
"""A window cut short, by a stop or a sleep, says little of what is asked in a minute."""

FACTS = struct(
    bucket=INT,
    fleet=STRING,
    node=STRING,
    incarnation=STRING,
    seq=LONG,
    type=STRING,
    at_ms=LONG,
    wall_ms=LONG,
    mono_ms=LONG,
    ahead_ms=LONG,
    home=BOOLEAN,
    cause=STRING,
    joined=LONG,
    process=LONG,
    from_ms=LONG,
    to_ms=LONG,
    alive_ms=LONG,
    clock_ms=LONG,
    content=LONG,
    folder=STRING,
    quiet_ms=LONG,
    brokers=LONG,
    count=LONG,
    since_ms=LONG,
    last_seq=LONG,
    window_ms=LONG,
    unknown=LONG,
    silent=LONG,
    live=LONG,
    hold_ms=LONG,
    reason=STRING,
    continued=BOOLEAN,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    addr=STRING,
    fresh=BOOLEAN,
    timeout_ms=LONG,
    addrs=ArrayType(STRINGS),
    gap_ms=LONG,
    digest=LONG,
    topics_more=LONG,
    bytes_more=LONG,
    storms=ArrayType(STRINGS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One row of ``FACTS``.

    From ``cluster`` on it is about a broker that this bucket watches; ``home`` is true in the one
    bucket that watches the node. ``at_ms`` is the time of the record, unless that is ``ahead_ms``
    of the clock here. Notes about folders have the number -1.
    """

    bucket: int = 0
    fleet: str = "default"
    node: str
    incarnation: str = ""
    seq: int
    type: str
    at_ms: int
    wall_ms: int = 0  # as the record has it
    mono_ms: int | None = None
    ahead_ms: int = 0
    home: bool = True
    cause: str = ""
    joined: int = 0  # processes more than before
    process: int | None = None  # the one it is about, known by every bucket
    from_ms: int | None = None
    to_ms: int | None = None
    alive_ms: int | None = None
    clock_ms: int | None = None  # by how much the wall clock was set
    content: int | None = None  # of a registration that is complete
    folder: str | None = None
    quiet_ms: int | None = None
    brokers: int | None = None
    count: int | None = None
    since_ms: int | None = None
    last_seq: int | None = None
    window_ms: int | None = None
    unknown: int = 0
    silent: int | None = None
    live: int | None = None
    hold_ms: int | None = None
    reason: str | None = None
    continued: bool = False
    cluster: str | None = None
    broker: str | None = None
    broker_id: int | None = None
    addr: str | None = None
    fresh: bool = False  # the group was not there before
    timeout_ms: int | None = None
    addrs: list[list[str]] | None = None  # of the group: id, address, timeout if it is told
    gap_ms: int = 0  # the longest
    digest: int = 0
    topics_more: int = 0
    bytes_more: int = 0
    storms: list[list[str]] | None = None  # topic, how often it was not known


def facts(events: DataFrame, *, unknown_per_minute: float) -> DataFrame:
    """A row of ``FACTS`` for each event and bucket; topics asked for more often are ``storms``.

    Members that are missing in a broken record say nothing: a stream must not end for one.
    """
    data = F.col("data")
    queues = F.coalesce(data["changes"], data["queues"])
    now_ms = F.unix_millis(F.current_timestamp())
    told = events.select(
        F.coalesce("fleet", F.lit(DEFAULT_FLEET)).alias("fleet"),
        "node",
        F.coalesce("incarnation", F.lit("")).alias("incarnation"),
        F.coalesce("seq", F.lit(-1)).alias("seq"),
        "type",
        F.least(F.col("wall_ms"), now_ms + AHEAD_MS).alias("at_ms"),
        "wall_ms",
        "mono_ms",
        (F.col("wall_ms") - now_ms).alias("ahead_ms"),
        F.coalesce("cause", F.lit("")).alias("cause"),
        _joined().alias("joined"),
        F.when(F.col("broker_id").isNotNull(), F.xxhash64("cluster", "broker", "broker_id")).alias(
            "process"
        ),
        *(_moment(data[name], now_ms).alias(name) for name in ("from_ms", "to_ms", "alive_ms")),
        data["clock_ms"].alias("clock_ms"),
        F.when(
            (F.col("type") == "RegistrationCompleted") & data["data_version"].isNotNull(),
            F.xxhash64("cluster", "broker", "addr", data["data_version"]),
        ).alias("content"),
        data["subject"].alias("folder"),
        data["after_ms"].alias("quiet_ms"),
        data["brokers"].alias("brokers"),
        F.coalesce(data["count"], data["groups"]).alias("count"),
        _moment(data["since_ms"], now_ms).alias("since_ms"),
        data["last_seq"].alias("last_seq"),
        data["window_ms"].alias("window_ms"),
        _sum(F.transform(_or_none(data["queries"]), lambda query: query["unknown"])).alias(
            "unknown"
        ),
        data["silent"].alias("silent"),
        data["live"].alias("live"),
        data["hold_ms"].alias("hold_ms"),
        data["reason"].alias("reason"),
        F.coalesce(data["continued"], F.lit(False)).alias("continued"),
        "cluster",
        "broker",
        "broker_id",
        "addr",
        (F.size(data["addrs_before"]) == 0).alias("fresh"),
        _timeout_ms().alias("timeout_ms"),
        _addrs().alias("addrs"),
        F.coalesce(F.array_max(data["gaps_ms"]), F.lit(0)).alias("gap_ms"),
        _digest(queues).alias("digest"),
        _sum(F.transform(_or_none(queues), lambda alike: _more(alike) * _size(alike))).alias(
            "topics_more"
        ),
        _sum(F.transform(_or_none(queues), lambda alike: _more(alike) * _bytes(alike))).alias(
            "bytes_more"
        ),
        _storms(unknown_per_minute).alias("storms"),
        F.when(
            F.col("cluster").isNotNull() & F.col("broker").isNotNull(),
            _bucket("cluster", "broker"),
        ).alias("own"),
    )
    copies = told.withColumn("bucket", F.explode(F.sequence(F.lit(0), F.lit(BUCKETS - 1))))
    of_broker = FACTS.names[FACTS.names.index("cluster") : FACTS.names.index("storms")]
    here = {name: F.when(F.col("own") == F.col("bucket"), F.col(name)) for name in of_broker}
    stormy = F.filter("storms", lambda storm: _bucket(storm[0]) == F.col("bucket"))
    placed = copies.withColumns(
        here | {"storms": stormy, "home": _bucket("node") == F.col("bucket")}
    )
    return placed.select(*FACTS.names)


def _bucket(*names: Column | str) -> Column:
    return F.pmod(F.hash(*names), F.lit(BUCKETS))


def _moment(ms: Column, now_ms: Column) -> Column:
    """A time that is none would be one nobody can write down."""
    return F.when(ms.isNotNull(), F.greatest(F.lit(0), F.least(ms, now_ms + AHEAD_MS)))


def _or_none(items: Column) -> Column:
    return F.coalesce(items, F.array())


def _zero() -> Column:
    return F.lit(0).cast("long")


def _sum(numbers: Column) -> Column:
    return F.aggregate(numbers, _zero(), lambda total, number: total + F.coalesce(number, F.lit(0)))


# -- brokers


def _joined() -> Column:
    """How many more processes the node lists: those of a restated group are all new."""
    data = F.col("data")
    return F.coalesce(
        # Who is replaced is counted by the registration of who takes the place.
        F.when(F.col("cause") == "replaced", 0),
        F.size(data["addrs_after"]) - F.size(data["addrs_before"]),
        F.when(F.col("type") == "GroupRestated", F.size(data["members"])),
        F.lit(0),
    ).cast("long")


def _addrs() -> Column:
    pairs = F.transform(
        F.map_entries("data.addrs_after"), lambda pair: F.array(pair["key"], pair["value"])
    )
    members = F.transform(
        F.filter("data.members", lambda member: member["broker_id"].isNotNull()),
        lambda member: F.array(
            member["broker_id"].cast("string"),
            member["addr"],
            member["heartbeat_timeout_ms"].cast("string"),
        ),
    )
    return F.coalesce(pairs, members)


def _timeout_ms() -> Column:
    changed = F.get_json_object("data.after", "$.heartbeat_timeout_ms").try_cast("long")
    return F.coalesce(
        F.col("data.heartbeat_timeout_ms"), F.when(F.col("type") == "BrokerUpdated", changed)
    )


# -- topics that changed alike: before, after, topics


def _digest(queues: Column) -> Column:
    mixed = F.transform(
        _or_none(queues),
        lambda alike: _xor(F.transform(_topics(alike), lambda topic: _mix(topic, alike))),
    )
    return _xor(mixed)


def _xor(numbers: Column) -> Column:
    return F.aggregate(numbers, _zero(), lambda one, other: one.bitwiseXOR(other))


def _mix(topic: Column, alike: Column) -> Column:
    return _hash(topic, alike["before"]).bitwiseXOR(_hash(topic, alike["after"]))


def _hash(topic: Column, shape: Column) -> Column:
    return F.when(shape.isNull(), _zero()).otherwise(F.xxhash64(topic, shape))


def _topics(alike: Column) -> Column:
    return _or_none(alike["topics"])


def _more(alike: Column) -> Column:
    """1 for topics that came, -1 for topics that went, 0 for others."""
    return alike["after"].isNotNull().cast("long") - alike["before"].isNotNull().cast("long")


def _size(alike: Column) -> Column:
    return F.size(_topics(alike)).cast("long")


def _bytes(alike: Column) -> Column:
    names = F.transform(
        _topics(alike), lambda topic: F.octet_length(topic).cast("long") * 2 + TOPIC_BYTES
    )
    return _sum(names)


def _storms(unknown_per_minute: float) -> Column:
    window_ms = F.greatest(F.col("data.window_ms"), F.lit(SHORTEST_WINDOW_MS))
    often = F.filter(
        _or_none(F.col("data.queries")),
        lambda query: (
            query["topic"].isNotNull()
            & (query["unknown"].cast("double") * 60_000 / window_ms > unknown_per_minute)
        ),
    )
    return F.transform(
        often, lambda query: F.array(query["topic"], query["unknown"].cast("string"))
    )
