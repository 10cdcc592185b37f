"""Pending: how many answers may wait for their turn, the disk or a long look back at the same time.

Each kind has a room of its own, and within it each host: what an administrator's program or a
stranger asks for again and again keeps nobody else from being answered.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from routebook.server.scheduler import Room
from routebook.wire.codes import RequestCode


class Awaited(StrEnum):
    CALL = "short_calls"  # lists, pairs, settings: whatever a cluster can do without for a while
    CHANGE = "changes"  # pairs and settings, on disk before they are acknowledged
    LOOK_BACK = "looks_back"  # the latest records and the state before them: a second of work


ROOMS: Mapping[Awaited, Room] = {
    Awaited.CALL: Room(256, 64),
    Awaited.CHANGE: Room(4096, 1024),
    Awaited.LOOK_BACK: Room(4, 2),
}


class Share(StrEnum):
    """Of each turn of the loop; beyond it such requests wait for the next one."""

    QUICK = "quick"  # all of it: what brokers and clients need at once
    REGISTRATIONS = "registrations"
    WATCHES = "watches"  # after a restart all who watch come back at once
    CALLS = "calls"


PATIENT = frozenset({Share.REGISTRATIONS, Share.WATCHES})
"""They wait for a turn on their connections, however many they are; nobody is told to go away."""


SHARES: Mapping[int, Share] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Share.QUICK,
    RequestCode.UNREGISTER_BROKER: Share.QUICK,
    RequestCode.QUERY_DATA_VERSION: Share.QUICK,
    RequestCode.BROKER_HEARTBEAT: Share.QUICK,
    RequestCode.GET_BROKER_MEMBER_GROUP: Share.QUICK,
    RequestCode.REGISTER_BROKER: Share.REGISTRATIONS,
    RequestCode.ROUTEBOOK_WATCH: Share.WATCHES,
}
"""All others are calls."""

KINDS: Mapping[int, Awaited] = {
    RequestCode.PUT_KV_CONFIG: Awaited.CHANGE,
    RequestCode.DELETE_KV_CONFIG: Awaited.CHANGE,
    RequestCode.UPDATE_NAMESRV_CONFIG: Awaited.CHANGE,
    RequestCode.ROUTEBOOK_RECENT: Awaited.LOOK_BACK,
}


class Pending:
    def __init__(self, rooms: Mapping[Awaited, Room] = ROOMS) -> None:
        self._rooms = rooms
        self._total: Counter[Awaited] = Counter()
        self._by_host: Counter[tuple[Awaited, str]] = Counter()
        self._refused: Counter[Awaited] = Counter()

    def enter(self, kind: Awaited, host: str) -> bool:
        """Whether there is room for one more; it has to ``leave`` then."""
        room, key = self._rooms[kind], (kind, host)
        if self._total[kind] >= room.total or self._by_host[key] >= room.host:
            self._refused[kind] += 1
            return False
        self._total[kind] += 1
        self._by_host[key] += 1
        return True

    def leave(self, kind: Awaited, host: str) -> None:
        self._total[kind] -= 1
        key = kind, host
        self._by_host[key] -= 1
        if not self._by_host[key]:
            del self._by_host[key]

    def status(self) -> dict[str, dict[str, int]]:
        """For the health of the node."""
        return {
            "waiting": {kind.value: self._total[kind] for kind in Awaited},
            "refused": {kind.value: self._refused[kind] for kind in Awaited},
        }
