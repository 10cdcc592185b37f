"""Shapes: the types of what the API answers about the past. docs/history.md explains each."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from routebook.gateway.api.shapes import Mapping, Queues

FROM = {"from_": "from"}


class Origin(Struct, frozen=True):
    node: str
    source: str
    partial: str | None


class SpanOfSource(Struct, frozen=True, rename=FROM):
    node: str
    source: str
    partial: str | None
    from_: str
    to: str | None
    from_seq: int
    to_seq: int


class HistorySpan(Struct, frozen=True):
    sources: list[SpanOfSource]
    troubles: list[str]


class GroupThen(Struct, frozen=True):
    cluster: str
    broker: str
    addresses: dict[str, str]
    acting_master: bool | None
    zone: str | None
    unconfirmed: list[str]


class RouteThen(Struct, frozen=True):
    node: str
    told: str
    probably: str | None
    because: str | None
    believed: bool
    since: str | None
    since_seq: int | None
    why: str | None
    partial: bool
    brokers: list[GroupThen]
    queues: list[Queues]
    mappings: dict[str, Mapping]


class RouteHistory(Struct, frozen=True):
    topic: str
    at: str
    sources: list[Origin]
    nodes: list[RouteThen]
    troubles: list[str]


class AlikeQueues(Struct, frozen=True):
    what: str
    topics: int
    examples: list[str]


class BrokerChange(Struct, frozen=True):
    cluster: str
    broker: str
    change: str
    details: list[str]
    topics: int
    queues: list[AlikeQueues]


class ChangesOfNode(Struct, frozen=True):
    node: str
    known: bool
    doubts: list[str]
    partial: bool
    brokers: list[BrokerChange]
    topics_came: list[str]
    topics_went: list[str]


class Diff(Struct, frozen=True, rename=FROM):
    from_: str
    to: str
    sources: list[Origin]
    nodes: list[ChangesOfNode]
    troubles: list[str]


class PartOfVersion(Struct, frozen=True):
    broker: str
    read: int
    write: int
    perm: int
    permission: str
    sys_flag: int
    cluster: str
    addresses: dict[str, str]


class Version(Struct, frozen=True):
    valid_from: str
    valid_to: str | None
    seq: int
    told: str
    brokers: list[PartOfVersion]
    changes: list[str]
    cause: str | None
    peer: str | None
    because: str | None


class VersionsOfNode(Struct, frozen=True):
    node: str
    versions: list[Version]


class TopicHistory(Struct, frozen=True):
    topic: str
    sources: list[Origin]
    nodes: list[VersionsOfNode]
    troubles: list[str]


class DemandPoint(Struct, frozen=True):
    at: str
    window_ms: int
    known: int
    unknown: int
    not_ready: int


class DemandOfNode(Struct, frozen=True):
    node: str
    known: int
    unknown: int
    not_ready: int
    unlisted: int
    points: list[DemandPoint]


class Demand(Struct, frozen=True):
    topic: str
    sources: list[Origin]
    nodes: list[DemandOfNode]
    troubles: list[str]


class Heartbeats(Struct, frozen=True):
    count: int
    median_gap_ms: int | None
    longest_gap_ms: int | None
    near_misses: int


class Session(Struct, frozen=True, rename=FROM):
    from_: str
    to: str | None
    lasted_ms: int
    unseen_ms: int
    cluster: str
    broker_id: int
    address: str
    began: str
    peer: str | None
    cause: str | None
    ended: str | None
    connections: int
    timeout_ms: int
    heartbeats: Heartbeats


class Remark(Struct, frozen=True):
    at: str
    seq: int
    peer: str | None
    text: str


class Silence(Struct, frozen=True, rename=FROM):
    from_: str
    to: str
    reason: str
    records_lost: int
    text: str


class SessionsOfNode(Struct, frozen=True):
    node: str
    sessions: list[Session]
    conflicts: list[Remark]
    refusals: list[Remark]
    silences: list[Silence]


class BrokerHistory(Struct, frozen=True):
    broker: str
    sources: list[Origin]
    nodes: list[SessionsOfNode]
    troubles: list[str]


class SignsPoint(Struct, frozen=True):
    at: str
    window_ms: int
    gaps_ms: list[int]


class SignsOfMember(Struct, frozen=True):
    cluster: str
    broker_id: int
    address: str
    timeout_ms: int | None
    histogram: list[int]
    points: list[SignsPoint]


class SignsOfNode(Struct, frozen=True):
    node: str
    members: list[SignsOfMember]


class HeartbeatHistory(Struct, frozen=True):
    broker: str
    sources: list[Origin]
    histogram_ms: list[int]
    nodes: list[SignsOfNode]
    troubles: list[str]


class Line(Struct, frozen=True):
    at: str
    seq: int
    node: str
    text: str


class Explanation(Struct, frozen=True):
    name: str
    kind: str
    sources: list[Origin]
    partial: bool
    left_out: int
    lines: list[Line]
    troubles: list[str]


class Clock(Struct, frozen=True, rename=FROM):
    node: str
    from_: str
    to: str
    offset_ms: int | None
    uncertainty_ms: int | None
    samples: int
    agreeing: int
    assumed: bool
    asked: bool


class UnknownTime(Struct, frozen=True, rename=FROM):
    node: str
    from_: str
    to: str
    reason: str


class Divergence(Struct, frozen=True, rename=FROM):
    from_: str
    to: str | None
    lasted_ms: int
    ended: str
    topics: int
    examples: list[str]
    views: dict[str, dict[str, Any] | None]


class DivergencesOfBroker(Struct, frozen=True):
    cluster: str
    broker: str
    divergences: list[Divergence]


class Comparison(Struct, frozen=True, rename=FROM):
    nodes: list[str]
    sources: list[Origin]
    partial: bool
    from_: str
    to: str
    clocks: list[Clock]
    unknown: list[UnknownTime]
    compared_ms: int
    not_significant: int
    brokers: list[DivergencesOfBroker]
    troubles: list[str]


class TopicHeld(Struct, frozen=True):
    cluster: str
    topic: str
    queues: tuple[int, int, int, int]
    permission: str
    registered: tuple[int, int, int, int] | None


class TopicsHeld(Struct, frozen=True):
    broker: str
    at: str
    sources: list[Origin]
    node: str
    known: bool
    total: int
    next: str | None
    topics: list[TopicHeld]
    troubles: list[str]


class GroupAtMoment(Struct, frozen=True):
    cluster: str
    broker: str
    zone: str | None
    acting_master: bool
    members: dict[str, str]
    unconfirmed: list[int]
    topics: int


class WindowEvent(Struct, frozen=True):
    """``after`` is there for what changes a group, ``groups`` for what changes all of them."""

    ms: int
    seq: int
    type: str
    kind: str
    cause: str
    alarming: bool
    peer: str | None
    cluster: str | None
    broker: str | None
    topics_in_all: int | None
    text: str
    after: GroupAtMoment | UnsetType | None = UNSET
    groups: list[GroupAtMoment] | UnsetType = UNSET


class WindowSilence(Struct, frozen=True):
    from_ms: int
    to_ms: int
    reason: str
    text: str


class Window(Struct, frozen=True):
    node: str
    sources: list[Origin]
    from_ms: int
    to_ms: int
    from_seq: int
    to_seq: int
    known: bool
    complete: bool
    doubts: list[str]
    groups: list[GroupAtMoment] | None
    events: list[WindowEvent]
    silences: list[WindowSilence]
    troubles: list[str]
