"""Silver from bronze: each table replaced where new records can have changed it.

Every table is written in one commit, and can be worked out again from bronze and from the rows it
has: a build that was stopped half-way is simply done again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from routebook_spark import schemas, tables
from routebook_spark.bronze.gap_table import gaps_in, gaps_since, write_gaps
from routebook_spark.bronze.segments import were_taken
from routebook_spark.local_frame import held_by_driver, local_frame
from routebook_spark.schemas import WITNESS
from routebook_spark.silver import groups, suspects, versions
from routebook_spark.silver.breaks import node_breaks
from routebook_spark.silver.common_clock import Clock, Sample, common_clock
from routebook_spark.silver.coverage import node_coverage
from routebook_spark.silver.groups import GROUP, broker_groups
from routebook_spark.silver.members import MEMBER, member_sessions
from routebook_spark.silver.members import TYPES as MEMBER_TYPES
from routebook_spark.silver.new_records import NewRecords
from routebook_spark.silver.node_events import node_events, node_facts, node_turns, record_ends
from routebook_spark.silver.sessions import broker_sessions
from routebook_spark.silver.skew import clock_days, clock_samples, clock_sightings
from routebook_spark.silver.suspects import suspect_times
from routebook_spark.silver.versions import route_versions
from routebook_spark.tables import Lake, Table
from routebook_spark.witnesses import Witness, witness_of

NODE_GAPS = Table("node_gaps", schemas.GAPS)
NODE_EVENTS = Table("node_events", schemas.NODE_EVENTS)
NODE_BREAKS = Table("node_breaks", schemas.NODE_BREAKS)
BROKER_GROUPS = Table("broker_groups", schemas.BROKER_GROUPS, ("until_day",))
CLOCK_SIGHTINGS = Table("clock_sightings", schemas.CLOCK_SIGHTINGS)
CLOCK_DAYS = Table("clock_days", schemas.CLOCK_DAYS, ("day",))
INTERNAL = (NODE_GAPS, NODE_EVENTS, NODE_BREAKS, BROKER_GROUPS, CLOCK_SIGHTINGS, CLOCK_DAYS)
"""What the next build goes on from."""

HEARTBEATS = ("HeartbeatGaps",)


Stage = tuple[Table, Callable[[], None]]


def build_silver(lake: Lake, new: NewRecords) -> None:
    """Bring all tables up to the last record; ``new_since`` and ``all_as_new`` tell what is new."""
    for _, make in silver_stages(lake, new):
        make()


def silver_stages(lake: Lake, new: NewRecords) -> Iterator[Stage]:
    """Each table, and what brings it up to date once those before it are."""
    if not new.since:
        return
    events = lake.read(tables.EVENTS)
    yield NODE_GAPS, partial(_build_gaps, lake, new)
    ends = held_by_driver(record_ends(new.events(events)))
    yield NODE_EVENTS, partial(_build_node_events, lake, new, ends)
    nodes = _nodes(lake, new, ends)
    # What is said of brokers, asked for by three tables. Beside what is said of topics and of
    # heartbeats, which is not in it, it is little.
    told = _told(new.events(events)).persist()
    try:
        yield BROKER_GROUPS, partial(_build_groups, lake, new, nodes, told)
        yield tables.ROUTE_VERSIONS, partial(_build_versions, lake, new)
        yield from _session_stages(lake, new, nodes, told)
    finally:
        told.unpersist()
    yield NODE_BREAKS, partial(_build_breaks, lake, new)
    yield tables.NODE_COVERAGE, partial(_build_coverage, lake, new, nodes)
    yield CLOCK_SIGHTINGS, partial(_build_sightings, lake, new)
    yield CLOCK_DAYS, partial(_build_days, lake, new)
    yield tables.CLOCK_SKEW, partial(_build_skew, lake)


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What happened to the nodes, and what it means; a few rows.

    ``last`` is the last record of each witness.
    """

    turns: DataFrame
    facts: DataFrame
    last: DataFrame


def _build_gaps(lake: Lake, new: NewRecords) -> None:
    """They are a function of what was taken, whatever the table of bronze has come to."""
    earlier = () if new.whole else gaps_in(lake, NODE_GAPS)
    gaps, _ = gaps_since(lake, lake.read(tables.SEGMENTS), new.after_batch, earlier)
    write_gaps(lake, NODE_GAPS, gaps)


def _build_node_events(lake: Lake, new: NewRecords, ends: DataFrame) -> None:
    around = new.days(lake.read(tables.EVENTS)).where(new.touched())
    known = new.earlier(lake.read(NODE_EVENTS))
    own = node_events(new.records(around), ends=ends, around=around, known=known)
    lake.replace(NODE_EVENTS, own, where=new.where_records())


