"""Waking: time in which a node was no witness, and what is not believed just after it.

A node says that it slept (``NodeStalled``). Others show it: while brokers are listed there is a
record a window, so more than two windows without any are a silence; and wall clock and monotonic
clock of two records differ where the clock was set or the machine was suspended. Nothing is
concluded from such time. Whoever leaves or comes back just after it may have been there all along,
and a node needs as long as it slept, but no more than a lease, to find out what has changed.
"""

from dataclasses import replace

from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook.words import counted, span, to_second
from routebook_spark.alerts import divergence, heartbeats, mass_loss, skew
from routebook_spark.alerts.bucket_state import BucketState, Node
from routebook_spark.alerts.facts import AHEAD_MS, Fact
from routebook_spark.alerts.ledger import Kind, Subject

_WAKING_MS = 5_000
_SHORT_MS = 10_000
"""Alerts that are open go on over pauses that are no longer."""

_STEADY_MS = 60_000
_CLOCK_MS = 1_000
_CLOCK_SHARE = 0.001
_EXPIRY = frozenset({"expired", "not_confirmed"})
_NEW_BOOT = frozenset({"NodeStarted", "JournalRecovered"})
_STALL, _SILENCE = "stall", "silence"


def look(bucket: BucketState, node: Node, fact: Fact) -> None:
    """See whether ``node`` was awake up to ``fact``; the bucket still has its clock from before."""
    if node.mono_ms is None or fact.mono_ms is None or not node.running:
        return
    if fact.type in _NEW_BOOT or fact.mono_ms < node.mono_ms:
        return
    if fact.type == "NodeStalled" and fact.from_ms is not None:
        _fell_silent(bucket, node, fact, upto_ms=min(fact.from_ms, fact.at_ms))
        stalled(bucket, node, fact)
        return
    set_ms = _clock_was_set(node, fact)
    if set_ms:
        _slept(bucket, node, node.clock_ms, fact.at_ms, honest=False)
        skew.clock_set(node, by_ms=set_ms)
        if set_ms > 0 and fact.ahead_ms < AHEAD_MS:  # else it is just wrong
            _tell_stall(bucket, node, fact, node.clock_ms, fact.at_ms, set_ms=set_ms)
        return
    _fell_silent(bucket, node, fact, upto_ms=fact.at_ms)


def stalled(bucket: BucketState, node: Node, fact: Fact) -> None:
    """``node`` says itself that it slept, or that its clock was set."""
    if fact.from_ms is None or fact.to_ms is None:
        return
    set_ms = fact.clock_ms or 0
    _slept(bucket, node, fact.from_ms, fact.to_ms, honest=True)
    if abs(set_ms) > _CLOCK_MS:
        skew.clock_set(node, by_ms=set_ms)
    _tell_stall(bucket, node, fact, fact.from_ms, fact.to_ms, set_ms=set_ms)


def stalls_first(facts: list[Fact]) -> list[Fact]:
    """The same facts of one node, with each stall before what the node did on waking from it.

    It is written down when it is noticed: what had waited may have been heard before.
    """
    found: list[Fact] = []
    for fact in facts:
        found.append(fact)
        if fact.type != "NodeStalled" or fact.from_ms is None:
            continue
        place = len(found) - 1
        while place and fact.from_ms < found[place - 1].at_ms and _goes_on(found, place):
            place -= 1
        if place < len(found) - 1:
            waking = [found.pop(), *found[place:]]
            seqs = sorted(each.seq for each in waking)
            found[place:] = [replace(each, seq=seq) for each, seq in zip(waking, seqs, strict=True)]
    return found


def _goes_on(facts: list[Fact], place: int) -> bool:
    """Whether a fact and the one before it are of one time of one boot."""
    before, fact = facts[place - 1], facts[place]
    return before.type not in _NEW_BOOT and before.at_ms <= fact.at_ms


def steady(bucket: BucketState, node: Node, *, at_ms: int) -> None:
    """A node that has been awake for a while is no longer said to have slept."""
    if at_ms - node.awake_ms > _STEADY_MS:
        bucket.ledger.release(
            Subject(Kind.NODE_STALLED, node=node.name),
            _STALL,
            at_ms=node.awake_ms + _STEADY_MS,
            sentence=f"{node.name} has been awake since {to_second(node.awake_ms)}.",
        )


def restarted(node: Node, *, since_ms: int, at_ms: int) -> None:
    """A node begins with what it knew before; it hears what has changed within a lease."""
    node.slept_ms, node.awake_ms = min(since_ms, at_ms), at_ms
    node.settled_ms = at_ms + min(max(at_ms - since_ms, _WAKING_MS), DEFAULT_TIMEOUT_MS)


def believed(node: Node, cause: str, *, at_ms: int) -> bool:
    """Whether a broker that came or left did so, or whether only the node woke up."""
    if at_ms < node.awake_ms:
        return True  # the clock was set back since
    return at_ms >= node.waking_ms or (cause in _EXPIRY and node.honest)


