"""Pending: how many answers may wait for the disk, or for a long look back, at the same time.

Each kind has a room of its own, and within it each host: what an administrator's program or a
stranger asks for again and again keeps nobody else from being answered.
"""

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from routebook.server.rota import Room
from routebook.wire.codes import RequestCode


class Kind(StrEnum):
    CHANGE = "changes"  # pairs and settings, on disk before they are acknowledged
    LOOK_BACK = "looks_back"  # the latest records and the state before them: a second of work


ROOMS: Mapping[Kind, Room] = {Kind.CHANGE: Room(4096, 1024), Kind.LOOK_BACK: Room(4, 2)}

KINDS: Mapping[int, Kind] = {
    RequestCode.PUT_KV_CONFIG: Kind.CHANGE,
    RequestCode.DELETE_KV_CONFIG: Kind.CHANGE,
    RequestCode.UPDATE_NAMESRV_CONFIG: Kind.CHANGE,
    RequestCode.ROUTEBOOK_RECENT: Kind.LOOK_BACK,
}


class Pending:
    def __init__(self, rooms: Mapping[Kind, Room] = ROOMS) -> None:
        self._rooms = rooms
        self._total: Counter[Kind] = Counter()
        self._by_host: Counter[tuple[Kind, str]] = Counter()
        self._refused: Counter[Kind] = Counter()

    def enter(self, kind: Kind, host: str) -> bool:
        """Whether there is room for one more; it has to ``leave`` then."""
        room, key = self._rooms[kind], (kind, host)
        if self._total[kind] >= room.total or self._by_host[key] >= room.host:
            self._refused[kind] += 1
            return False
        self._total[kind] += 1
        self._by_host[key] += 1
        return True

    def leave(self, kind: Kind, host: str) -> None:
        self._total[kind] -= 1
        key = kind, host
        self._by_host[key] -= 1
        if not self._by_host[key]:
            del self._by_host[key]

    def status(self) -> dict[str, dict[str, int]]:
        """For the health of the node."""
        return {
            "waiting": {kind.value: self._total[kind] for kind in Kind},
            "refused": {kind.value: self._refused[kind] for kind in Kind},
        }
