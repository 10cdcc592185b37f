"""Registration size: a broker says all its topics in one frame, and a frame has a limit.

Estimated from the names, as the table ``capacity_forecast`` does.
"""

from routebook.words import counted, listed, size
from routebook_spark.alerts.bucket_state import BucketState, Claim, Group
from routebook_spark.alerts.ledger import Kind, Subject
from routebook_spark.gold.forecast import FIXED_BYTES

_CALM = 0.95
"""Of the limit: a broker just at it must not raise an alert with each topic."""


def look(bucket: BucketState, group: Group, node: str, *, at_ms: int) -> None:
    """Compare the size of a group at a node with the limit."""
    claim = bucket.claims.get(group, {}).get(node)
    told = claim is not None and claim.present and claim.told
    size_bytes = FIXED_BYTES + claim.size_bytes if claim is not None and told else 0
    warn_bytes = bucket.limits.size_share * bucket.limits.frame_bytes
    if claim is not None and size_bytes >= warn_bytes:
        _raise(bucket, claim, size_bytes, at_ms=at_ms)
    elif size_bytes < _CALM * warn_bytes:
        cluster, broker = group
        bucket.ledger.release(
            _subject(group),
            node,
            at_ms=at_ms,
            sentence=f"The registration of {broker} (cluster {cluster}) is down to"
            f" {size(size_bytes)}.",
        )


def _raise(bucket: BucketState, claim: Claim, size_bytes: int, *, at_ms: int) -> None:
    limit_bytes, topics = bucket.limits.frame_bytes, claim.topics

    def telling(nodes: list[str]) -> str:
        return (
            f"The registration of {claim.broker} (cluster {claim.cluster}) with"
            f" {counted(topics, 'topic')} is about {size(size_bytes)} on {listed(nodes)},"
            f" {round(100 * size_bytes / limit_bytes)} % of the {size(limit_bytes)} a frame"
            " can hold; beyond that it is refused and the broker is dropped. Delete topics nobody"
            " uses, or move some to another broker."
        )

    bucket.ledger.hold(
        _subject((claim.cluster, claim.broker)),
        claim.node,
        since_ms=at_ms,
        at_ms=at_ms,
        telling=telling,
        evidence={
            "topics": topics,
            "registration_bytes": size_bytes,
            "limit_bytes": limit_bytes,
        },
    )


def _subject(group: Group) -> Subject:
    return Subject(Kind.REGISTRATION_SIZE, cluster=group[0], broker=group[1])
