"""Shapes: the types of what the API answers about the present. docs/http.md explains each."""

from typing import Any

from msgspec import Struct


class BrokerCounts(Struct, frozen=True):
    """Members by their state."""

    confirmed: int
    unconfirmed: int
    held: int


class Reason(Struct, frozen=True):
    severity: str
    text: str
    see: str


class EventTold(Struct, frozen=True):
    node: str
    seq: int
    at: str
    type: str
    kind: str
    cause: str
    alarming: bool
    peer: str | None
    cluster: str | None
    broker: str | None
    broker_id: int | None
    address: str | None
    addresses: dict[str, str] | None
    topics: list[str]
    topics_in_all: int | None
    text: str


class NodeCount(Struct, frozen=True):
    up: int
    known: int


class Now(Struct, frozen=True):
    state: str
    text: str
    since: str
    reasons: list[Reason]
    nodes: NodeCount
    groups: int | None
    brokers: BrokerCounts | None
    topics: int | None
    incidents: list[EventTold]
    age_ms: int | None


class GroupInRoute(Struct, frozen=True):
    cluster: str | None
    broker: str
    addresses: dict[str, str]
    master: str | None
    acting_master: bool
    zone: str | None


class Queues(Struct, frozen=True):
    broker: str
    read: int
    write: int
    perm: int
    permission: str
    sys_flag: int


class Mapping(Struct, frozen=True):
    scope: str | None
    total_queues: int
    epoch: int
    queues: dict[str, int]


class RouteParts(Struct, frozen=True):
    """What a route says."""

    brokers: list[GroupInRoute]
    queues: list[Queues]
    order_conf: str | None
    mappings: dict[str, Mapping]
    filter_servers: dict[str, list[str]]


class Route(Struct, frozen=True):
    topic: str
    node: str | None
    address: str
    age_ms: int
    etag: str | None
    revision: int | None
    brokers: list[GroupInRoute]
    queues: list[Queues]
    order_conf: str | None
    mappings: dict[str, Mapping]
    filter_servers: dict[str, list[str]]


class RouteAtNode(Struct, frozen=True):
    node: str | None
    address: str
    age_ms: int | None
    etag: str | None
    route: RouteParts | None
    why: str | None
    error: str | None


class RoutesOfNodes(Struct, frozen=True):
    topic: str
    agree: bool | None
    nodes: list[RouteAtNode]


class TopicName(Struct, frozen=True):
    topic: str
    system: bool


class TopicList(Struct, frozen=True):
    node: str | None
    address: str
    age_ms: int
    total: int
    next: str | None
    topics: list[TopicName]


class Member(Struct, frozen=True):
    id: int
    role: str
    address: str
    ha_address: str | None
    state: str
    heard_ms: int | None
    timeout_ms: int
    generation: int
    epoch: int
    peer: str


class Group(Struct, frozen=True):
    cluster: str
    broker: str
    zone: str | None
    acting_master: bool
    topics: int
    digest: str | None
    state: str
    members: list[Member]


class BrokerList(Struct, frozen=True):
    node: str
    address: str
    age_ms: int
    revision: int
    total: int
    next: str | None
    brokers: list[Group]


class GroupsAtNode(Struct, frozen=True):
    node: str | None
    address: str
    age_ms: int | None
    error: str | None
    groups: list[Group]


class Broker(Struct, frozen=True):
    broker: str
    agree: bool | None
    nodes: list[GroupsAtNode]


class Cluster(Struct, frozen=True):
    cluster: str
    groups: int
    masters: int
    slaves: int
    held: int
    unconfirmed: int
    without_master: list[str]


class ClusterList(Struct, frozen=True):
    node: str
    address: str
    age_ms: int
    total: int
    next: str | None
    clusters: list[Cluster]


class Pair(Struct, frozen=True):
    key: str
    value: str


class PairList(Struct, frozen=True):
    node: str | None
    address: str
    age_ms: int
    namespace: str
    total: int
    next: str | None
    pairs: list[Pair]


class Node(Struct, frozen=True):
    node: str | None
    address: str
    own: bool
    state: str
    since: str
    error: str | None
    age_ms: int | None
    ping_ms: float | None
    version: str | None
    boot: str | None
    revision: int | None
    uptime_ms: int | None
    clock_ahead_ms: int | None
    clock_uncertainty_ms: int | None
    ready: bool
    groups: int | None
    brokers: BrokerCounts | None
    topics: int | None
    silent: list[tuple[str, str, int, int]]


class GroupDigests(Struct, frozen=True):
    cluster: str
    broker: str
    agree: bool | None
    since: str | None
    digests: dict[str, str | None]


class Converged(Struct, frozen=True, rename={"from_": "from"}):
    cluster: str
    broker: str
    from_: str
    to: str
    lasted_ms: int


class NodeList(Struct, frozen=True):
    agree: bool | None
    text: str
    nodes: list[Node]
    total: int
    next: str | None
    groups: list[GroupDigests]
    converged: list[Converged]
    age_ms: int | None


class Looking(Struct, frozen=True):
    state: str
    since: str
    stage: str | None
    done: int
    total: int


class Difference(Struct, frozen=True):
    kind: str
    broker: str | None
    topics: list[str]
    topics_in_all: int
    says: dict[str, str]


class Differences(Struct, frozen=True):
    state: str
    age_ms: int
    at: str
    nodes: list[str]
    topics: int | None
    complete: bool
    differences: list[Difference]
    failures: dict[str, str]
    unanswered: dict[str, dict[str, str]]


class Finding(Struct, frozen=True):
    check: str
    severity: str
    subject: str
    evidence: list[str]
    remedy: str


class FindingCounts(Struct, frozen=True):
    error: int
    warning: int
    info: int


class Diagnosis(Struct, frozen=True):
    state: str
    age_ms: int
    at: str
    nodes: list[str]
    counts: FindingCounts
    findings: list[Finding]


class HeldBroker(Struct, frozen=True):
    cluster: str
    broker: str
    broker_id: int
    address: str
    silent_ms: int


class GuardOfNode(Struct, frozen=True):
    node: str | None
    address: str
    age_ms: int | None
    error: str | None
    holding: bool | None
    since: str | None
    until: str | None
    left_ms: int | None
    why: str | None
    held_in_all: int | None
    held: list[HeldBroker]


class Guards(Struct, frozen=True):
    holding: bool | None
    nodes: list[GuardOfNode]


class DrainedNode(Struct, frozen=True):
    node: str | None
    address: str
    topics: int | None
    changed: int | None
    kept: list[str]
    error: str | None
    text: str


class Drained(Struct, frozen=True):
    broker: str
    wanted: str
    done: bool
    nodes: list[DrainedNode]


class ReleasedNode(Struct, frozen=True):
    node: str | None
    address: str
    dropped: int | None
    error: str | None
    text: str


class Released(Struct, frozen=True):
    done: bool
    nodes: list[ReleasedNode]


class Error(Struct, frozen=True):
    error: str
    code: str


OpenApi = dict[str, Any]