def _clock_was_set(node: Node, fact: Fact) -> int:
    """By how much since the last record; 0 for what two clocks may differ anyway."""
    assert node.mono_ms is not None
    assert fact.mono_ms is not None
    passed_ms = fact.mono_ms - node.mono_ms
    off_ms = fact.wall_ms - node.wall_ms - passed_ms
    return off_ms if abs(off_ms) > _CLOCK_MS + _CLOCK_SHARE * passed_ms else 0


def _fell_silent(bucket: BucketState, node: Node, fact: Fact, *, upto_ms: int) -> None:
    silent_ms = upto_ms - node.clock_ms
    listed = node.live if node.live is not None else max(node.beats, node.beats_before)
    if silent_ms <= node.silence_ms or not listed:
        return
    since_ms = node.clock_ms
    _slept(bucket, node, since_ms, upto_ms, honest=False)
    subject = Subject(Kind.NODE_SILENT, node=node.name)
    if not fact.home or bucket.ledger.held_for(subject):
        return
    bucket.ledger.hold(
        subject,
        _SILENCE,
        since_ms=since_ms,
        at_ms=upto_ms,
        telling=lambda nodes: (
            f"{node.name} wrote nothing from {to_second(since_ms)} to {to_second(upto_ms)}, though"
            f" it listed {counted(listed, 'broker')}: it was not awake, or could not write. What it"
            " knew meanwhile is not known; look into its log and that of its machine."
        ),
        evidence={"sign": "silence", "silent_ms": silent_ms},
    )
    bucket.ledger.release(subject, _SILENCE, at_ms=upto_ms, sentence=f"{node.name} writes again.")


def _slept(bucket: BucketState, node: Node, from_ms: int, to_ms: int, *, honest: bool) -> None:
    """``honest``: it knows itself that it slept, and holds that against nobody."""
    length_ms = max(to_ms - from_ms, 0)
    heartbeats.look(bucket, node)
    mass_loss.look(bucket, node, now_ms=from_ms)
    divergence.look(bucket)
    if length_ms > _SHORT_MS or to_ms < from_ms:
        _let_go(bucket, node, from_ms, to_ms)
    no_witness(node, from_ms, to_ms, honest=honest)


def no_witness(node: Node, from_ms: int, to_ms: int, *, honest: bool) -> None:
    """Nothing is known of what happened at ``node`` in that time, whether or not it slept."""
    grace_ms = min(max(to_ms - from_ms, _WAKING_MS), DEFAULT_TIMEOUT_MS)
    if to_ms < max(node.awake_ms, from_ms):  # the clock was set back: nothing is as it was
        node.waking_ms = node.settled_ms = from_ms = 0
    node.slept_ms, node.awake_ms, node.honest = from_ms, to_ms, honest
    node.waking_ms = max(node.waking_ms, to_ms + grace_ms)
    node.settled_ms = max(node.settled_ms, to_ms + grace_ms)


def _let_go(bucket: BucketState, node: Node, from_ms: int, to_ms: int) -> None:
    """End what rests on the word of a node that sleeps."""
    sentence = f"{node.name} was not awake from {to_second(from_ms)} on."
    node.leaves, node.gone = [], []
    mass_loss.let_go(bucket, node, at_ms=from_ms, sentence=sentence)
    heartbeats.let_go(bucket, node, at_ms=from_ms, sentence=sentence)
    node.running = False
    divergence.compare_all(bucket, at_ms=from_ms)
    node.running = True
    divergence.compare_all(bucket, at_ms=to_ms)


def _tell_stall(
    bucket: BucketState, node: Node, fact: Fact, from_ms: int, to_ms: int, *, set_ms: int
) -> None:
    """``set_ms``: by how much more its wall clock moved than time passed for the node."""
    asleep_ms = to_ms - from_ms if fact.type == "NodeStalled" else set_ms
    if not fact.home or asleep_ms < bucket.limits.stall_s * 1000:
        return
    if set_ms > _CLOCK_MS:
        what = (
            f"The machine of {node.name} slept, or its clock was set forward by {span(set_ms)},"
            f" between {to_second(from_ms)} and {to_second(to_ms)}"
        )
    else:
        what = (
            f"{node.name} was not awake from {to_second(from_ms)} to {to_second(to_ms)}"
            f" ({span(asleep_ms)}): it answered nobody"
        )
    bucket.ledger.hold(
        Subject(Kind.NODE_STALLED, node=node.name),
        _STALL,
        since_ms=from_ms,
        at_ms=max(fact.at_ms, to_ms),
        telling=lambda nodes: (
            f"{what}. What happened to brokers meanwhile it does not know. Look for a machine that"
            " was suspended or is short of memory, a disk that stalls, or a clock that was set."
        ),
        evidence={
            "sign": "stall" if fact.type == "NodeStalled" else "clock",
            "stalled_ms": asleep_ms,
            "clock_ms": set_ms,
        },
    )
