"""Unknown topics: clients ask for topics nobody holds, one of them or many, far too often.

A node counts queries and writes the counts down at the end of each window. The alert is over after
a window in which there were fewer.
"""

from routebook.words import listed, to_second
from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import SHORTEST_WINDOW_MS, Fact
from routebook_spark.alerts.ledger import Hold, Kind, Subject

_ALL = "all"


def take(bucket: BucketState, node: Node, fact: Fact) -> None:
    """Look at the counts of a window, or a part of them."""
    window_ms = max(fact.window_ms or 0, SHORTEST_WINDOW_MS)
    for topic, unknown in fact.storms or []:
        _one(bucket, node, topic, fact, per_minute=int(unknown) * 60_000 / window_ms)
    if fact.home and fact.unknown:
        node.unknown += fact.unknown
        per_minute = node.unknown * 60_000 / window_ms
        if per_minute > bucket.limits.all_unknown_per_minute:
            _many(bucket, node, fact, per_minute=per_minute)


def look(bucket: BucketState, node: Node) -> None:
    """End those that were not seen in the window that has ended now."""
    for subject, hold in bucket.ledger.held(Kind.UNKNOWN_TOPICS):
        if _seen_by(subject, hold) == node.name and (
            hold.seen_ms < node.window_at_ms - node.window_ms / 2
        ):
            what = f"{subject.topic}" if subject.topic else "topics nobody holds"
            bucket.ledger.release(
                subject,
                hold.ground,
                at_ms=node.window_at_ms,
                sentence=f"{node.name} is no longer asked for {what} that often.",
            )


def _seen_by(subject: Subject, hold: Hold) -> str:
    return subject.node or hold.ground


def _one(bucket: BucketState, node: Node, topic: str, fact: Fact, *, per_minute: float) -> None:
    began_ms = fact.at_ms - (fact.window_ms or 0)

    def telling(nodes: list[str]) -> str:
        return (
            f"Clients ask {listed(nodes)} for {topic} {round(per_minute)} times a minute"
            f" since {to_second(began_ms)}, and no broker holds it. See who deployed last and"
            f" whether the name is right (`routebook route {topic}`), or add the topic"
            f" (`routebook topics add {topic}`)."
        )

    bucket.ledger.hold(
        Subject(Kind.UNKNOWN_TOPICS, topic=topic),
        node.name,
        since_ms=began_ms,
        at_ms=fact.at_ms,
        telling=telling,
        evidence={
            "per_minute": round(per_minute),
            "limit": round(bucket.limits.unknown_per_minute),
            "window_ms": fact.window_ms,
        },
    )


def _many(bucket: BucketState, node: Node, fact: Fact, *, per_minute: float) -> None:
    began_ms = fact.at_ms - (fact.window_ms or 0)

    def telling(nodes: list[str]) -> str:
        return (
            f"Clients ask {node.name} for topics no broker holds {round(per_minute)} times a"
            f" minute since {to_second(began_ms)}. If it has few brokers (`routebook brokers`),"
            " they have lost it; otherwise see who deployed last."
        )

    bucket.ledger.hold(
        Subject(Kind.UNKNOWN_TOPICS, node=node.name),
        _ALL,
        since_ms=began_ms,
        at_ms=fact.at_ms,
        telling=telling,
        evidence={
            "per_minute": round(per_minute),
            "limit": round(bucket.limits.all_unknown_per_minute),
            "window_ms": fact.window_ms,
        },
    )
