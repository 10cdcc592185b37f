"""What alerts may and must say of a world, by what really happened in it.

Plain Python over the truth of ``world``: nothing here knows how alerts are found. An alert is what
its row says: kind, fleet, nodes, whom it is about, and from when to when it was open by the clocks
of its nodes. Whatever it claims has to be true at a true time that these clocks can have meant; and
what lasted long enough, in front of nodes that were awake all the time, has to be told, if the
watch was given the records of that time; and that it was not, too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from routebook.events import JournalRecovered, NodeStalled, RecordsLost
from world.knowledge import missing
from world.plan import LEASE, BrokerStops, ClockSet, Cut, DiskFails, NodeDown
from world.truth import EPOCH_MS, Key, Life, Span, Truth, Written
from world.watch_folders import Given, all_of

SECOND = 1000
LIMIT_MS = 90 * SECOND
SLACK_MS = 2 * SECOND
STEP_MS = 5 * SECOND
_STALL_MS = 5 * SECOND


@dataclass(frozen=True, slots=True)
class Told:
    """One alert, raised and perhaps resolved; times are those of the nodes' clocks."""

    kind: str
    fleet: str
    nodes: tuple[str, ...]
    cluster: str | None
    broker: str | None
    broker_id: int | None
    began_ms: int
    raised_ms: int
    resolved_ms: int | None
    sentence: str = ""

    def __str__(self) -> str:
        who = self.broker or self.nodes[0]
        return f"{self.kind} of {who} in {self.fleet}: {self.sentence}"


def mistakes(truth: Truth, told: Iterable[Told], given: Given | None = None) -> Iterator[str]:
    """Each a sentence about an alert that is wrong, or one that is missing.

    Without ``given`` the watch had all that was written.
    """
    gift = given or all_of(truth)
    alerts = list(told)
    fleets = {fleet.name: {node.name for node in fleet.nodes} for fleet in truth.plan.fleets}
    for alert in alerts:
        if not set(alert.nodes) <= fleets.get(alert.fleet, set()):
            yield f"names nodes of another fleet: {alert}"
        elif not _ALLOWED[alert.kind](_World(truth, alert.fleet, gift), alert):
            yield f"never happened: {alert}"
        if not _in_order(alert):
            yield f"its times run backwards: {alert}"
    for fleet in fleets:
        world = _World(truth, fleet, gift)
        mine = [alert for alert in alerts if alert.fleet == fleet]
        yield from _missing_about_nodes(world, mine)
        yield from _missing_about_folders(world, mine)
        yield from _missing_divergences(world, mine)
        yield from _missing_mass_losses(world, mine)


def _in_order(alert: Told) -> bool:
    ends_ms = alert.raised_ms if alert.resolved_ms is None else alert.resolved_ms
    return alert.began_ms <= alert.raised_ms <= ends_ms


class _World:
    """One fleet of a world."""

    def __init__(self, truth: Truth, fleet: str, given: Given) -> None:
        self.truth = truth
        self.given = given
        self.name = fleet
        self.lives = truth.fleet(fleet)
        self.deeds = [deed for deed in truth.plan.deeds if deed.fleet == fleet]

    def lives_of(self, node: str) -> list[Life]:
        return [life for life in self.lives if life.node == node]

    def read_of(self, life: Life) -> Sequence[Written]:
        return self.given.records.get((life.node, life.incarnation), ())

    def missing_of(self, life: Life) -> Iterator[tuple[Written, Written]]:
        """Records that were read one after the other, with others between them."""
        for before, after in pairwise(self.read_of(life)):
            event = after.record.event
            last_seq = event.last_seq if isinstance(event, JournalRecovered) else 0
            if after.record.seq > before.record.seq + 1 and last_seq != before.record.seq:
                yield before, after

    def when(self, node: str, wall_ms: int) -> list[tuple[Life, float]]:
        """True times at which a clock of ``node`` showed ``wall_ms``, or nearly."""
        return [
            (life, true_ms)
            for life in self.lives_of(node)
            for near_ms in (0, -SECOND, SECOND)
            for true_ms in life.true_times(wall_ms + near_ms)
        ]

    def reaches(self, label: str, node: str, true_ms: float) -> bool:
        """Whether the process ``label`` lives, and what it says reaches ``node``."""
        broker = self.truth.brokers[self.name, label]
        cut = any(
            isinstance(deed, Cut)
            and (deed.broker, deed.node) == (label, node)
            and deed.at_ms <= true_ms < deed.at_ms + deed.for_ms
            for deed in self.deeds
        )
        hung = any(span.holds(true_ms) for span in broker.hung)
        return broker.is_alive(true_ms) and not hung and not cut

    def away_ms(self, label: str, node: str, from_ms: float, to_ms: float) -> float:
        """How long the process did not reach the node in that time, while it was awake."""
        [*lives] = self.lives_of(node)
        steps = range(max(int(from_ms), 0), int(to_ms), SECOND)
        return sum(
            SECOND
            for at_ms in steps
            if any(life.phase(at_ms) == "awake" for life in lives)
            and not self.reaches(label, node, at_ms)
        )

    def labels(self) -> list[str]:
        return [label for fleet, label in self.truth.brokers if fleet == self.name]

    def steady(self, life: Life, from_ms: float, to_ms: float) -> bool:
        """Awake all the time, with a clock nobody touched, and all written down and read."""
        read = self.read_of(life)
        if not read or to_ms > read[-1].true_ms:
            return False
        if any(from_ms <= since <= to_ms for since, _ in (*life.phases, *life.clock)):
            return False
        spans = (*life.losses, *life.stalls, *life.signs, *missing(life, read))
        if any(span.from_ms < to_ms and span.to_ms > from_ms for span in spans):
            return False
        return life.phase(from_ms) == "awake"