def _nodes(lake: Lake, new: NewRecords, ends: DataFrame) -> _Nodes:
    touched = new.touched()
    own, gaps = lake.read(NODE_EVENTS).where(touched), lake.read(NODE_GAPS).where(touched)
    turns = held_by_driver(node_turns(own, gaps))
    return _Nodes(turns, held_by_driver(node_facts(turns)), ends.select(*WITNESS, "last.*"))


def _build_breaks(lake: Lake, new: NewRecords) -> None:
    breaks = node_breaks(
        new.days(lake.read(tables.EVENTS)).where(new.touched()),
        F.col("seq") >= new.first_seq(),
        known=new.earlier(lake.read(NODE_BREAKS)),
        sessions=new.changed(lake.read(tables.BROKER_SESSIONS)),
    )
    lake.replace(NODE_BREAKS, breaks, where=new.where_records())


def _build_coverage(lake: Lake, new: NewRecords, nodes: _Nodes) -> None:
    breaks = lake.read(NODE_BREAKS).where(new.touched())
    coverage = new.changed(node_coverage(nodes.turns, breaks, nodes.last))
    lake.replace(tables.NODE_COVERAGE, coverage, where=new.where_intervals())


def _told(events: DataFrame) -> DataFrame:
    """Records about groups and members, without what they say of topics."""
    types = {*groups.TYPES, *MEMBER_TYPES, *suspects.TYPES}
    data = F.struct(*(F.col(f"data.{name}").alias(name) for name in _TOLD))
    return _of_types(events, tuple(sorted(types))).select(
        *MEMBER, "seq", "at", "type", "cause", "peer", data.alias("data")
    )


_TOLD = (
    "addrs_before",
    "addrs_after",
    "after",
    "continued",
    "heartbeat_timeout_ms",
    "members",
    "suspects",
    "topic_count",
)


def _build_groups(lake: Lake, new: NewRecords, nodes: _Nodes, told: DataFrame) -> None:
    members = new.crossed(lake.read(tables.BROKER_SESSIONS)).select(*GROUP).distinct()
    earlier = (
        new.crossed(lake.read(BROKER_GROUPS))
        .join(members.withColumn("has_members", F.lit(True)), list(GROUP), "left")
        .fillna(False, ["has_members"])
    )
    lives = broker_groups(told, nodes.facts, earlier=earlier)
    lake.replace(BROKER_GROUPS, lives, where=new.where_intervals())


def _build_versions(lake: Lake, new: NewRecords) -> None:
    told = _of_types(new.events(lake.read(tables.EVENTS)), versions.TYPES)
    earlier = new.crossed(lake.read(tables.ROUTE_VERSIONS))
    routes = route_versions(told, new.changed(lake.read(BROKER_GROUPS)), earlier=earlier)
    lake.replace(tables.ROUTE_VERSIONS, routes, where=new.where_intervals())


def _session_stages(lake: Lake, new: NewRecords, nodes: _Nodes, told: DataFrame) -> Iterator[Stage]:
    """The times in which sessions were suspect, and the sessions.

    What a session counts can be added to and not be taken back: where records that have been
    counted are new again, behind a hole that was filled, all of the node is counted anew.
    """
    events, sessions = lake.read(tables.EVENTS), lake.read(tables.BROKER_SESSIONS)
    recount = new.all_of(_counted_already(sessions, new))
    earlier = recount.crossed(sessions)
    # Both tables need them, and several times; they are few.
    members = member_sessions(
        told if recount is new else _told(recount.events(events)),
        recount.changed(lake.read(BROKER_GROUPS)),
        nodes.facts,
        earlier=earlier,
    ).persist()
    try:
        yield (
            tables.SUSPECT_TIMES,
            partial(_build_suspects, lake, new, nodes, told, members),
        )
        counted = broker_sessions(
            members,
            _of_types(recount.events(events), HEARTBEATS),
            lake.read(tables.SUSPECT_TIMES).where(new.touched()),
            nodes.last,
            recount.changed(lake.read(tables.ROUTE_VERSIONS)),
            earlier=earlier,
        )
        where = recount.where_intervals()
        yield (
            tables.BROKER_SESSIONS,
            lambda: lake.replace(tables.BROKER_SESSIONS, counted, where=where),
        )
    finally:
        members.unpersist()


def _counted_already(sessions: DataFrame, new: NewRecords) -> list[Witness]:
    """Witnesses of which sessions have counted records that are new."""
    if new.whole:
        return []
    seen = sessions.select(*WITNESS, F.col("seen_seq").alias("seq"))
    counted = new.records(seen).select(*WITNESS).distinct()
    return [witness_of(row) for row in counted.collect()]


