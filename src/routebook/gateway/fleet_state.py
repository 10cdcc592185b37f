"""FleetState: what the nodes of a gateway are together, since when, and in one sentence.

It looks whenever a node was looked at. What a node said is its own; since when nodes differ, and
since when all is well, only somebody knows who watches all of them.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from time import time_ns

import msgspec

from routebook.documents.events import event_document, is_alarming
from routebook.gateway.nodes import Fleet, FollowedNode, NodeView
from routebook.gateway.readiness import readiness
from routebook.gateway.ring import EVENT
from routebook.journal.errors import JournalError
from routebook.journal.record import decode, type_written
from routebook.wire.overview import GroupTold
from routebook.words import counted, exact, listed, span

Key = tuple[str, str]  # cluster and broker name

MOST_CONVERGED = 20
MOST_INCIDENTS = 20
LASTING_MS = 30_000  # nodes that differ for longer tell clients wrong things

_ALARMING = tuple(
    map(
        type_written,
        (
            "BrokerLeft",
            "BrokerConflict",
            "GuardEngaged",
            "GuardReleased",
            "JournalRecovered",
            "NodeStalled",
            "NodeStopped",
            "NoiseCounted",
            "RecordsLost",
            "RequestRefused",
        ),
    )
)


class NodeState(StrEnum):
    UP = "up"
    STARTING = "starting"
    DRAINING = "draining"
    DOWN = "down"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class State(StrEnum):
    WELL = "well"
    ATTENTION = "attention"
    TROUBLE = "trouble"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why not all is well; ``see`` is where more is told."""

    severity: Severity
    text: str
    see: str


@dataclass(frozen=True, slots=True)
class Passed:
    """A difference between nodes that is over."""

    key: Key
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """How everything is; ``since_ms`` is when it became so."""

    state: State
    text: str
    since_ms: int
    reasons: tuple[Reason, ...]


class _Entry(msgspec.Struct):
    left_out: int
    record: msgspec.Raw


_decode_entry = msgspec.json.Decoder(_Entry).decode


