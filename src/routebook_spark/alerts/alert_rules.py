"""Alert rules: goes through the facts of one bucket in order, and tells what is wrong.

Of one node the order is that of its records. Between nodes it is that of their clocks, as far as
records have come: one that comes late is late for its own node only, because nothing is held
against a node from after its last record.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import merge

from routebook.history.finding.witness import WINDOWS_APART_MS
from routebook_spark.alerts import (
    brokers,
    divergence,
    flapping,
    folders,
    heartbeats,
    mass_loss,
    nodes,
    size,
    skew,
    unknown_topics,
    waking,
)
from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import Alert

FORGET_MS = 24 * 3_600_000
"""Of brokers and nodes that are gone; so long they are known, should they come back."""

_SET_BACK_MS = 10_000
"""A clock that goes back further than that was set."""

_ABOUT_BROKERS = frozenset(
    {
        "BrokerRegistered",
        "BrokerLeft",
        "BrokerUpdated",
        "BrokerConfirmed",
        "TopicsChanged",
        "RegistrationCompleted",
        "GroupRestated",
        "HeartbeatGaps",
    }
)


def look_at(bucket: BucketState, facts: Iterable[Fact]) -> list[Alert]:
    """Go on by the facts of one trigger."""
    records: list[Fact] = []
    notes: list[Fact] = []
    for fact in facts:
        (notes if fact.type in folders.NOTES else records).append(fact)
    for fact in _in_order(bucket, records):
        _take(bucket, fact)
    for fact in sorted(notes, key=lambda note: note.at_ms):
        folders.take(bucket, fact)
    for node in bucket.nodes.values():
        heartbeats.look(bucket, node)
        mass_loss.look(bucket, node, now_ms=node.clock_ms)
    flapping.look(bucket)
    divergence.look(bucket)
    return bucket.ledger.take()


def forget(bucket: BucketState, *, now_ms: int) -> list[Alert]:
    """Drop what has been gone for long; alerts about it are over."""
    past_ms = now_ms - FORGET_MS
    for node in [node for node in bucket.nodes.values() if node.clock_ms < past_ms]:
        _drop(bucket, node, now_ms=now_ms)
    for member in bucket.each_member():
        if not member.listed and max(member.left_ms, member.heard_ms) < past_ms:
            bucket.drop_member(member)
    for claim in bucket.each_claim():
        if not claim.present and claim.said_ms < past_ms:
            bucket.drop_claim(claim)
    return bucket.ledger.take()


def _drop(bucket: BucketState, node: Node, *, now_ms: int) -> None:
    for claim in bucket.each_claim(node.name):
        bucket.drop_claim(claim)
    for member in bucket.each_member(node.name):
        bucket.drop_member(member)
    for dispute in bucket.each_dispute():
        if node.name in (dispute.node_a, dispute.node_b):
            bucket.drop_dispute(dispute)
    for hold in list(bucket.ledger.holds()):
        if node.name == hold.node or node.name in hold.ground.split(" "):
            bucket.ledger.release(
                hold.subject,
                hold.ground,
                at_ms=now_ms,
                sentence=f"Nothing has come from {node.name} for a day; it is no longer watched.",
            )
    del bucket.nodes[node.name]


def _in_order(bucket: BucketState, facts: Iterable[Fact]) -> Iterator[Fact]:
    by_life: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        by_life.setdefault((fact.node, fact.incarnation), []).append(fact)
    timed = []
    for (name, life), told in by_life.items():
        node = bucket.nodes.get(name)
        timed.append(list(_timed(told, node.clock_ms if node and node.life == life else None)))
    return merge(*timed, key=lambda fact: (fact.at_ms, fact.node))


def _timed(facts: list[Fact], clock_ms: int | None) -> Iterator[Fact]:
    """By number, with times that go back only where the clock was set."""
    for fact in waking.stalls_first(sorted(facts, key=lambda fact: fact.seq)):
        if clock_ms is not None and clock_ms - _SET_BACK_MS <= fact.at_ms < clock_ms:
            yield replace(fact, at_ms=clock_ms)
        else:
            clock_ms = fact.at_ms
            yield fact


def _take(bucket: BucketState, fact: Fact) -> None:
    node = bucket.nodes.get(fact.node)
    if node is None:
        node = bucket.nodes[fact.node] = Node(
            fact.node, fact.seq - 1, fact.at_ms, life=fact.incarnation, life_ms=fact.at_ms
        )
    if not nodes.in_this_life(bucket, node, fact):
        return
    if fact.seq <= node.seq:
        nodes.repeated(bucket, node, fact)
        return
    went_back = fact.at_ms < node.clock_ms
    if went_back:
        brokers.set_back(bucket, node, at_ms=fact.at_ms)
    nodes.take(bucket, node, fact)
    if went_back:
        heartbeats.set_back(bucket, node, at_ms=fact.at_ms)
    node.clock_ms = fact.at_ms
    if fact.content is not None:
        divergence.look(bucket)  # by what was known of the clocks so far
    skew.take(node, fact)
    if fact.window_ms is not None:
        _count_window(bucket, node, fact)
    believed = waking.believed(node, fact.cause, at_ms=fact.at_ms)
    if fact.home:
        mass_loss.take(bucket, node, fact, believed=believed)
    if fact.type == "RouteQueries":
        unknown_topics.take(bucket, node, fact)
    if fact.broker is not None and fact.type in _ABOUT_BROKERS:
        _take_broker(bucket, node, fact, believed=believed)


def _count_window(bucket: BucketState, node: Node, fact: Fact) -> None:
    """Records of one window come together; the first of them ends what came before."""
    window_ms = fact.window_ms or node.window_ms
    if fact.at_ms - node.window_at_ms > window_ms / 2 or fact.at_ms < node.window_at_ms:
        heartbeats.look(bucket, node)
        unknown_topics.look(bucket, node)
        node.window_at_ms, node.window_ms = fact.at_ms, window_ms
        if abs(fact.at_ms - node.awake_ms) >= WINDOWS_APART_MS:
            node.measure(window_ms)
        node.beats, node.beats_before = 0, node.beats
        node.unknown = 0
    node.beats += fact.type == "HeartbeatGaps"


def _look_back(bucket: BucketState, node: Node, fact: Fact) -> None:
    """See how things stood up to now, before they change."""
    assert fact.cluster is not None
    assert fact.broker is not None
    group = (fact.cluster, fact.broker)
    divergence.due(bucket, group)
    member = bucket.members.get(group, {}).get((fact.broker_id or 0, node.name))
    if member is not None and fact.type != "HeartbeatGaps":
        heartbeats.look_for(bucket, node, member)


def _take_broker(bucket: BucketState, node: Node, fact: Fact, *, believed: bool) -> None:
    assert fact.cluster is not None
    assert fact.broker is not None
    group = (fact.cluster, fact.broker)
    _look_back(bucket, node, fact)
    claim = bucket.claims.get(group, {}).get(node.name)
    known = claim is not None and claim.present
    for member in brokers.take(bucket, node, fact):
        if believed:
            flapping.come_or_gone(bucket, member, fact.cause, at_ms=fact.at_ms)
        else:
            member.left_ms = 0  # nor is it held against it when it comes back
        if not member.listed:
            heartbeats.left(bucket, member, at_ms=fact.at_ms)
    if fact.type == "HeartbeatGaps":
        member = bucket.members[group][fact.broker_id or 0, node.name]
        heartbeats.heard(bucket, node, member, gap_ms=fact.gap_ms, at_ms=fact.at_ms)
        if known:
            return
    if fact.type == "BrokerLeft" and fact.cause == brokers.REPLACED:
        return
    size.look(bucket, group, node.name, at_ms=fact.at_ms)
    divergence.compare(bucket, group, at_ms=fact.at_ms)
