"""What ``history compare`` says of the nodes of a world, against the truth."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from routebook.history.comparing.comparison import ClockTold, comparison_of
from routebook.history.comparing.divergences import BrokerClaim
from routebook.journal.errors import JournalError
from world.finding import Finding
from world.history_checks import ROOM, Told, write_world
from world.plan import clock
from world.truth import EPOCH_MS, Key, Life, Truth

TOLERANCE_MS = 2500
STEP_MS = 500
LASTING_MS = 20_000  # a disagreement that nobody may overlook


def check_compare(truth: Truth, folder: Path) -> Iterator[Finding]:
    """Pairs of nodes; ``compare`` of more is a matter of the same claims."""
    told = write_world(truth, folder)
    for fleet in truth.plan.fleets:
        lives = [each for each in told if each.life.fleet == fleet.name]
        for one, other in combinations(lives, 2):
            if one.life.node != other.life.node:
                yield from _check_pair(one, other)


def _check_pair(one: Told, other: Told) -> Iterator[Finding]:
    try:
        answer = comparison_of([one.journal(), other.journal()])
    except JournalError:
        return  # that there is nothing to compare is an answer
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        yield Finding(ROOM, "compare: broke", one.life.node, repr(error))
        return
    for told in answer.clocks:
        yield from _check_skew(one.life, other.life, told)
    if answer.comparison is None:
        return
    uncertainty_ms = answer.comparison.uncertainty_ms
    for divergence in answer.comparison.divergences:
        if divergence.lasted_ms < 2 * (uncertainty_ms + TOLERANCE_MS):
            continue
        key = (divergence.cluster, divergence.broker)
        times = _meant(one.life, other.life, divergence.since_ms + uncertainty_ms + TOLERANCE_MS)
        if all(_agree(one, other, key, divergence.topics, at_ms) for at_ms in times):
            views = {node: _shown(claim) for node, claim in divergence.views.items()}
            yield Finding(
                ROOM,
                "compare: a disagreement that was none",
                f"no disagreement from {clock(times[0])} about {divergence.broker}"
                f" {divergence.topics or ''}",
                f"{divergence.lasted_ms / 1000:g} s of {views}",
            )
    clocks_known = all(told.skew.offset_ms is not None for told in answer.clocks)
    if clocks_known and not _jumps(one.life) and not _jumps(other.life):
        yield from _check_overlooked(one, other, answer.comparison.divergences)


def _meant(one: Life, other: Life, wall_ms: float) -> list[float]:
    """True times that a time by the common clock may be; one where no clock was ever set."""
    lives = (one, other) if _jumps(one) or _jumps(other) else (one,)
    return sorted({wall_ms - EPOCH_MS - ahead for life in lives for _, ahead in life.clock})


def _shown(claim: object) -> str:
    return str(claim.addrs) if isinstance(claim, BrokerClaim) else str(claim)


def _jumps(life: Life) -> bool:
    return len(life.clock) > 1


def _check_skew(one: Life, other: Life, told: ClockTold) -> Iterator[Finding]:
    """Against the clock of the other node, or against an earlier one of its own."""
    offset_ms, uncertainty_ms = told.skew.offset_ms, told.skew.uncertainty_ms
    if offset_ms is None:
        return
    clocks = {life.node: [ahead for _, ahead in life.clock] for life in (one, other)}
    everyone = [ahead for clock_of in clocks.values() for ahead in clock_of]
    truly = {there - here for there in clocks[told.node] for here in everyone}
    if all(abs(offset_ms - each) > uncertainty_ms + 50 for each in truly):
        yield Finding(
            ROOM,
            "compare: a wrong skew",
            f"{told.node} of {one.node} and {other.node} ahead by one of {sorted(truly)} ms",
            f"{offset_ms} ms, give or take {uncertainty_ms} ms, {told.skew}",
        )


def _agree(one: Told, other: Told, key: Key, topics: Sequence[str], true_ms: float) -> bool:
    """Whether both were awake and said the same just then, and a little before and after."""
    for at_ms in (true_ms - 2000, true_ms - 1000, true_ms, true_ms + 1000, true_ms + 2000):
        if one.life.phase(at_ms) != "awake" or other.life.phase(at_ms) != "awake":
            return True  # who sleeps disagrees with nobody
        here, there = one.life.belief(at_ms).get(key), other.life.belief(at_ms).get(key)
        if here is None or there is None:
            if (here is None) != (there is None):
                return False
        elif here.addrs != there.addrs or any(
            here.queues.get(topic) != there.queues.get(topic) for topic in topics
        ):
            return False
    return True


def _check_overlooked(one: Told, other: Told, found: Sequence[object]) -> Iterator[Finding]:
    """Disagreements about a broker that lasted, in a time of which both tell."""
    keys = {key for told in (one, other) for _, belief in told.life.beliefs for key in belief}
    from_ms = max(one.knowledge.from_ms, other.knowledge.from_ms)
    to_ms = min(one.knowledge.to_ms, other.knowledge.to_ms)
    for key in sorted(keys):
        since: float | None = None
        at_ms = from_ms
        while at_ms <= to_ms:
            differ = _differ(one, other, key, at_ms)
            since = (at_ms if since is None else since) if differ else None
            if since is not None and at_ms - since >= LASTING_MS:
                wall_ms = one.life.wall_ms((since + at_ms) / 2)
                if not any(_covers(each, key, wall_ms) for each in found):
                    yield Finding(
                        ROOM,
                        "compare: a disagreement overlooked",
                        f"{key[1]} of {one.life.node} and {other.life.node} from {clock(since)}",
                        f"{len(found)} divergences",
                    )
                break
            at_ms += STEP_MS


def _differ(one: Told, other: Told, key: Key, true_ms: float) -> bool:
    for told in (one, other):
        if told.life.phase(true_ms) != "awake" or told.knowledge.why_unknown(
            true_ms, within_ms=3000
        ):
            return False
    here, there = one.life.belief(true_ms).get(key), other.life.belief(true_ms).get(key)
    if here is None or there is None:
        return (here is None) != (there is None)
    return here.addrs != there.addrs


def _covers(divergence: object, key: Key, wall_ms: int) -> bool:
    about = (getattr(divergence, "cluster", ""), getattr(divergence, "broker", ""))
    since: int = getattr(divergence, "since_ms", 0)
    until: int = getattr(divergence, "until_ms", 0)
    return about == key and since <= wall_ms <= until