@dataclass(slots=True)
class FleetState:
    fleet: Fleet
    wall_ms: Callable[[], int] = lambda: time_ns() // 1_000_000
    nodes: dict[str, tuple[NodeState, int]] = field(default_factory=dict)  # and since when
    differing: dict[Key, int] = field(default_factory=dict)  # and since when
    converged: deque[Passed] = field(default_factory=lambda: deque(maxlen=MOST_CONVERGED))
    incidents: deque[dict[str, object]] = field(
        default_factory=lambda: deque(maxlen=MOST_INCIDENTS)
    )
    sentence: Sentence = field(init=False)
    _seen: tuple[object, ...] = ()
    _read: int = 0

    def __post_init__(self) -> None:
        self.sentence = Sentence(State.UNKNOWN, "No node has been asked yet.", self.wall_ms(), ())
        self.look()

    def look(self) -> None:
        """See what is different from the last look."""
        now_ms = self.wall_ms()
        for node in self.fleet.nodes:
            state = state_of(node)
            if node.name not in self.nodes or self.nodes[node.name][0] is not state:
                self.nodes[node.name] = state, now_ms
        self._compare(now_ms)
        self._note_incidents()
        self._say(now_ms)

    # -- whether nodes say the same

    def up(self) -> list[tuple[FollowedNode, NodeView]]:
        """Nodes whose word counts, and what they said."""
        return [
            (node, node.view.value)
            for node in self.fleet.nodes
            if node.view is not None and self.nodes[node.name][0] is NodeState.UP
        ]

    def _compare(self, now_ms: int) -> None:
        up = self.up()
        seen = tuple((node.name, view.boot, view.rev) for node, view in up)
        working = any("" in (g.digest for g in view.groups.values()) for _, view in up)
        if seen == self._seen and not working:
            return
        self._seen = seen
        keys = {key for _, view in up for key in view.groups} | set(self.differing)
        for key in keys:
            agree = agreement([view.groups.get(key) for _, view in up])
            if agree is False:
                self.differing.setdefault(key, now_ms)
            elif agree is True and key in self.differing:
                self.converged.appendleft(Passed(key, self.differing.pop(key), now_ms))
            elif agree is None and len(up) < 2:
                self.differing.pop(key, None)

    # -- what somebody should know of

    def _note_incidents(self) -> None:
        unread = self.fleet.ring.after(self._read, at_most=10_000)
        for entry in unread.entries:
            self._read = entry.number
            if entry.kind == EVENT and any(kind in entry.body for kind in _ALARMING):
                told = _decode_entry(entry.body)
                try:
                    record = decode(bytes(told.record))
                except JournalError:
                    continue  # of a newer version
                if is_alarming(record.event):
                    document = event_document(record, left_out=told.left_out)
                    self.incidents.appendleft(document)

    # -- in a sentence

    def _say(self, now_ms: int) -> None:
        reasons = tuple(
            sorted(self._reasons(now_ms), key=lambda reason: [*Severity].index(reason.severity))
        )
        if not any(state is NodeState.UP for state, _ in self.nodes.values()):
            state = State.UNKNOWN
        else:
            worst = reasons[0].severity if reasons else Severity.INFO
            state = {
                Severity.ERROR: State.TROUBLE,
                Severity.WARNING: State.ATTENTION,
                Severity.INFO: State.WELL,
            }[worst]
        since_ms = now_ms if state is not self.sentence.state else self.sentence.since_ms
        self.sentence = Sentence(state, self._text(state, reasons), since_ms, reasons)

    def _text(self, state: State, reasons: tuple[Reason, ...]) -> str:
        known = self._known()
        if state is State.UNKNOWN:
            names = listed([node.name for node in self.fleet.nodes])
            return f"No node answers ({names}): what brokers and clients see is not known."
        if state is State.WELL:
            return f"All is well: {known}."
        worse = [each.text for each in reasons if each.severity is not Severity.INFO]
        more = f" And {counted(len(worse) - 1, 'more thing')} to look at." if worse[1:] else ""
        return f"{worse[0]}{more} {known[0].upper()}{known[1:]}."

    def _known(self) -> str:
        largest = self.largest()
        if largest is None:
            return "nothing is known"
        condition = largest[1].condition
        things = f"{counted(condition.brokers, 'broker')} and {counted(condition.topics, 'topic')}"
        up = len(self.up())
        if up == 1:
            return f"the node that answers knows {things}"
        verb = "know" if self.differing else "agree on"
        return f"{up} nodes {verb} {things}"

    def largest(self) -> tuple[FollowedNode, NodeView] | None:
        """The node that knows most."""
        return max(self.up(), key=lambda each: each[1].condition.brokers, default=None)

    def _reasons(self, now_ms: int) -> Iterator[Reason]:
        for node in self.fleet.nodes:
            yield from self._of_node(node)
        lasting = sorted(
            key for key, since_ms in self.differing.items() if now_ms - since_ms >= LASTING_MS
        )
        if lasting:
            names = listed([broker for _, broker in lasting])
            since = exact(min(self.differing[key] for key in lasting))
            yield Reason(
                Severity.ERROR,
                f"The nodes have said different things of {names} since {since}.",
                "/v1/differences",
            )
        elif self.differing:
            names = listed(sorted(broker for _, broker in self.differing))
            yield Reason(Severity.INFO, f"The nodes differ in {names} just now.", "/v1/nodes")
        largest = self.largest()
        if largest is not None:
            orphans = sorted(
                group.broker
                for group in largest[1].groups.values()
                if group.members and all(member.id for member in group.members)
            )
            if orphans:
                text = f"{listed(orphans)} {'has' if len(orphans) == 1 else 'have'} no master."
                yield Reason(Severity.WARNING, text, "/v1/brokers")

    def _of_node(self, node: FollowedNode) -> Iterator[Reason]:
        state, _ = self.nodes[node.name]
        if state is NodeState.DOWN:
            why = "" if node.trouble is None else f": {node.trouble.what.rstrip('.')}"
            silent = span(round(node.silent_s) * 1000)
            text = f"{node.name} has not answered for {silent}{why}."
            yield Reason(Severity.WARNING, text, "/v1/nodes")
        elif state is NodeState.FOREIGN:
            text = f"{node.name} is not a Routebook node, and tells little of itself."
            yield Reason(Severity.INFO, text, "/v1/nodes")
        elif state in (NodeState.STARTING, NodeState.DRAINING):
            text = f"{node.name}: {'; '.join(readiness(node).reasons)}."
            yield Reason(Severity.INFO, text, "/v1/nodes")
        if state is not NodeState.UP or node.view is None:
            return
        condition = node.view.value.condition
        if condition.journal_failing:
            text = f"{node.name} cannot write its journal."
            yield Reason(Severity.ERROR, text, "/v1/doctor")
        if condition.memory_pressed:
            text = f"{node.name} is short of memory, and takes nothing more in."
            yield Reason(Severity.ERROR, text, "/v1/doctor")
        if condition.held:
            text = f"The guard of {node.name} holds {counted(condition.held, 'silent broker')}."
            yield Reason(Severity.WARNING, text, "/v1/guard")
        if condition.unconfirmed:
            text = (
                f"{node.name} has not heard of {condition.unconfirmed} of"
                f" {counted(condition.brokers, 'broker')} since it was restarted."
            )
            yield Reason(Severity.INFO, text, "/v1/brokers")


def state_of(node: FollowedNode) -> NodeState:
    if node.ping_s is None:
        return NodeState.UNKNOWN if node.trouble is None else NodeState.DOWN
    if not node.alive or not node.answering:
        return NodeState.DOWN
    if node.offers_summary is False:
        return NodeState.FOREIGN
    if node.view is None:
        return NodeState.UNKNOWN
    condition = node.view.value.condition
    if node.leaving or node.following.leaving or condition.draining:
        return NodeState.DRAINING
    return NodeState.STARTING if condition.waiting_for_service else NodeState.UP


def agreement(groups: list[GroupTold | None]) -> bool | None:
    """Whether nodes say the same of a group; None where it takes two, or a digest is not ready."""
    if len(groups) < 2:
        return None
    digests = {None if group is None else group.digest for group in groups}
    return None if "" in digests else len(digests) == 1
