"""TopicTable: what one broker offers, which version of it, and what changed since another version.

    put orders              counter 1   changed since 0: orders
    put payments            counter 2   changed since 0: orders, payments; since 1: payments
    remove orders           counter 3   changed since 1: payments, orders without permission
    permission 6 -> 4       counter 4   changed since 3: everything

A NameServer keeps a topic until it is told otherwise, and has no request by which a broker takes
back one of its own. A removed topic is therefore announced once without any permission, so that
clients stop using it, and is left out of what is registered from then on.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from routebook.wire.answers import PERM_READ, PERM_WRITE
from routebook.wire.broker_requests import Topic
from routebook.wire.registration import DataVersion

CHANGES_KEPT = 256
MAX_LISTED = 1000  # a change of more topics counts as a change of everything
MAX_REMOVED = 10_000  # removed topics that are remembered

_READ_WRITE = PERM_READ | PERM_WRITE


class TopicTable:
    """The version moves with every change of topics or of the broker's permission."""

    def __init__(
        self, topics: Iterable[Topic] = (), *, permission: int, state_version: int, now_ms: int
    ) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._permission = permission
        self._version = DataVersion(0, state_version, now_ms)
        # Counter after each change, and which topics it touched; None: all of them.
        self._changes: deque[tuple[int, frozenset[str] | None]] = deque(maxlen=CHANGES_KEPT)
        self._removed: dict[str, tuple[int, Topic]] = {}  # with the counter after the removal

    @property
    def topics(self) -> Mapping[str, Topic]:
        return MappingProxyType(self._topics)

    @property
    def version(self) -> DataVersion:
        return self._version

    @property
    def permission(self) -> int:
        return self._permission

    # -- changing; each says whether, or in what, it changed anything

    def put(self, topic: Topic, *, now_ms: int) -> bool:
        return self._apply({topic.name: topic}, (), now_ms)

    def remove(self, name: str, *, now_ms: int) -> bool:
        return self._apply({}, [name], now_ms)

    def replace(self, topics: Iterable[Topic], *, now_ms: int) -> bool:
        """Offer these topics and no others."""
        wanted = {topic.name: topic for topic in topics}
        gone = [name for name in self._topics if name not in wanted]
        return self._apply(wanted, gone, now_ms)

    def mark_ordered(self, names: Iterable[str], *, now_ms: int) -> frozenset[str]:
        """Set the order flag of those of ``names`` that lack it; nothing ever clears it here."""
        marked = {
            name: msgspec.structs.replace(topic, order=True)
            for name in names
            if (topic := self._topics.get(name)) is not None and not topic.order
        }
        self._apply(marked, (), now_ms)
        return frozenset(marked)

    def set_permission(self, permission: int, *, now_ms: int) -> bool:
        if permission == self._permission:
            return False
        self._permission = permission
        self._bump(None, now_ms)
        return True

    def _apply(self, put: Mapping[str, Topic], remove: Iterable[str], now_ms: int) -> bool:
        known = self._topics
        changed = {name: topic for name, topic in put.items() if known.get(name) != topic}
        removed = [name for name in remove if name in known]
        if not changed and not removed:
            return False
        names = frozenset(changed).union(removed)
        self._bump(names if len(names) <= MAX_LISTED else None, now_ms)
        known.update(changed)
        for name in changed:
            self._removed.pop(name, None)
        for name in removed:
            self._removed[name] = (self._version.counter, known.pop(name))
        while len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]
        return True

    def _bump(self, names: frozenset[str] | None, now_ms: int) -> None:
        version = self._version
        self._version = DataVersion(version.counter + 1, version.state_version, now_ms)
        self._changes.append((self._version.counter, names))

    # -- comparing with an earlier version

    def changed_since(self, counter: int) -> list[Topic] | None:
        """Topics to announce to whoever knows the table as of ``counter``; None: all of them."""
        names: set[str] = set()
        missing = self._version.counter - counter
        if missing > len(self._changes):
            return None
        for _, touched in list(self._changes)[len(self._changes) - missing :]:
            if touched is None:
                return None
            names |= touched
        if len(names) > MAX_LISTED:
            return None
        changed = [self._topics[name] for name in sorted(names) if name in self._topics]
        return changed + [t for t in self.removed_since(counter) if t.name in names]

    def removed_since(self, counter: int) -> list[Topic]:
        """Topics removed after ``counter``, as they are announced: without any permission."""
        return [
            msgspec.structs.replace(topic, perm=0)
            for removed_at, topic in self._removed.values()
            if removed_at > counter
        ]


def restricted(topic: Topic, permission: int, *, whole_table: bool) -> Topic:
    """``topic`` as a broker of that permission registers it.

    A broker that may be read and written says what it has. One that lacks either registers
    copies with what is left of their permission and defaults for the rest; a change of single
    topics keeps their system flags (reference: BrokerController.registerBrokerAll and
    registerIncrementBrokerData).
    """
    if permission & _READ_WRITE == _READ_WRITE:
        return topic
    return Topic(
        topic.name,
        topic.read_queues,
        topic.write_queues,
        topic.perm & permission,
        0 if whole_table else topic.sys_flag,
    )
