"""Late heartbeats: a broker that will be dropped if this gets any worse.

Two signs: a gap between heartbeats of more than a share of the timeout, and silence. A node writes
down whom it heard of at the end of each window, so silence shows as windows without the broker; two
of them, and half of the timeout, is worth an alert.
"""

from routebook.words import listed, span, to_second
from routebook_spark.alerts.bucket_state import BucketState, Member, Node
from routebook_spark.alerts.ledger import Kind, Subject

_WINDOWS = 1.75
"""Two, less what their ends may be off."""


def heard(bucket: BucketState, node: Node, member: Member, *, gap_ms: int, at_ms: int) -> None:
    """A window of ``member`` has ended in which ``gap_ms`` was the longest gap.

    A pause of the node looks like one of all its brokers: it is taken off.
    """
    limit_ms = round(bucket.limits.late_share * member.timeout_ms)
    began_ms = at_ms - node.window_ms - gap_ms
    pause_ms = min(node.awake_ms, at_ms) - max(node.slept_ms, began_ms)
    if pause_ms > 0 and gap_ms > limit_ms:
        gap_ms -= pause_ms
        if gap_ms <= limit_ms:
            return
    if gap_ms <= limit_ms:
        bucket.ledger.release(
            _subject(member),
            member.node,
            at_ms=at_ms,
            sentence=f"{_name(member)} is in time again: its longest gap is {span(gap_ms)}.",
        )
        return

    def telling(nodes: list[str]) -> str:
        return (
            f"{_name(member)} was not heard of for {span(gap_ms)} on {listed(nodes)}; after"
            f" {span(member.timeout_ms)} it is dropped with its routes. Look for pauses of the"
            " broker (garbage collection, disk) and for losses on the way to it."
        )

    bucket.ledger.hold(
        _subject(member),
        member.node,
        since_ms=at_ms,
        at_ms=at_ms,
        telling=telling,
        evidence={
            "addr": member.addr,
            "sign": "gap",
            "gap_ms": gap_ms,
            "limit_ms": limit_ms,
            "timeout_ms": member.timeout_ms,
        },
    )


def left(bucket: BucketState, member: Member, *, at_ms: int) -> None:
    bucket.ledger.release(
        _subject(member),
        member.node,
        at_ms=at_ms,
        sentence=f"{_name(member)} is no longer listed by {member.node}.",
    )


def let_go(bucket: BucketState, node: Node, *, at_ms: int, sentence: str) -> None:
    """Nothing is known of those the node did not hear of."""
    for subject, hold in bucket.ledger.held(Kind.LATE_HEARTBEATS):
        if hold.ground == node.name:
            bucket.ledger.release(subject, hold.ground, at_ms=at_ms, sentence=sentence)


def set_back(bucket: BucketState, node: Node, *, at_ms: int) -> None:
    """The clock of ``node`` went back: nothing was heard, and no window ended, later than now."""
    node.window_at_ms = min(node.window_at_ms, at_ms)
    for member in bucket.each_member(node.name):
        member.heard_ms = min(member.heard_ms, at_ms)


def look(bucket: BucketState, node: Node) -> None:
    """Find members that ``node`` lists and did not hear of in its last windows."""
    for member in bucket.each_member(node.name):
        look_for(bucket, node, member)


def look_for(bucket: BucketState, node: Node, member: Member) -> None:
    silent_ms = node.window_at_ms - max(member.heard_ms, node.awake_ms)
    limit_ms = max(_WINDOWS * node.window_ms, member.timeout_ms / 2)
    if node.sure and member.listed and silent_ms >= limit_ms:
        _silent(bucket, member, silent_ms, at_ms=node.window_at_ms)


def _silent(bucket: BucketState, member: Member, silent_ms: int, *, at_ms: int) -> None:
    heard_ms = member.heard_ms

    def telling(nodes: list[str]) -> str:
        return (
            f"{_name(member)} has not been heard of since {to_second(heard_ms)} at the latest on"
            f" {listed(nodes)}, and is still listed there; after {span(member.timeout_ms)} it is"
            " dropped with its routes. See whether it runs, and whether it reaches the node."
        )

    bucket.ledger.hold(
        _subject(member),
        member.node,
        since_ms=heard_ms,
        at_ms=at_ms,
        telling=telling,
        evidence={
            "addr": member.addr,
            "sign": "silence",
            "silent_ms": silent_ms,
            "timeout_ms": member.timeout_ms,
        },
    )


def _subject(member: Member) -> Subject:
    return Subject(
        Kind.LATE_HEARTBEATS,
        cluster=member.cluster,
        broker=member.broker,
        broker_id=member.broker_id,
    )


def _name(member: Member) -> str:
    return f"{member.broker} (id {member.broker_id}, cluster {member.cluster})"
