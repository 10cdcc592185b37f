"""Folders: what the source says of journals that it cannot read, or that nothing is written to.

Such notes come between the records of a trigger and are taken after them.
"""

from routebook.words import span, to_second
from routebook_spark.alerts.bucket_state import BucketState
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import Kind, Subject

NOTES = frozenset({"JournalUnreadable", "JournalReadable", "JournalQuiet"})

_QUIET = "quiet"


def take(bucket: BucketState, fact: Fact) -> None:
    if not fact.home:
        return
    match fact.type:
        case "JournalUnreadable":
            _unreadable(bucket, fact)
        case "JournalReadable":
            bucket.ledger.release(
                _subject(fact.node),
                fact.folder or "",
                at_ms=fact.at_ms,
                sentence=f"The journal of {fact.node} in {fact.folder} can be read again.",
            )
        case "JournalQuiet":
            _quiet(bucket, fact)


def heard(bucket: BucketState, name: str, *, at_ms: int) -> None:
    """A record of the node has come."""
    bucket.ledger.release(
        _subject(name), _QUIET, at_ms=at_ms, sentence=f"Records of {name} come again."
    )


def _unreadable(bucket: BucketState, fact: Fact) -> None:
    node = bucket.nodes.get(fact.node)
    since_ms = fact.at_ms if node is None else min(node.clock_ms, fact.at_ms)
    last = (
        "" if node is None else f" The last record of it here is from {to_second(node.clock_ms)}."
    )
    bucket.ledger.hold(
        _subject(fact.node),
        fact.folder or "",
        since_ms=since_ms,
        at_ms=fact.at_ms,
        telling=lambda nodes: (
            f"The journal of {fact.node} cannot be read further, and it is not watched until it"
            f" can: {fact.reason}.{last} Other nodes are watched as before."
        ),
        evidence={"sign": "folder", "folder": fact.folder, "reason": fact.reason},
    )


def _quiet(bucket: BucketState, fact: Fact) -> None:
    node = bucket.nodes.get(fact.node)
    if node is None or not node.running or fact.quiet_ms is None:
        return
    listed = node.live if node.live is not None else max(node.beats, node.beats_before)
    if not listed or fact.quiet_ms <= node.silence_ms:
        return
    last_ms, quiet_ms = node.clock_ms, fact.quiet_ms
    bucket.ledger.hold(
        _subject(fact.node),
        _QUIET,
        since_ms=min(last_ms, fact.at_ms),
        at_ms=fact.at_ms,
        telling=lambda nodes: (
            f"Nothing has come from {fact.node} for {span(quiet_ms)}, and it was not stopped: its"
            f" last record is from {to_second(last_ms)}. It is down, not awake or cannot write, or"
            f" its journal is no longer copied to {fact.folder}; `routebook health` asks the node."
        ),
        evidence={"sign": "quiet", "folder": fact.folder, "quiet_ms": quiet_ms},
    )


def _subject(node: str) -> Subject:
    return Subject(Kind.NODE_SILENT, node=node)