def _build_suspects(
    lake: Lake, new: NewRecords, nodes: _Nodes, told: DataFrame, members: DataFrame
) -> None:
    def fresh(points: str) -> Column:
        return F.filter(points, lambda point: point["seq"] >= new.first_seq())

    doubts = suspect_times(
        told,
        _of_types(new.events(lake.read(tables.EVENTS)), HEARTBEATS),
        new.changed(members),
        nodes.facts.withColumns({name: fresh(name) for name in ("starts", "releases")}),
        earlier=new.crossed(lake.read(tables.SUSPECT_TIMES)),
    )
    lake.replace(tables.SUSPECT_TIMES, doubts, where=new.where_intervals())


def _build_sightings(lake: Lake, new: NewRecords) -> None:
    seen = clock_sightings(new.events(lake.read(tables.EVENTS)), lake.read(NODE_BREAKS))
    lake.replace(CLOCK_SIGHTINGS, seen, where=new.where_records())


def _build_days(lake: Lake, new: NewRecords) -> None:
    days = clock_days(new.days(lake.read(tables.EVENTS)), lake.read(NODE_BREAKS))
    lake.replace(CLOCK_DAYS, days, where=new.where_days())


def _build_skew(lake: Lake) -> None:
    """All of it: the rows are few, and one more thing that two nodes saw may change any of them."""
    spans = (
        were_taken(lake.read(tables.SEGMENTS))
        .groupBy(*WITNESS)
        .agg(F.min("min_wall_ms").alias("first_ms"), F.max("max_wall_ms").alias("last_ms"))
    )
    samples = clock_samples(lake.read(CLOCK_SIGHTINGS), lake.read(tables.NODE_COVERAGE), spans)
    lake.replace(tables.CLOCK_SKEW, _skew_frame(lake.read(CLOCK_DAYS), samples))


def _skew_frame(days: DataFrame, samples: DataFrame) -> DataFrame:
    rows = common_clock(
        ((row.day, Clock(*witness_of(row), row.clock_epoch)) for row in days.collect()),
        (
            Sample(
                Clock(*witness_of(row), row.clock_epoch),
                row.day,
                Clock(row.fleet, row.against, row.against_incarnation, row.against_epoch),
                row.against_day,
                row.offset_ms,
                row.seen_ms,
            )
            for row in samples.collect()
        ),
    )
    return local_frame(days.sparkSession, tables.CLOCK_SKEW.schema, [row._asdict() for row in rows])


def _of_types(events: DataFrame, types: tuple[str, ...]) -> DataFrame:
    return events.where(F.col("type").isin(*types))


# -- of a few events, without tables


@dataclass(frozen=True, slots=True)
class Silver:
    coverage: DataFrame
    sessions: DataFrame
    suspects: DataFrame
    versions: DataFrame
    skew: DataFrame


def silver_of(events: DataFrame, gaps: DataFrame) -> Silver:
    """What ``events`` tell when nothing is known before them, in frames that are ready to be read.

    For events that fit a notebook: what the frames share is held until they are gone.
    """
    none = partial(local_frame, events.sparkSession, rows=())
    ends = held_by_driver(record_ends(events))
    own = node_events(events, ends=ends, around=events, known=none(schemas.NODE_EVENTS))
    turns = held_by_driver(node_turns(own, gaps))
    facts, last = held_by_driver(node_facts(turns)), ends.select(*WITNESS, "last.*")
    told, heartbeats = _told(events), _of_types(events, HEARTBEATS)
    no_groups = none(schemas.BROKER_GROUPS)
    lives = broker_groups(
        told, facts, earlier=no_groups.withColumn("has_members", F.lit(False))
    ).localCheckpoint()
    no_sessions = none(schemas.BROKER_SESSIONS)
    members = member_sessions(told, lives, facts, earlier=no_sessions).localCheckpoint()
    no_suspects = none(schemas.SUSPECT_TIMES)
    doubts = suspect_times(told, heartbeats, members, facts, earlier=no_suspects).localCheckpoint()
    no_versions = none(schemas.ROUTE_VERSIONS)
    routes = route_versions(events, lives, earlier=no_versions)
    sessions = broker_sessions(
        members, heartbeats, doubts, last, routes, earlier=no_sessions
    ).localCheckpoint()
    breaks = node_breaks(
        events, F.lit(True), known=none(schemas.NODE_BREAKS), sessions=sessions
    ).localCheckpoint()
    coverage = node_coverage(turns, breaks, last).localCheckpoint()
    spans = events.groupBy(*WITNESS).agg(
        F.min("wall_ms").alias("first_ms"), F.max("wall_ms").alias("last_ms")
    )
    samples = clock_samples(clock_sightings(events, breaks), coverage, spans)
    return Silver(
        coverage=coverage,
        sessions=sessions,
        suspects=doubts,
        versions=routes,
        skew=_skew_frame(clock_days(events, breaks), samples),
    )
