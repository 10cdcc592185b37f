"""Flapping: a broker comes and goes, by the penalty of RFC 2439 as the table ``flaps`` has it.

A penalty is kept for each node; the alert is one for the broker, with the nodes that saw it.
"""

from math import exp2, log2

from routebook.words import counted, listed, span, to_second
from routebook_spark.alerts.bucket_state import BucketState, Member
from routebook_spark.alerts.ledger import Kind, Subject
from routebook_spark.gold.flaps import (
    CALM_ENDS,
    CEILING,
    HALF_LIFE_MS,
    RETURN_WITHIN_MS,
    REUSE,
    STEP,
    SUPPRESS,
)

_FORGOTTEN = 1 / 64
"""Of a step: what is left of it after 90 minutes no longer counts as the same trouble."""


def come_or_gone(bucket: BucketState, member: Member, cause: str, *, at_ms: int) -> None:
    """Count a process that came back to a node, or left it for this ``cause``."""
    came = member.listed
    if came:
        gone_ms, member.left_ms = at_ms - member.left_ms, 0
        if gone_ms > RETURN_WITHIN_MS:
            return
    elif cause in CALM_ENDS:
        return
    settle(bucket, member, now_ms=at_ms)
    left = _left_of(member, at_ms)
    if left < _FORGOTTEN * STEP:
        member.transitions, member.since_ms = 0, at_ms
    member.transitions += 1
    member.penalty, member.penalty_ms = min(left + STEP, _scale(bucket) * CEILING), at_ms
    if member.penalty > bucket.limits.flap_penalty:
        _raise(bucket, member, at_ms=at_ms)


def settle(bucket: BucketState, member: Member, *, now_ms: int) -> None:
    """End the alert if the penalty has fallen far enough by ``now_ms``."""
    if bucket.ledger.find(_subject(member), member.node) is None:
        return
    calm_ms = member.penalty_ms + round(log2(member.penalty / _reuse(bucket)) * HALF_LIFE_MS)
    if calm_ms <= now_ms:
        bucket.ledger.release(
            _subject(member),
            member.node,
            at_ms=calm_ms,
            sentence=f"{_name(member)} is steady again: it last came or went at"
            f" {to_second(member.penalty_ms)}.",
        )


def look(bucket: BucketState) -> None:
    for subject, hold in bucket.ledger.held(Kind.FLAPPING):
        assert subject.cluster is not None
        assert subject.broker is not None
        group = bucket.members.get((subject.cluster, subject.broker), {})
        member = group.get((subject.broker_id or 0, hold.ground))
        if member is not None:
            settle(bucket, member, now_ms=bucket.now_ms)


def _raise(bucket: BucketState, member: Member, *, at_ms: int) -> None:
    times, penalty = member.transitions, round(member.penalty)
    within_ms = at_ms - member.since_ms
    limit = bucket.limits.flap_penalty

    def telling(nodes: list[str]) -> str:
        return (
            f"{_name(member)} keeps coming and going: {counted(times, 'time')} within"
            f" {span(within_ms)} on {listed(nodes)}. One node alone points at the way to it,"
            f" all of them at the broker: `routebook history explain {member.broker}` has each"
            " time with its cause."
        )

    bucket.ledger.hold(
        _subject(member),
        member.node,
        since_ms=at_ms,
        at_ms=at_ms,
        telling=telling,
        evidence={
            "addr": member.addr,
            "transitions": times,
            "first_at": to_second(member.since_ms),
            "penalty": penalty,
            "limit": round(limit),
        },
    )


def _left_of(member: Member, at_ms: int) -> float:
    return member.penalty * exp2(-max(at_ms - member.penalty_ms, 0) / HALF_LIFE_MS)


def _reuse(bucket: BucketState) -> float:
    return REUSE * _scale(bucket)


def _scale(bucket: BucketState) -> float:
    """Another limit moves the others with it."""
    return bucket.limits.flap_penalty / SUPPRESS


def _subject(member: Member) -> Subject:
    return Subject(
        Kind.FLAPPING, cluster=member.cluster, broker=member.broker, broker_id=member.broker_id
    )


def _name(member: Member) -> str:
    return f"{member.broker} (id {member.broker_id}, cluster {member.cluster})"
