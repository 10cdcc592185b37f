"""Mass loss: many brokers are gone at once, by what a node saw or by its guard.

Counted are brokers that are gone, not how often one left: who comes back is not lost.
"""

from routebook.words import counted, span, to_second
from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import Fact
from routebook_spark.alerts.ledger import Kind, Subject

UNWANTED = frozenset({"connection_closed", "expired", "idle", "not_confirmed"})
"""Causes nobody asked for."""

WINDOW_MS = 60_000
FEWEST = 3
"""One broker of two is no mass."""

_GUARD, _LEAVES = "guard", "leaves"


def take(bucket: BucketState, node: Node, fact: Fact, *, believed: bool) -> None:
    """``believed``: whoever leaves did so, and the node has not just woken up."""
    match fact.type:
        case "GuardEngaged":
            _engaged(bucket, node, fact)
        case "GuardReleased":
            bucket.ledger.release(
                _subject(node),
                _GUARD,
                at_ms=fact.at_ms,
                sentence=f"{node.name} holds nobody any longer: the guard was released"
                f" ({fact.reason}).",
            )
        case "BrokerLeft" if fact.cause in UNWANTED and believed:
            _left(bucket, node, fact)
        case "BrokerRegistered" if fact.process in node.gone:
            node.gone = [0 if process == fact.process else process for process in node.gone]


def look(bucket: BucketState, node: Node, *, now_ms: int) -> None:
    """End the alert when nobody has left for a while."""
    if node.leaves and now_ms - node.leaves[-1] > WINDOW_MS:
        over_ms = node.leaves[-1] + WINDOW_MS
        node.leaves, node.gone = [], []
        bucket.ledger.release(
            _subject(node),
            _LEAVES,
            at_ms=over_ms,
            sentence=f"{node.name} has lost no more brokers since"
            f" {to_second(over_ms - WINDOW_MS)}.",
        )


def let_go(bucket: BucketState, node: Node, *, at_ms: int, sentence: str) -> None:
    """Nothing is known of who left; a guard says itself when it is over."""
    bucket.ledger.release(_subject(node), _LEAVES, at_ms=at_ms, sentence=sentence)


def _left(bucket: BucketState, node: Node, fact: Fact) -> None:
    look(bucket, node, now_ms=fact.at_ms)
    late = [
        (at_ms, process)
        for at_ms, process in zip(node.leaves, node.gone, strict=True)
        if fact.at_ms - at_ms <= WINDOW_MS
    ]
    late.append((fact.at_ms, fact.process or 0))
    node.leaves, node.gone = [at_ms for at_ms, _ in late], [process for _, process in late]
    gone = len({process for process in node.gone if process})
    # A node of which the beginning is not known has at least those it heard of.
    known = node.live if node.live is not None else max(node.beats, node.beats_before) - gone
    before = max(known, 0) + gone
    if gone < FEWEST or gone <= bucket.limits.mass_loss_share * before:
        return
    began_ms = node.leaves[0]

    def telling(nodes: list[str]) -> str:
        return (
            f"{node.name} lost {gone} of {counted(before, 'broker')} within"
            f" {span(max(fact.at_ms - began_ms, 1000))}, from {to_second(began_ms)} on, and nobody"
            " had asked it to. That many hardly die at once: look at the network of the node first,"
            " and at what other nodes say (`routebook compare`)."
        )

    bucket.ledger.hold(
        _subject(node),
        _LEAVES,
        since_ms=began_ms,
        at_ms=fact.at_ms,
        telling=telling,
        evidence={"sign": "leaves", "gone": gone, "before": before, "cause": fact.cause},
    )


def _engaged(bucket: BucketState, node: Node, fact: Fact) -> None:
    silent, live, hold_ms = fact.silent or 0, fact.live or 0, fact.hold_ms or 0

    def telling(nodes: list[str]) -> str:
        return (
            f"{silent} of {counted(live, 'broker')} of {node.name} fell silent at once, and its"
            f" guard holds them for up to {span(hold_ms)} from {to_second(fact.at_ms)} on. Look at"
            " the network of the node; `routebook guard` lists who is held, and `routebook guard"
            " release` lets them go."
        )

    bucket.ledger.hold(
        _subject(node),
        _GUARD,
        since_ms=fact.at_ms,
        at_ms=fact.at_ms,
        telling=telling,
        evidence={"sign": "guard", "silent": silent, "live": live, "hold_ms": hold_ms},
    )


def _subject(node: Node) -> Subject:
    return Subject(Kind.MASS_LOSS, node=node.name)
