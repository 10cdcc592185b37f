"""The columns of every table.

``at`` and ``*_at`` are instants, ``*_ms`` milliseconds, ``*_s`` seconds, ``day`` a day of UTC.
``fleet``, ``node`` and ``incarnation`` together are a witness: whose records a row is made of. None
of them is ever null. What each table means, with one row explained, is in docs/pipeline.
"""

from pyspark.sql.types import ArrayType, MapType

from routebook_spark.journal_schemas import (
    ADDRS,
    BOOLEAN,
    DATA,
    DATE,
    DOUBLE,
    INT,
    LINE,
    LONG,
    MANIFEST,
    QUERIES,
    SHAPE,
    STRING,
    STRINGS,
    TIMESTAMP,
    struct,
)

__all__ = [
    "ADDRS",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "INT",
    "LINE",
    "LONG",
    "MANIFEST",
    "SHAPE",
    "STRING",
    "STRINGS",
    "TIMESTAMP",
    "struct",
]

WITNESS = ("fleet", "node", "incarnation")
_WITNESS = dict.fromkeys(WITNESS, STRING)
DEFAULT_FLEET = "default"
"""The fleet of nodes of which nobody said one."""
FILLED = {"fleet": DEFAULT_FLEET, "incarnation": ""}
"""What columns hold that are never null, where nobody said anything."""

# -- bronze

PROMOTED = ("revision", "cause", "peer", "cluster", "broker", "broker_id", "addr", "generation")
_REST = {name: kind for name, kind in DATA.items() if name not in PROMOTED and name != "topics"}

# ``data`` has what is particular to the type. ``topic_count`` is ``topics`` where that is a number,
# ``queries`` where it is a list. ``raw`` is the whole line, for types this version does not know.
EVENTS = struct(
    day=DATE,
    **_WITNESS,
    seq=LONG,
    at=TIMESTAMP,
    wall_ms=LONG,
    type=STRING,
    mono_ms=LONG,
    **{name: DATA[name] for name in PROMOTED},
    data=struct(**_REST, topic_count=LONG, queries=QUERIES),
    raw=STRING,
    hash=STRING,
    segment=STRING,
)
SEGMENTS = struct(
    **_WITNESS,
    first_seq=LONG,
    last_seq=LONG,
    records=LONG,
    first_wall_ms=LONG,
    last_wall_ms=LONG,
    min_wall_ms=LONG,
    max_wall_ms=LONG,
    first_hash=STRING,
    last_hash=STRING,
    sha256=STRING,
    sealed_at_ms=LONG,
    path=STRING,
    packed_bytes=LONG,
    status=STRING,  # taken, copy, waiting, refused
    reason=STRING,
    quarantined=LONG,  # records of it that are in quarantine
    batch=LONG,  # counts up; stages remember how far they came
    at=TIMESTAMP,  # of the ingest
)
QUARANTINE = struct(
    **_WITNESS,
    seq=LONG,
    reason=STRING,
    raw=STRING,
    segment=STRING,
    path=STRING,  # of the file
    at=TIMESTAMP,  # of the ingest
)
GAPS = struct(
    **_WITNESS,
    after_seq=LONG,
    before_seq=LONG,
    missing=LONG,
    kind=STRING,  # missing, lost (RecordsLost), killed (JournalRecovered)
    from_at=TIMESTAMP,
    to_at=TIMESTAMP,
)
PROGRESS = struct(stage=STRING, batch=LONG, at=TIMESTAMP, version=LONG)

# -- silver

