"""The members of a line of the journal, and of a manifest, as Spark reads them."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

STRING, LONG, INT, DOUBLE = StringType(), LongType(), IntegerType(), DoubleType()
BOOLEAN, TIMESTAMP, DATE = BooleanType(), TimestampType(), DateType()
STRINGS = ArrayType(STRING)
ADDRS = MapType(STRING, STRING)  # broker id -> address
SHAPE = ArrayType(INT)  # read queues, write queues, perm, flags


def struct(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


QUEUES = ArrayType(struct(before=SHAPE, after=SHAPE, registered=SHAPE, topics=STRINGS))
MAPPINGS = ArrayType(
    struct(
        topic=STRING,
        bname=STRING,
        total_queues=LONG,
        epoch=LONG,
        scope=STRING,
        dirty=BOOLEAN,
        curr_id_map=ArrayType(ArrayType(LONG)),
    )
)
MEMBERS = ArrayType(
    struct(
        broker_id=LONG,
        addr=STRING,
        ha_addr=STRING,
        heartbeat_timeout_ms=LONG,
        generation=LONG,
        epoch=LONG,
        data_version=ArrayType(LONG),
        filter_servers=STRINGS,
        confirmed=BOOLEAN,
    )
)
SUSPECTS = ArrayType(
    struct(cluster=STRING, broker=STRING, broker_id=LONG, addr=STRING, silent_ms=LONG)
)
NOISE = ArrayType(struct(peer=STRING, records=LONG))
QUERIES = ArrayType(struct(topic=STRING, known=LONG, unknown=LONG, not_ready=LONG))

# Members of ``data`` of all types of events together. Names that mean something else in different
# events are texts here: ``topics`` is a number in some and a list in others, ``before`` and
# ``after`` a text or an object.
DATA: dict[str, DataType] = {
    "revision": LONG,
    "cause": STRING,
    "peer": STRING,
    "cluster": STRING,
    "broker": STRING,
    "broker_id": LONG,
    "addr": STRING,
    "generation": LONG,
    "ha_addr": STRING,
    "heartbeat_timeout_ms": LONG,
    "acting_master": BOOLEAN,
    "zone": STRING,
    "epoch": LONG,
    "filter_servers": STRINGS,
    "addrs_before": ADDRS,
    "addrs_after": ADDRS,
    "topics_lost": LONG,
    "before": STRING,
    "after": STRING,
    "changes": QUEUES,
    "queues": QUEUES,
    "mappings": MAPPINGS,
    "members": MEMBERS,
    "continued": BOOLEAN,
    "topics": STRING,
    "data_version": ArrayType(LONG),
    "request": STRING,
    "subject": STRING,
    "reason": STRING,
    "answered_success": BOOLEAN,
    "kept": STRING,
    "other": STRING,
    "min_broker_id": LONG,
    "min_broker_addr": STRING,
    "offline_addr": STRING,
    "recipients": STRINGS,
    "namespace": STRING,
    "key": STRING,
    "version": STRING,
    "address": STRING,
    "brokers": LONG,
    "last_seq": LONG,
    "torn_bytes": LONG,
    "count": LONG,
    "since_ms": LONG,
    "groups": LONG,
    "kv": MapType(STRING, ADDRS),
    "after_ms": LONG,
    "window_ms": LONG,
    "gaps_ms": ArrayType(LONG),
    "others": LONG,
    "suspects": SUSPECTS,
    "silent": LONG,
    "live": LONG,
    "limit": LONG,
    "hold_ms": LONG,
    "returned": LONG,
    "left": LONG,
    "dropped": LONG,
    "fleet": STRING,
    "incarnation": STRING,
    "alive_ms": LONG,
    "from_ms": LONG,
    "to_ms": LONG,
    "longest_ms": LONG,
    "clock_ms": LONG,
    "flooded": LONG,
    "refused": LONG,
    "conflicts": LONG,
    "windows": LONG,
    "peers": NOISE,
}
LINE = struct(
    v=LONG,
    seq=LONG,
    node=STRING,
    wall_ms=LONG,
    mono_ms=LONG,
    type=STRING,
    data=struct(**DATA),
    hash=STRING,
    _corrupt=STRING,
)
MANIFEST = struct(
    v=LONG,
    node=STRING,
    first_seq=LONG,
    last_seq=LONG,
    records=LONG,
    first_wall_ms=LONG,
    last_wall_ms=LONG,
    min_wall_ms=LONG,
    max_wall_ms=LONG,
    bytes=LONG,
    packed_bytes=LONG,
    sha256=STRING,
    previous_sha256=STRING,
    first_hash=STRING,
    last_hash=STRING,
    sealed_at_ms=LONG,
    fleet=STRING,
    incarnation=STRING,
    _corrupt=STRING,
)