# -- whether what an alert says happened


def _flapping(world: _World, alert: Told) -> bool:
    """It left two times at least, at a node that saw it."""
    label = f"{alert.broker}:{alert.broker_id}"
    for node in alert.nodes:
        for _, raised_ms in world.when(node, alert.raised_ms):
            troubles = [
                deed
                for deed in world.deeds
                if (isinstance(deed, BrokerStops) and deed.broker == label)
                or (isinstance(deed, Cut) and (deed.broker, deed.node) == (label, node))
                if deed.at_ms <= raised_ms + SLACK_MS
            ]
            if len(troubles) >= 2:
                return True
    return False


def _late(world: _World, alert: Told) -> bool:
    """Half a minute at least it was not there for a node that listened."""
    label = f"{alert.broker}:{alert.broker_id}"
    return any(
        world.away_ms(label, node, raised_ms - 4 * LEASE, raised_ms) >= 30 * SECOND
        for node in alert.nodes
        for _, raised_ms in world.when(node, alert.raised_ms)
    )


def _mass_loss(world: _World, alert: Told) -> bool:
    """Three processes at least had been away from the node, be it for a moment."""
    [node] = alert.nodes
    return any(
        sum(
            world.away_ms(label, node, raised_ms - LEASE - 70 * SECOND, raised_ms + SECOND) > 0
            or _stopped_at(world, label, raised_ms)
            for label in world.labels()
        )
        >= 3
        for _, raised_ms in world.when(node, alert.raised_ms)
    )


def _stopped_at(world: _World, label: str, true_ms: float) -> bool:
    return any(
        isinstance(deed, BrokerStops)
        and deed.broker == label
        and true_ms - 70 * SECOND <= deed.at_ms <= true_ms + SECOND
        for deed in world.deeds
    )


def _divergence(world: _World, alert: Told) -> bool:
    """Two of its nodes told clients different things for long, both of them awake."""
    key = (alert.cluster or "", alert.broker or "")
    return any(
        _longest_dispute_ms(world, key, one, other) >= LIMIT_MS - SLACK_MS - STEP_MS
        for a, b in combinations(alert.nodes, 2)
        for one in world.lives_of(a)
        for other in world.lives_of(b)
    )


def _longest_dispute_ms(world: _World, key: Key, one: Life, other: Life) -> float:
    longest = since = 0.0
    began: float | None = None
    for at_ms in range(0, int(min(one.ends_ms, other.ends_ms)), STEP_MS):
        since = float(at_ms)
        if _disagree(key, one, other, since):
            began = since if began is None else began
            longest = max(longest, since - began)
        else:
            began = None
    return longest


def _disagree(key: Key, one: Life, other: Life, at_ms: float) -> bool:
    if one.phase(at_ms) != "awake" or other.phase(at_ms) != "awake":
        return False
    return one.belief(at_ms).get(key) != other.belief(at_ms).get(key)