# What happened to a node itself, or to its journal; all later tables of silver go by it.
NODE_EVENTS = struct(
    **_WITNESS,
    seq=LONG,
    at=TIMESTAMP,
    type=STRING,  # of the event; FirstRecord for the first one we have
    brokers=LONG,  # NodeStarted: how many it began with
    groups=LONG,  # StateRestated: how many there were
    before_at=TIMESTAMP,  # NodeStarted, JournalRecovered: of the last record before it went down
    loss_at=TIMESTAMP,  # RecordsLost: since when
)
# Where a node that runs was no witness; see silver/breaks.py.
NODE_BREAKS = struct(
    **_WITNESS,
    seq=LONG,  # of the record that shows it
    at=TIMESTAMP,
    type=STRING,  # stalled, silent, clock; epoch, window
    before_at=TIMESTAMP,  # when it was last a witness
    again_at=TIMESTAMP,  # stalled: when it was again
    clock_ms=LONG,  # clock, epoch: how far the clock was set
    windows_ms=ArrayType(LONG),  # window: how long the latest ones are, the last one first
)
# The lives of broker groups: how long the tables of a node had one, as it was when it was made or
# last stated anew.
BROKER_GROUPS = struct(
    **_WITNESS,
    cluster=STRING,
    broker=STRING,
    from_seq=LONG,
    to_seq=LONG,
    from_at=TIMESTAMP,
    to_at=TIMESTAMP,
    end_cause=STRING,
    told_at=TIMESTAMP,  # of the record that told the end
    until_day=DATE,
)
NODE_COVERAGE = struct(
    **_WITNESS,
    from_seq=LONG,
    to_seq=LONG,  # null: goes on
    from_at=TIMESTAMP,
    to_at=TIMESTAMP,  # of the last record when it goes on: what is known
    # first_record, started_cold, started_warm, restated, woke, heard_again, clock_set
    begins=STRING,
    # stopped, killed, records_lost, records_missing, stalled, silent, clock; null: goes on
    ends=STRING,
    clock_epoch=LONG,  # the first record since its clock was last set; 0: it never was
    until_day=DATE,
)
BROKER_SESSIONS = struct(
    **_WITNESS,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    addr=STRING,
    from_seq=LONG,
    to_seq=LONG,
    began_at=TIMESTAMP,
    ended_at=TIMESTAMP,
    began=STRING,  # registered, restated, known (already there in the first record we have)
    cause=STRING,  # of the end; null: lasts
    peer=STRING,
    connections=LONG,
    restarts=LONG,  # of the node, survived unconfirmed
    unconfirmed_s=DOUBLE,
    heartbeat_timeout_ms=LONG,
    heartbeats=LONG,
    gap_p50_ms=LONG,
    gap_p99_ms=LONG,
    gap_max_ms=LONG,
    gap_counts=ArrayType(struct(gap_ms=LONG, count=LONG)),  # by gaps rounded to 100 ms
    topics=LONG,  # that its broker had in the end, or has; null: nobody knows of any
    seen_seq=LONG,  # the last record that was looked at for it
    until_day=DATE,
)
# When a session was listed but not to be relied on: recovered and not heard of since, or held by
# the guard. ``kind``: unconfirmed, held.
SUSPECT_TIMES = struct(
    **_WITNESS,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    addr=STRING,
    kind=STRING,
    from_seq=LONG,
    to_seq=LONG,
    from_at=TIMESTAMP,
    to_at=TIMESTAMP,
    silent_ms=LONG,  # held: how long it had been silent by then
    until_day=DATE,
)
ROUTE_VERSIONS = struct(
    **_WITNESS,
    cluster=STRING,
    broker=STRING,
    topic=STRING,
    read_queues=INT,
    write_queues=INT,
    perm=INT,
    flags=INT,
    registered=SHAPE,  # what the broker said, where that is something else
    from_seq=LONG,
    to_seq=LONG,
    valid_from=TIMESTAMP,
    valid_to=TIMESTAMP,
    cause=STRING,  # of the beginning
    end_cause=STRING,
    until_day=DATE,
)
# Registrations that nodes took; what two of them saw tells how far their clocks are apart.
CLOCK_SIGHTINGS = struct(
    **_WITNESS,
    seq=LONG,
    day=DATE,
    wall_ms=LONG,
    clock_epoch=LONG,
    cluster=STRING,
    broker=STRING,
    addr=STRING,
    data_version=ArrayType(LONG),
)
# The days on which a node wrote something, by its clock, and the epochs of that.
CLOCK_DAYS = struct(
    day=DATE,
    **_WITNESS,
    clock_epoch=LONG,
)
CLOCK_SKEW = struct(
    day=DATE,
    **_WITNESS,
    against=STRING,  # the node whose clock is the common one
    offset_ms=LONG,  # how far the clock of ``node`` is ahead of the common one; null: nobody knows
    uncertainty_ms=LONG,
    samples=LONG,
    assumed=BOOLEAN,  # too few samples to measure it, all of which say that clocks agree
)

# -- gold

