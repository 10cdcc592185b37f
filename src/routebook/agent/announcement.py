"""Announcements: what is said to a NameServer, encoded once for all of them.

A table too large for one frame goes in parts. NameServers pass over topics they know when a
registration repeats the data version they hold, so only the last part carries the table's
version; those before it carry it with timestamps one millisecond apart:

    part 1 of 3: timestamp - 2     part 2 of 3: timestamp - 1     part 3 of 3: timestamp

Each part counts as a change, and a node that got only some of them answers "changed" when asked.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from routebook.agent.settings import BrokerSettings
from routebook.agent.topics import TopicTable, restricted
from routebook.wire.broker_requests import (
    Topic,
    TopicSlice,
    broker_heartbeat,
    packed_body,
    packed_slice,
    plain_body,
    plain_slice,
    query_data_version,
    register_broker,
    register_topic,
    unregister_broker,
)
from routebook.wire.codes import Version
from routebook.wire.command import Command
from routebook.wire.frame import MAX_FRAME
from routebook.wire.registration import DataVersion

MAX_BODY = MAX_FRAME - 64 * 1024  # room for the header and what surrounds the topics
PART_BYTES = 4 * 1024 * 1024
TOPICS_A_SLICE = 100
IN_A_THREAD = 2000  # more topics than this are encoded beside the event loop
MAX_SINGLES = 16  # more changed topics than this are not announced one by one


@dataclass(frozen=True, slots=True)
class Announcement:
    """Requests to be answered one after the other; then the node holds ``version``.

    ``opening`` comes first for a node that does not know the broker: a registration of no topic,
    since one of a single topic would be refused.
    """

    version: DataVersion
    parts: tuple[Command, ...]
    opening: Command | None = None

    @property
    def split(self) -> bool:
        return len(self.parts) > 1


def whole_table(
    topics: Sequence[Topic],
    settings: BrokerSettings,
    *,
    version: DataVersion,
    permission: int,
    mapping_version: DataVersion,
) -> Announcement:
    said = [restricted(topic, permission, whole_table=True) for topic in topics]
    return _announcement(said, settings, version=version, mapping_version=mapping_version)


def changed_topics(
    topics: Sequence[Topic],
    settings: BrokerSettings,
    *,
    version: DataVersion,
    permission: int,
    mapping_version: DataVersion,
) -> Announcement:
    """A registration of these topics only."""
    said = [restricted(topic, permission, whole_table=False) for topic in topics]
    return _announcement(said, settings, version=version, mapping_version=mapping_version)


def single_topics(
    topics: Sequence[Topic], broker_name: str, *, version: DataVersion, permission: int
) -> Announcement:
    """One request for each topic."""
    copies = [msgspec.structs.replace(topic, perm=topic.perm & permission) for topic in topics]
    return Announcement(version, tuple(register_topic(topic, broker_name) for topic in copies))


def _announcement(
    topics: Sequence[Topic],
    settings: BrokerSettings,
    *,
    version: DataVersion,
    mapping_version: DataVersion,
) -> Announcement:
    parts = _parts(topics, settings)

    def registration(slices: list[TopicSlice], parts_to_come: int) -> Command:
        stamp = DataVersion(
            version.counter, version.state_version, (version.timestamp or 0) - parts_to_come
        )
        if settings.compressed:
            body = packed_body(stamp, slices)
        else:
            body = plain_body(stamp, slices, mapping_version=mapping_version)
        return register_broker(settings.header, body)

    commands = [registration(slices, len(parts) - number) for number, slices in enumerate(parts, 1)]
    alone = sum(piece.count for piece in parts[0]) == 1
    return Announcement(version, tuple(commands), registration([], len(parts)) if alone else None)


def _parts(topics: Sequence[Topic], settings: BrokerSettings) -> list[list[TopicSlice]]:
    """The topics in slices, and the slices in parts that a frame can hold."""
    encoded = packed_slice if settings.compressed else plain_slice
    most = settings.split_topics or len(topics)
    slices = [
        encoded(topics[start : min(start + TOPICS_A_SLICE, end)])
        for begin in range(0, len(topics), max(most, 1))
        for end in [min(begin + most, len(topics))]
        for start in range(begin, end, TOPICS_A_SLICE)
    ]
    whole = sum(len(piece.encoded) + 1 for piece in slices) <= MAX_BODY
    if whole and len(topics) <= most:
        return [slices]
    parts: list[list[TopicSlice]] = [[]]
    count = size = 0
    for piece in slices:
        if parts[-1] and (count + piece.count > most or size > PART_BYTES):
            parts.append([])
            count = size = 0
        parts[-1].append(piece)
        count += piece.count
        size += len(piece.encoded)
    return parts


class Announcer:
    """Says what a broker has to say now."""

    def __init__(self, settings: BrokerSettings, table: TopicTable) -> None:
        self._settings = settings
        self._table = table
        self._mapping_version = DataVersion(0, 0, table.version.timestamp)
        self._last: Announcement | None = None
        self._split = False
        self._lock = asyncio.Lock()  # nodes that need the same thing wait for the first of them

    @property
    def version(self) -> DataVersion:
        return self._table.version

    @property
    def asks_first(self) -> bool:
        """Whether a node that holds the table is only asked if it still does."""
        return not self._settings.force or self._split

    async def everything(self, held: DataVersion | None) -> Announcement:
        """The whole table, for a node that holds an earlier version of it, or nothing."""
        async with self._lock:
            table = self._table
            version = table.version
            removed = [] if held is None else table.removed_since(held.counter)
            if not removed and self._last is not None and self._last.version == version:
                return self._last
            topics = [*table.topics.values(), *removed]
            if len(topics) > IN_A_THREAD:
                made = await asyncio.to_thread(self._whole, topics, version, table.permission)
            else:
                made = self._whole(topics, version, table.permission)
            self._split = made.split
            if not removed:
                self._last = made
            return made

    def _whole(self, topics: list[Topic], version: DataVersion, permission: int) -> Announcement:
        return whole_table(
            topics,
            self._settings,
            version=version,
            permission=permission,
            mapping_version=self._mapping_version,
        )

    def changes(self, held: DataVersion, *, server_version: int) -> Announcement | None:
        """What a node that holds ``held`` has to learn; None: everything."""
        settings, table = self._settings, self._table
        topics = None if settings.announce == "full" else table.changed_since(held.counter)
        # A server of 4.9 does not answer requests it does not know, this one among them.
        singly = settings.announce == "single" and server_version >= Version.V5_0_0
        if topics is None or (singly and len(topics) > MAX_SINGLES):
            return None
        if singly:
            return single_topics(
                topics, settings.name, version=table.version, permission=table.permission
            )
        return changed_topics(
            topics,
            settings,
            version=table.version,
            permission=table.permission,
            mapping_version=self._mapping_version,
        )

    def question(self) -> Command:
        return query_data_version(self._settings.identity, self._table.version)

    def heartbeat(self) -> Command:
        """The light one, or the question, which servers before 5.0 understand as well."""
        if self._settings.heartbeat == "light":
            return broker_heartbeat(self._settings.identity)
        return self.question()

    def farewell(self) -> Command:
        return unregister_broker(self._settings.identity)
