"""Divergence: two nodes tell clients different things of a broker, and not for a moment.

Nodes are compared two by two, those that are sure. A dispute is an alert when both have written
records from after its limit: until then one of them may have changed its mind, in records that have
not come yet. Records of one node may come long before those of another: a dispute begins when both
said what they say, and begins anew when the one that is behind says something else. The limit
begins when both have had time to find out what they had slept through. A node that lists nobody,
and is too old to write all the same, is taken at its word.
"""

from itertools import combinations

from routebook.words import counted, listed, span, to_second
from routebook_spark.alerts.brokers import find_claim, said_since_ms
from routebook_spark.alerts.bucket_state import BucketState, Claim, Dispute, Group, Node
from routebook_spark.alerts.ledger import Kind, Subject
from routebook_spark.alerts.skew import allowance_ms


def compare(bucket: BucketState, group: Group, *, at_ms: int) -> None:
    """Begin and end disputes about a group, of which something has changed."""
    sure = sorted(node.name for node in bucket.nodes.values() if node.sure)
    known = bucket.disputes.get(group, {})
    found = {
        pair
        for pair in combinations(sure, 2)
        if _difference(*(find_claim(bucket, group, bucket.nodes[name]) for name in pair))
    }
    for pair, dispute in list(known.items()):
        if pair not in found:
            bucket.drop_dispute(dispute)
            bucket.ledger.release(
                _subject(group), " ".join(pair), at_ms=at_ms, sentence=_ending(bucket, dispute)
            )
    for pair in found:
        said_ms = max(said_since_ms(bucket, group, bucket.nodes[name]) for name in pair)
        if pair not in known:
            dispute = Dispute(*group, *pair, began_ms=max(at_ms, said_ms))
            bucket.disputes.setdefault(group, {})[pair] = dispute
        elif at_ms < said_ms:
            known[pair].began_ms = max(known[pair].began_ms, said_ms)


def compare_all(bucket: BucketState, *, at_ms: int) -> None:
    """What has changed concerns all groups: a node is sure of its tables, or no longer."""
    for group in {*bucket.claims, *bucket.disputes}:
        compare(bucket, group, at_ms=at_ms)


def due(bucket: BucketState, group: Group) -> None:
    """Raise what is older than the limit about a group."""
    limit_ms = round(bucket.limits.divergence_s * 1000)
    for pair, dispute in bucket.disputes.get(group, {}).items():
        nodes = [bucket.nodes[name] for name in pair]
        allowed_ms = allowance_ms(bucket, pair)
        began_ms = dispute.began_ms
        if allowed_ms:
            # Clocks apart make nodes that agree differ for that long after each change: only what
            # neither of them has changed since may be more.
            began_ms = max(began_ms, *(said_since_ms(bucket, group, node) for node in nodes))
        due_ms = max(began_ms, *(node.settled_ms for node in nodes)) + limit_ms + allowed_ms
        if all(_clock_ms(bucket, node) >= due_ms for node in nodes):
            _raise(bucket, group, dispute, began_ms=began_ms, at_ms=due_ms)


def look(bucket: BucketState) -> None:
    for group in list(bucket.disputes):
        due(bucket, group)


def _clock_ms(bucket: BucketState, node: Node) -> int:
    """When it was last known to say what it says.

    A node of a version without incarnations writes nothing when it lists nobody.
    """
    return bucket.now_ms if node.live == 0 and not node.life else node.clock_ms


def _difference(a: tuple[bool, Claim | None], b: tuple[bool, Claim | None]) -> str | None:
    """What two nodes disagree about; None also when one of them is not known to say anything."""
    (known_a, one), (known_b, other) = a, b
    if not known_a or not known_b or (one is None and other is None):
        return None
    if one is None or other is None:
        return "presence"
    if one.addrs is not None and other.addrs is not None and one.addrs != other.addrs:
        return "addresses"
    if not one.told or not other.told:
        return None
    return "topics" if (one.topics, one.digest) != (other.topics, other.digest) else None


def _raise(
    bucket: BucketState, group: Group, dispute: Dispute, *, began_ms: int, at_ms: int
) -> None:
    pair = (dispute.node_a, dispute.node_b)
    since_ms = max(began_ms, *(bucket.nodes[name].awake_ms for name in pair))
    claims = [find_claim(bucket, group, bucket.nodes[name]) for name in pair]
    # As they are now: they may agree by the time it is told.
    views = {
        node.name: _view(find_claim(bucket, group, node)[1])
        for node in bucket.nodes.values()
        if node.sure
    }
    cluster, broker = group

    def telling(nodes: list[str]) -> str:
        return (
            f"{listed(nodes)} have disagreed about {broker} (cluster {cluster}) since"
            f" {to_second(since_ms)}: {_told_apart(views, nodes)}. `routebook compare` shows"
            " what they say now; see whether the broker reaches them all."
        )

    bucket.ledger.hold(
        _subject(group),
        " ".join(pair),
        since_ms=since_ms,
        at_ms=at_ms,
        telling=telling,
        evidence={
            "about": _difference(*claims),
            **{f"view.{name}": views[name] for name in pair},
        },
    )


def _told_apart(views: dict[str, str], nodes: list[str]) -> str:
    """What each of them says, those that say the same together."""
    alike: dict[str, list[str]] = {}
    for name in nodes:
        if name in views:
            alike.setdefault(views[name], []).append(name)
    if len(alike) == 1:
        return "their topics have different queues"
    return ", ".join(f"{view} on {listed(names)}" for view, names in sorted(alike.items()))


def _view(claim: Claim | None) -> str:
    if claim is None:
        return "not listed"
    topics = f" with {counted(claim.topics, 'topic')}" if claim.told else ""
    return f"{claim.addrs or 'listed'}{topics}"


def _ending(bucket: BucketState, dispute: Dispute) -> str:
    about = f"{dispute.broker} (cluster {dispute.cluster})"
    unsure = [
        name
        for name in (dispute.node_a, dispute.node_b)
        if name not in bucket.nodes or not bucket.nodes[name].sure
    ]
    if unsure:
        return f"What {listed(unsure)} would say of {about} is not known now."
    lasted_ms = max(bucket.nodes[name].clock_ms for name in (dispute.node_a, dispute.node_b))
    return (
        f"{dispute.node_a} and {dispute.node_b} agree about {about} again, after"
        f" {span(lasted_ms - dispute.began_ms)}."
    )


def _subject(group: Group) -> Subject:
    return Subject(Kind.DIVERGENCE, cluster=group[0], broker=group[1])
