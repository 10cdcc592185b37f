"""LiveFeed: everything that is told to those who follow a gateway, in one order.

Events of the nodes, and what became of groups and nodes, each encoded once for all who listen. A
reader holds the number of the last thing it was told; nothing is queued for anybody. Who falls
behind is told so, and is told anew how everything is.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from time import monotonic

import msgspec

from routebook.documents.events import event_document
from routebook.gateway.api import shapes
from routebook.gateway.api.told import group_told, node_told, silent_for
from routebook.gateway.fleet_state import FleetState
from routebook.gateway.nodes import Fleet, FollowedNode
from routebook.gateway.ring import BEGAN, EVENT, Entry
from routebook.gateway.streams import sse
from routebook.journal.errors import JournalError
from routebook.journal.record import decode
from routebook.wire.overview import GroupTold
from routebook.words import exact

MOST_THINGS = 10_000
MOST_BYTES = 16 * 1024 * 1024
PIECE = 200  # groups in one frame
NODES_EVERY_S = 5.0

Groups = Mapping[tuple[str, str], GroupTold]


@dataclass(slots=True)
class Thing:
    """``state``: only for those who want to know how everything is. Encoded when first read."""

    number: int
    state: bool
    size: int
    frame: bytes | Callable[[], bytes]


class _EventInRing(msgspec.Struct):
    left_out: int
    record: msgspec.Raw


_decode_event = msgspec.json.Decoder(_EventInRing).decode


class LiveFeed:
    """``boot`` is another one in each gateway, so that ids of one mean nothing to the next."""

    def __init__(self, fleet: Fleet, state: FleetState) -> None:
        self._fleet = fleet
        self._state = state
        self._things: deque[Thing] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._groups: dict[str, Groups] = {}
        self._begun: set[str] = set()
        self._said: object = None
        self._said_s = 0.0
        self.boot = secrets.token_hex(4)
        self.last = 0

    # -- what there is to tell

    def note_event(self, entry: Entry) -> None:
        """To be told of each entry of the ring."""
        if entry.kind == BEGAN and entry.node not in self._begun:
            self._begun.add(entry.node)
            return
        self.last += 1
        number = self.id_of(self.last)
        self._add(Thing(self.last, False, len(entry.body), lambda: _event_frame(entry, number)))

    def look(self) -> None:
        """To be called after each look at a node, when the state of the fleet is known."""
        for node in self._fleet.nodes:
            view = None if node.view is None else node.view.value
            before, after = self._groups.get(node.name, {}), {} if view is None else view.groups
            changed = [group for key, group in after.items() if before.get(key) is not group]
            gone = [key for key in before if key not in after]
            self._groups[node.name] = after
            if view is not None and (changed or gone):
                for frame in groups_frames(node, changed, gone):
                    self._add_state(frame)
        said = (self._state.sentence.state, self._state.sentence.text, *self._state.nodes.values())
        if said != self._said or monotonic() - self._said_s >= NODES_EVERY_S:
            self._said, self._said_s = said, monotonic()
            self._add_state(self.nodes_frame())

    def nodes_frame(self) -> bytes:
        sentence = self._state.sentence
        document = {
            "state": sentence.state.value,
            "text": sentence.text,
            "since": exact(sentence.since_ms),
            "nodes": [node_told(node, self._state) for node in self._fleet.nodes],
        }
        return sse("nodes", document)

    def snapshot(self) -> Iterator[bytes]:
        """How everything is now."""
        yield self.nodes_frame()
        for node in self._fleet.nodes:
            if node.view is not None:
                groups = list(node.view.value.groups.values())
                yield from groups_frames(node, groups, [], first=True)

    # -- those who read

    def id_of(self, number: int) -> str:
        return f"{self.boot}-{number}"

    def place_of(self, text: str) -> int | None:
        """The number in an id; None for one of another gateway, or of nobody."""
        boot, _, number = text.partition("-")
        if boot != self.boot or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        return min(int(number), self.last)

    @property
    def first(self) -> int:
        """The number of the oldest thing there is; one more than ``last`` without any."""
        return self._things[0].number if self._things else self.last + 1

    def after(self, number: int, *, at_most: int = 200) -> list[Thing]:
        """What comes next; of what is gone, nothing."""
        start = max(0, number + 1 - self.first)
        return list(islice(self._things, start, start + at_most))

    def latest_events(self, count: int) -> int:
        """The number after which so many events follow."""
        number = self.last
        for thing in reversed(self._things):
            if not count:
                break
            number = thing.number - 1
            count -= not thing.state
        return number

    async def wait_beyond(self, number: int) -> None:
        while self.last <= number:
            await self._news.wait()

    def _add_state(self, frame: bytes) -> None:
        self.last += 1
        self._add(Thing(self.last, True, len(frame), frame))

    def _add(self, thing: Thing) -> None:
        self._things.append(thing)
        self._bytes += thing.size
        while len(self._things) > MOST_THINGS or self._bytes > MOST_BYTES:
            self._bytes -= self._things.popleft().size
        self._news.set()
        self._news = asyncio.Event()


def frame_of(thing: Thing) -> bytes:
    """Made once, by the first who reads it."""
    if not isinstance(thing.frame, bytes):
        thing.frame = thing.frame()
    return thing.frame


def groups_frames(
    node: FollowedNode,
    groups: list[GroupTold],
    gone: list[tuple[str, str]],
    *,
    first: bool = False,
) -> Iterator[bytes]:
    assert node.view is not None
    view = node.view.value
    silent = silent_for(view.silences)
    for start in range(0, max(1, len(groups)), PIECE):
        document: dict[str, object] = {
            "node": view.node,
            "address": node.name,
            "revision": view.rev,
            "groups": [group_told(group, silent) for group in groups[start : start + PIECE]],
            "gone": gone if start == 0 else [],
        }
        if first and start == 0:
            document["first"] = True
        yield sse("groups", document)


def _event_frame(entry: Entry, number: str) -> bytes:
    if entry.kind == EVENT:
        told = _decode_event(entry.body)
        try:
            record = decode(bytes(told.record))
        except JournalError as error:
            return sse("lost", _lost(entry, f"an event cannot be read: {error}"), number=number)
        document = msgspec.convert(event_document(record, left_out=told.left_out), shapes.EventTold)
        return sse("event", document, number=number)
    if entry.kind == BEGAN:
        text = f"{entry.node} was restarted; what happened meanwhile is in its journal."
    else:
        text = f"events of {entry.node} are gone; its journal may have them."
    return sse("lost", _lost(entry, text), number=number)


def _lost(entry: Entry, text: str) -> dict[str, object]:
    return {"node": entry.node, "text": text}