def _killed(world: _World, alert: Told) -> bool:
    """It was killed after the moment that is named, and before it was told."""
    [node] = alert.nodes
    for life in world.lives_of(node):
        kills = [since for since, what in life.phases if what == "killed"]
        for kill_ms in kills:
            before = any(t <= kill_ms + SLACK_MS for t in life.true_times(alert.began_ms)) or (
                alert.began_ms == alert.raised_ms  # the clock was set back while it was down
            )
            after = any(t >= kill_ms for t in life.true_times(alert.raised_ms))
            if before and after:
                return True
    return False


def _stalled(world: _World, alert: Told) -> bool:
    [node] = alert.nodes
    return any(
        life.wall_ms(span.from_ms) <= alert.raised_ms + SLACK_MS
        and life.wall_ms(span.to_ms) >= alert.began_ms - SLACK_MS
        for life in world.lives_of(node)
        for span in life.stalls
    )


def _silent(world: _World, alert: Told) -> bool:
    """There was such a time in which it was not awake, could not write or could not be read."""
    [node] = alert.nodes
    given = world.given
    if node in given.cut_off or node in given.emptied or node in given.shortened:
        return True
    failures = [
        Span(deed.at_ms, deed.at_ms + deed.for_ms)
        for deed in world.deeds
        if isinstance(deed, DiskFails) and deed.node == node
    ]
    return any(
        life.wall_ms(span.from_ms) <= alert.raised_ms and life.wall_ms(span.to_ms) >= alert.began_ms
        for life in world.lives_of(node)
        for span in (*life.stalls, *failures)
    )


def _lost(world: _World, alert: Told) -> bool:
    [node] = alert.nodes
    return any(
        life.losses or any(True for _ in world.missing_of(life)) for life in world.lives_of(node)
    )


def _twice(world: _World, alert: Told) -> bool:
    """Not one of them; but what is told at once of two lives may look like it."""
    [node] = alert.nodes
    lives = world.lives_of(node)
    return len(lives) > 1 and any(_walks_back(world, life) for life in lives)


def _never(world: _World, alert: Told) -> bool:
    """Nobody has a full registration or a wrong year in these worlds."""
    return False


_ALLOWED: dict[str, Callable[[_World, Told], bool]] = {
    "flapping": _flapping,
    "late_heartbeats": _late,
    "mass_loss": _mass_loss,
    "divergence": _divergence,
    "node_killed": _killed,
    "node_stalled": _stalled,
    "node_silent": _silent,
    "records_lost": _lost,
    "node_id_twice": _twice,
    "clock_ahead": _never,
    "registration_size": _never,
    "unknown_topics": _never,
}


# -- what has to be told


def _missing_about_nodes(world: _World, alerts: list[Told]) -> Iterator[str]:
    for life in world.lives:
        if _walks_back(world, life):
            continue
        for written in world.read_of(life):
            event = written.record.event
            match event:
                case NodeStalled() if event.to_ms - event.from_ms >= _STALL_MS:
                    kind, about = "node_stalled", event.from_ms
                case JournalRecovered():
                    kind, about = "node_killed", written.record.wall_ms
                case RecordsLost():
                    kind, about = "records_lost", written.record.wall_ms
                case _:
                    continue
            # A loss began by the clock of then, which may have been set back meanwhile.
            since_ms = event.since_ms if isinstance(event, RecordsLost) else about
            if not any(
                alert.kind == kind
                and alert.nodes == (life.node,)
                and alert.began_ms <= max(about, since_ms) + SLACK_MS
                and (alert.resolved_ms is None or alert.resolved_ms >= about - SLACK_MS)
                for alert in alerts
            ):
                at_s = written.true_ms / SECOND
                yield f"missing: {kind} of {life.node} in {world.name} at {at_s:g} s"


def _missing_about_folders(world: _World, alerts: list[Told]) -> Iterator[str]:
    """That records of a node are missing, or cannot be read, is told as well."""
    for life in world.lives:
        for before, after in world.missing_of(life):
            if _walks_back(world, life) or any(
                alert.kind == "records_lost"
                and alert.nodes == (life.node,)
                and alert.began_ms <= before.record.wall_ms + SLACK_MS
                and (alert.resolved_ms is None or alert.resolved_ms >= before.record.wall_ms)
                for alert in alerts
            ):
                continue
            seqs = f"{before.record.seq + 1} to {after.record.seq - 1}"
            yield f"missing: records_lost of {life.node} in {world.name}: {seqs}"
    names = {life.node for life in world.lives}
    for node, healed in world.given.cut_off.items():
        silent = [a for a in alerts if a.kind == "node_silent" and a.nodes == (node,)]
        if node in names and not silent:
            yield f"missing: node_silent of {node} in {world.name}, whose segment is cut off"
        if node in names and healed and any(alert.resolved_ms is None for alert in silent):
            yield f"missing: the end of node_silent of {node} in {world.name}"


