"""Sequences worth trying: a small world in which names, ids and addresses collide.

Most registrations are those of a roster of well-behaved brokers, some are repeats of earlier
ones with one thing changed, and some take each part of their identity from anywhere.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from differential.steps import (
    Asked,
    Close,
    Crc,
    DeleteKv,
    DeleteTopic,
    Form,
    GetClusterInfo,
    GetKv,
    GetMembers,
    GetRoute,
    GetTopics,
    GetTopicsOfCluster,
    Heartbeat,
    Listing,
    ListKv,
    Mapping,
    Profile,
    PutKv,
    QueryVersion,
    Queues,
    Register,
    RegisterTopic,
    Sequence,
    SetWritable,
    Spelling,
    Stamp,
    Step,
    Unknown,
    Unregister,
    Via,
)

Drawn = TypeVar("Drawn")

CLUSTERS = ("@A", "@B")
NAMES = ("@b0", "@b1", "@b2")
ADDRS = tuple(f"10.0.0.{number}:10911" for number in range(1, 6))
PLAIN_TOPICS = ("@t0", "@t1", "@t2", "@t3")
ODD_TOPICS = ("rmq_sys_SYNC_BROKER_MEMBER_@b0", '@\u00fc"\\/\u2028\x7f')
TOPICS = PLAIN_TOPICS + ODD_TOPICS
CONNECTIONS = 5
ZONES = ("z1", "Z1", "zon\u00e9")
# Namespaces cannot be removed, so sequences share a few; NEW_NAMESPACE is made rarely.
NAMESPACES = ("space-0", "space-1", "ORDER_TOPIC_CONFIG")
NEW_NAMESPACE = "@n0"
MAX_STEPS = 30
_TIME = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Broker:
    cluster: str
    name: str
    broker_id: int
    addr: str
    connection: int


ROSTER = (
    Broker("@A", "@b0", 0, ADDRS[0], 0),
    Broker("@A", "@b0", 1, ADDRS[1], 1),
    Broker("@A", "@b0", 2, ADDRS[4], 4),
    Broker("@A", "@b1", 0, ADDRS[2], 2),
    Broker("@A", "@b1", 1, ADDRS[3], 3),
    Broker("@B", "@b2", 0, ADDRS[3], 2),
    Broker("@B", "@b2", 3, ADDRS[4], 4),
)


def weighted(*choices: tuple[int, SearchStrategy[Drawn]]) -> SearchStrategy[Drawn]:
    """One of several strategies, each as often as its weight says."""
    spread = [strategy for weight, strategy in choices for _ in range(weight)]
    return st.sampled_from(range(len(spread))).flatmap(lambda index: spread[index])


def often(usual: Drawn, others: Items[Drawn], *, weight: int = 1) -> SearchStrategy[Drawn]:
    """``usual``, and one of ``others`` now and then; the higher the weight, the more rarely."""
    return st.sampled_from([usual] * (len(others) * weight) + list(others))


connections = st.integers(0, CONNECTIONS - 1)
query_versions = st.sampled_from([513, 399, 401, 317])
queue_shapes = often(
    Queues(),
    [Queues(4, 4), Queues(8, 16, 4), Queues(perm=2), Queues(perm=7), Queues(sys_flag=1),
     Queues(sys_flag=2), Queues(sys_flag=3, perm=1)],
)  # fmt: skip
stamps = often(
    Stamp(1, 0, _TIME),
    [Stamp(2, 0, _TIME), Stamp(1, 0, _TIME + 1), Stamp(1, 1, _TIME), Stamp(1, 2, _TIME),
     Stamp(2, 1, _TIME), Stamp(0, 0, 0)],
)  # fmt: skip
topic_tables = st.one_of(
    st.just((("@t0", Queues()), ("@t1", Queues()))),
    st.lists(
        st.tuples(often("@t2", TOPICS), queue_shapes), max_size=4, unique_by=lambda item: item[0]
    ).map(tuple),
)


@st.composite
def vias(draw: st.DrawFn, *, may_be_oneway: bool = False) -> Via:
    return Via(
        connection=draw(connections),
        version=draw(query_versions),
        binary=draw(often(False, [True], weight=3)),
        oneway=may_be_oneway and draw(often(False, [True], weight=6)),
        signed=draw(often(False, [True], weight=9)),
    )


@st.composite
def brokers(draw: st.DrawFn) -> Broker:
    listed = draw(st.sampled_from(ROSTER))
    if draw(often(True, [False], weight=3)):
        return listed
    return Broker(
        draw(st.sampled_from([listed.cluster, *CLUSTERS])),
        draw(st.sampled_from([listed.name, *NAMES])),
        draw(st.sampled_from([listed.broker_id, 0, 1, 2])),
        draw(st.sampled_from([listed.addr, *ADDRS])),
        draw(connections),
    )


mappings = st.builds(
    Mapping,
    topic=st.sampled_from(["@t0", "@t1", "@t2"]),
    broker=st.sampled_from(NAMES),
    queues=st.sampled_from([(), ((0, 0),), ((0, 0), (2, 1)), ((1, 10), (10, 2))]),
    epoch=often(1_700_000_000_123, [2**53 + 1]),
    total=st.just(4),
)
mapping_lists = st.lists(mappings, max_size=2, unique_by=lambda info: info.topic).map(tuple)
FORM_VERSIONS: dict[Form, tuple[int, ...]] = {
    Form.JSON: (513, 413, 399, 37, 700),
    Form.OLD: (36, 0),
    Form.COMPRESSED: (513, 413, 412, 399),
    Form.UNLABELLED: (513, 413, 399),
    Form.CUT: (513, 413, 412),
    Form.NOTHING: (513, 399, 36),
    Form.NULL_TABLE: (513,),
}
ANY_VERSION = (-1, 0, 36, 37, 399, 413, 513)
forms = weighted(
    (14, st.just(Form.JSON)),
    (4, st.just(Form.COMPRESSED)),
    (2, st.just(Form.OLD)),
    (1, st.sampled_from([Form.UNLABELLED, Form.CUT, Form.NOTHING, Form.NULL_TABLE])),
)


heartbeat_timeouts: SearchStrategy[int | str | None] = st.sampled_from(
    [None] * 15 + [600_000] * 5 + ["soon"]
)


@st.composite
def registrations(draw: st.DrawFn) -> Register:
    broker = draw(brokers())
    form = draw(forms)
    spelling = Spelling.STRICT
    topics = draw(topic_tables)
    if form in (Form.JSON, Form.OLD) and all(topic in PLAIN_TOPICS for topic, _ in topics):
        spelling = draw(often(Spelling.STRICT, list(Spelling), weight=6))
    has_null = form in (Form.JSON, Form.OLD)
    odd_stamps = [None, Stamp(1, 0, None)] if has_null else [Stamp(2, 1, None)]
    return Register(
        via=Via(
            connection=draw(often(broker.connection, range(CONNECTIONS))),
            version=draw(often(draw(st.sampled_from(FORM_VERSIONS[form])), ANY_VERSION, weight=8)),
            binary=draw(often(False, [True], weight=3)),
            oneway=draw(often(False, [True], weight=15)),
            signed=draw(often(False, [True], weight=9)),
        ),
        cluster=draw(often(broker.cluster, [None], weight=40)),
        name=broker.name,
        broker_id=draw(often(broker.broker_id, [None, -1], weight=20)),
        addr=broker.addr,
        topics=topics,
        stamp=draw(weighted((9, stamps), (1, st.sampled_from(odd_stamps)))),
        ha=draw(often(broker.addr + "2", [None], weight=9)),
        acting_master=draw(st.sampled_from([None, False, True])),
        zone=draw(often(None, ZONES, weight=2)),
        heartbeat_ms=draw(heartbeat_timeouts),
        mappings=draw(weighted((6, st.just(())), (1, mapping_lists))),
        filters=draw(often((), [None, ("10.0.0.1:30", "10.0.0.1:31"), ("f/1",)], weight=3)),
        form=form,
        spelling=spelling,
        crc=draw(often(Crc.ABSENT, [Crc.RIGHT, Crc.RIGHT, Crc.RIGHT, Crc.WRONG])),
    )


@dataclass(frozen=True, slots=True)
class Again:
    """An earlier registration once more, with nothing or one thing changed."""

    which: int
    connection: int | None = None
    stamp: Stamp | None = None
    topics: tuple[tuple[str, Queues], ...] | None = None
    broker_id: int | None = None
    addr: str | None = None

    def of(self, earlier: Register) -> Register:
        via = earlier.via
        if self.connection is not None:
            via = replace(via, connection=self.connection)
        return replace(
            earlier,
            via=replace(via, oneway=False),
            stamp=self.stamp or earlier.stamp,
            topics=earlier.topics if self.topics is None else self.topics,
            broker_id=earlier.broker_id if self.broker_id is None else self.broker_id,
            addr=self.addr or earlier.addr,
        )


@dataclass(frozen=True, slots=True)
class Later:
    """A step about the broker of an earlier registration, ``along`` its connection or not."""

    which: int
    step: Step
    along: bool

    def of(self, earlier: Register) -> Step:
        connection = earlier.via.connection
        match self.step:
            case Close():
                return Close(connection)
            case Unregister() | Heartbeat() | QueryVersion() as step:
                via = replace(step.via, connection=connection) if self.along else step.via
                cluster = earlier.cluster or step.cluster
                return replace(step, via=via, cluster=cluster, name=earlier.name, addr=earlier.addr)
            case SetWritable() as step:
                return replace(step, name=earlier.name)
            case step:
                return step


repeats = st.one_of(
    st.builds(Again, st.integers(0, 9)),
    st.builds(Again, st.integers(0, 9), connection=connections),
    st.builds(Again, st.integers(0, 9), stamp=stamps),
    st.builds(
        Again,
        st.integers(0, 9),
        topics=st.lists(
            st.tuples(st.sampled_from(PLAIN_TOPICS), queue_shapes),
            max_size=3,
            unique_by=lambda item: item[0],
        ).map(tuple),
    ),
    st.builds(Again, st.integers(0, 9), broker_id=st.integers(0, 2), stamp=stamps),
    st.builds(Again, st.integers(0, 9), addr=st.sampled_from(ADDRS), stamp=stamps),
)


@st.composite
def unregistrations(draw: st.DrawFn) -> Unregister:
    broker = draw(brokers())
    via = draw(vias(may_be_oneway=True))
    if draw(st.booleans()):
        via = replace(via, connection=broker.connection)
    return Unregister(
        via,
        cluster=draw(often(broker.cluster, [None], weight=20)),
        name=draw(often(broker.name, [None], weight=20)),
        broker_id=draw(often(broker.broker_id, [None, -1], weight=10)),
        addr=draw(often(broker.addr, [None], weight=20)),
    )


@st.composite
def heartbeats(draw: st.DrawFn) -> Asked:
    broker = draw(brokers())
    via = draw(vias(may_be_oneway=True))
    if draw(st.booleans()):
        via = replace(via, connection=broker.connection)
    cluster = draw(often(broker.cluster, [None], weight=20))
    addr = draw(often(broker.addr, [None], weight=20))
    if draw(st.booleans()):
        return Heartbeat(via, cluster, broker.name, addr)
    stamp = draw(st.one_of(stamps, st.sampled_from([None, Stamp(1, 0, None)])))
    return QueryVersion(via, cluster, broker.name, broker.broker_id, addr, stamp)


kv_spaces = often("ORDER_TOPIC_CONFIG", [*NAMESPACES, *NAMESPACES, NEW_NAMESPACE])
kv_keys = often("@t0", ["@t1", '@k"\u2028/\u00fc'])
kv_values = st.sampled_from(["@b0:4;@b1:4", "", 'v"\\/\x7f\u2028\u00e9\U0001f600\t\x01', "x"])


def _maybe_missing(strategy: SearchStrategy[str]) -> SearchStrategy[str | None]:
    return weighted((15, strategy), (1, st.none()))


spaces, keys = _maybe_missing(kv_spaces), _maybe_missing(kv_keys)
key_values: SearchStrategy[Asked] = st.one_of(
    st.builds(PutKv, vias(), spaces, keys, _maybe_missing(kv_values)),
    st.builds(GetKv, vias(), spaces, keys),
    st.builds(DeleteKv, vias(), spaces, keys),
    st.builds(ListKv, vias(), spaces),
)

names = _maybe_missing(st.sampled_from(NAMES))
topics = _maybe_missing(st.sampled_from(TOPICS))
clusters = _maybe_missing(st.sampled_from(CLUSTERS))
administration: SearchStrategy[Asked] = st.one_of(
    st.builds(SetWritable, vias(), names, st.booleans()),
    st.builds(DeleteTopic, vias(), topics, st.sampled_from([None, *CLUSTERS])),
    st.builds(
        RegisterTopic,
        vias(),
        topics,
        weighted(
            (
                6,
                st.lists(
                    st.tuples(st.sampled_from(NAMES), queue_shapes), min_size=1, max_size=3
                ).map(tuple),
            ),
            (1, st.sampled_from([None, ()])),
        ),
    ),
)
routes: SearchStrategy[Asked] = st.builds(
    GetRoute,
    vias(may_be_oneway=True),
    st.one_of(topics, topics, st.sampled_from(["", "@unheard-of"])),
    standard_only=st.sampled_from([None, None, True, False]),
    zone_mode=st.sampled_from([None, None, "true", "TRUE", "false"]),
    zone=st.sampled_from([None, *ZONES, *ZONES, "z9", "  ", " z1 "]),
)
queries: SearchStrategy[Asked] = st.one_of(
    st.builds(GetClusterInfo, vias()),
    st.builds(GetTopics, vias(), st.sampled_from(Listing)),
    st.builds(GetTopicsOfCluster, vias(), _maybe_missing(st.sampled_from([*CLUSTERS, "@C"]))),
    st.builds(GetMembers, vias(), clusters, _maybe_missing(st.sampled_from([*NAMES, "@b9"]))),
    st.builds(Unknown, vias(may_be_oneway=True), st.sampled_from([0, 7, 999, 30_000])),
)
about_earlier = st.builds(
    Later,
    st.integers(0, 9),
    st.one_of(
        unregistrations(),
        heartbeats(),
        st.builds(SetWritable, vias(), st.just("@b0"), st.booleans()),
        st.just(Close(0)),
    ),
    st.booleans(),
)
steps: SearchStrategy[Step | Again | Later] = weighted(
    (12, registrations()),
    (7, repeats),
    (7, about_earlier),
    (2, unregistrations()),
    (1, heartbeats()),
    (2, st.builds(Close, connections)),
    (3, key_values),
    (4, administration),
    (3, routes),
    (2, queries),
)
profiles = weighted(
    (3, st.just(Profile())),
    (2, st.just(Profile(support_acting_master=True))),
    (1, st.just(Profile(delete_topic_with_broker_registration=True))),
    (
        1,
        st.sampled_from(
            [
                Profile(support_acting_master=True, order_message_enable=True),
                Profile(return_order_topic_config_to_broker=False, order_message_enable=True),
                Profile(enable_topic_list=False),
                Profile(enable_all_topic_list=False),
            ]
        ),
    ),
)


def _made(drawn: list[Step | Again | Later]) -> tuple[Step, ...]:
    made: list[Step] = []
    earlier: list[Register] = []
    for step in drawn:
        if isinstance(step, Again | Later):
            if not earlier:
                continue
            step = step.of(earlier[-1 - step.which % len(earlier)])
        if isinstance(step, Register):
            earlier.append(step)
        made.append(step)
    return tuple(made)


def sequences() -> SearchStrategy[Sequence]:
    drawn = st.lists(steps, min_size=MAX_STEPS // 3, max_size=MAX_STEPS)
    return st.builds(Sequence, drawn.map(_made), profiles)