BROKER_AVAILABILITY = struct(
    day=DATE,
    fleet=STRING,
    grain=STRING,  # hour, day
    from_at=TIMESTAMP,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    up_s=DOUBLE,
    suspect_s=DOUBLE,
    down_s=DOUBLE,
    planned_s=DOUBLE,
    unknown_s=DOUBLE,
    failures=LONG,
    repairs=LONG,
    mtbf_s=DOUBLE,
    mttr_s=DOUBLE,
    availability=DOUBLE,  # null when nothing is known
    budget_s=DOUBLE,
    budget_left_s=DOUBLE,
)
FLAPS = struct(
    day=DATE,
    fleet=STRING,
    window_at=TIMESTAMP,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    node=STRING,
    transitions=LONG,
    peak_penalty=DOUBLE,
    end_penalty=DOUBLE,
    suppressed_s=DOUBLE,
    culprit=STRING,  # broker, node, network, unknown; null: no transition in this hour
    causes=MapType(STRING, LONG),
)
DIVERGENCE = struct(
    day=DATE,
    fleet=STRING,
    cluster=STRING,
    broker=STRING,
    topic=STRING,  # null: about the broker itself
    node_a=STRING,
    node_b=STRING,
    from_at=TIMESTAMP,
    to_at=TIMESTAMP,  # null: open
    lasted_s=DOUBLE,
    ending=STRING,  # converged, both_changed, widened, unknown, open
    view_a=STRING,
    view_b=STRING,
    uncertainty_ms=LONG,
    until_day=DATE,
)
CONVERGENCE = struct(
    day=DATE,
    fleet=STRING,
    kind=STRING,  # broker_joined, broker_left, topic_changed
    cluster=STRING,
    broker=STRING,
    topic=STRING,
    what=STRING,
    first_at=TIMESTAMP,
    last_at=TIMESTAMP,
    first_node=STRING,
    last_node=STRING,
    nodes=LONG,
    nodes_knowing=LONG,
    lag_ms=LONG,
    uncertainty_ms=LONG,
    within_1s=BOOLEAN,
    within_30s=BOOLEAN,
)
STALE_EXPOSURE = struct(
    day=DATE,
    fleet=STRING,
    node=STRING,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    addr=STRING,
    last_alive_at=TIMESTAMP,
    removed_at=TIMESTAMP,
    exposed_until=TIMESTAMP,
    detection_s=DOUBLE,
    exposure_s=DOUBLE,
    expected_stale_s=DOUBLE,  # on the average over clients
    cause=STRING,
    topics=LONG,  # of its broker, that clients could use
    topics_lost=LONG,  # that no other broker had on that node
)
# A row for the first known hour of a day, and for each hour in which something changed: an hour
# without a row is as the one before it.
TOPIC_BALANCE = struct(
    day=DATE,
    fleet=STRING,
    hour_at=TIMESTAMP,
    cluster=STRING,
    topic=STRING,
    brokers=LONG,  # listed at the end of the hour; 0: the topic is gone
    writable_brokers=LONG,
    write_queues=LONG,
    read_queues=LONG,
    min_queues=LONG,  # of a writable broker
    max_queues=LONG,
    skew=DOUBLE,  # largest share of write queues divided by the mean share
    top_broker=STRING,
    single_broker=BOOLEAN,
    single_broker_s=DOUBLE,  # of the hour
)
# Hours in which a topic was asked for; and a row without an hour for each day on which nobody asked
# for a topic that exists.
TOPIC_DEMAND = struct(
    day=DATE,
    fleet=STRING,
    hour_at=TIMESTAMP,
    topic=STRING,
    known=LONG,
    unknown=LONG,
    not_ready=LONG,
    nodes=LONG,
    exists=BOOLEAN,
    system=BOOLEAN,  # made by RocketMQ itself, or by a consumer group
    last_asked_at=TIMESTAMP,
    unlisted=LONG,  # queries of the day for topics too many to list
    unasked_days=LONG,  # known days in a row
    zombie=BOOLEAN,
)
CAPACITY_FORECAST = struct(
    day=DATE,
    fleet=STRING,
    cluster=STRING,
    broker=STRING,
    topics=LONG,
    registration_bytes=LONG,
    history_days=LONG,
    topics_per_day=DOUBLE,
    bytes_per_day=DOUBLE,
    days_to_limit=DOUBLE,
    limit_on=DATE,
    limit_bytes=LONG,
)
HEARTBEAT_HEALTH = struct(
    day=DATE,
    fleet=STRING,
    hour_at=TIMESTAMP,
    node=STRING,
    cluster=STRING,
    broker=STRING,
    broker_id=LONG,
    addr=STRING,
    heartbeats=LONG,
    under_10s=LONG,
    under_35s=LONG,
    under_65s=LONG,
    under_timeout=LONG,
    over_timeout=LONG,
    gap_p50_ms=LONG,
    gap_p99_ms=LONG,
    gap_max_ms=LONG,
    heartbeat_timeout_ms=LONG,
    near_misses=LONG,
)