def _walks_back(world: _World, life: Life) -> bool:
    """Whether a clock was set back under the name: which of two lives is the later is not told."""
    return any(
        isinstance(deed, ClockSet) and deed.node == life.node and deed.by_ms < 0
        for deed in world.deeds
    ) and any(isinstance(deed, NodeDown) and deed.node == life.node for deed in world.deeds)


def _missing_divergences(world: _World, alerts: list[Told]) -> Iterator[str]:
    """Nodes with right clocks that were awake and disagreed for so long that all windows ended."""
    right = [life for life in world.lives if all(abs(ahead) <= 100 for _, ahead in life.clock)]
    keys = {key for life in world.lives for _, belief in life.beliefs for key in belief}
    for one, other in combinations(right, 2):
        if one.node == other.node:
            continue
        for key in keys:
            for from_ms, to_ms in _disputes(key, one, other):
                enough = LIMIT_MS + 2 * max(one.window_ms, other.window_ms) + 5 * SECOND
                calm_ms = from_ms - 2 * LEASE - 10 * SECOND
                calm = all(world.steady(life, max(calm_ms, 600), to_ms) for life in (one, other))
                if to_ms - from_ms < enough or not calm:
                    continue
                if _was_over(world, one, other, from_ms + enough, to_ms):
                    continue
                if not any(
                    alert.kind == "divergence"
                    and (alert.cluster, alert.broker) == key
                    and {one.node, other.node} <= set(alert.nodes)
                    and alert.raised_ms <= EPOCH_MS + to_ms
                    and (alert.resolved_ms is None or alert.resolved_ms > EPOCH_MS + from_ms)
                    for alert in alerts
                ):
                    yield (
                        f"missing: divergence of {one.node} and {other.node} about {key} from"
                        f" {from_ms / SECOND:g} s to {to_ms / SECOND:g} s"
                    )


def _was_over(world: _World, one: Life, other: Life, due_ms: float, to_ms: float) -> bool:
    """Whether one of them was read past the end before the other was read up to the limit.

    A watch says nothing of what is over in the records it reads first (docs/pipeline/watch.md).
    """

    def first_trigger(life: Life, since_ms: float) -> int | None:
        key = (life.node, life.incarnation)
        given = zip(world.read_of(life), world.given.triggers[key], strict=True)
        return next((trigger for each, trigger in given if each.true_ms >= since_ms), None)

    for ahead, behind in ((one, other), (other, one)):
        over, due = first_trigger(ahead, to_ms - SLACK_MS), first_trigger(behind, due_ms)
        if over is not None and (due is None or over < due):
            return True
    return False


def _disputes(key: Key, one: Life, other: Life) -> Iterator[tuple[float, float]]:
    began: float | None = None
    ends_ms = int(min(one.ends_ms, other.ends_ms))
    for at_ms in range(0, ends_ms, SECOND):
        if _disagree(key, one, other, at_ms):
            began = float(at_ms) if began is None else began
        elif began is not None:
            yield began, float(at_ms)
            began = None
    if began is not None:
        yield began, float(ends_ms)


def _missing_mass_losses(world: _World, alerts: list[Told]) -> Iterator[str]:
    """Three processes and more that died within a minute in front of a node that was awake."""
    for life in world.lives:
        for at_ms, belief in life.beliefs:
            if not world.steady(life, max(at_ms - 2 * LEASE - 70 * SECOND, 600), at_ms):
                continue
            before = _processes(life.belief(at_ms - 55 * SECOND))
            gone = before - _processes(belief)
            asked = {
                deed.broker
                for deed in world.deeds
                if isinstance(deed, BrokerStops) and deed.how == "unregistered"
            }
            if len(gone) < 3 or gone & asked or 10 * len(gone) <= 3 * (len(before) + 1):
                continue
            if not any(
                alert.kind == "mass_loss" and alert.nodes == (life.node,) for alert in alerts
            ):
                yield f"missing: mass_loss of {life.node} at {at_ms / SECOND:g} s: {sorted(gone)}"


def _processes(belief: object) -> set[str]:
    assert isinstance(belief, dict)
    return {
        f"{broker}:{broker_id}"
        for (_, broker), listed in belief.items()
        for broker_id, _ in listed.addrs
    }
