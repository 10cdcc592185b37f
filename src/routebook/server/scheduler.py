"""Scheduler: whose long answer is worked on next, and for whom there is no room.

Long answers wait in lanes, and lanes take turns by the slice:

* REGISTRATION: a broker has something new to say. Most are done within a few slices.
* LARGE: registrations that were not. They keep each other waiting, and nobody else. One that finds
  the lane empty goes on in it; where another is open it is begun anew when its turn comes.
* CALL: everything else, such as lists for administrators.

Within a lane the hosts of peers take turns, so who sends a hundred waits for a hundred and others
wait for one of them. One answer of each lane is open at a time: memory is bounded by that.

    10.0.0.9 sends A B C, 10.0.0.1 sends D      worked on: A D B C
"""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")


class Lane(StrEnum):
    REGISTRATION = "registrations"
    LARGE = "large_registrations"
    CALL = "calls"


class Room(NamedTuple):
    """How many may wait, in all and of one host."""

    total: int
    host: int


# Beyond these whoever asks would have given up (brokers after 24 s) by the time of the answer.
ROOMS: Mapping[Lane, Room] = {
    Lane.REGISTRATION: Room(2048, 1024),
    Lane.LARGE: Room(256, 64),
    Lane.CALL: Room(256, 64),
}
TRIAL_S = 0.03  # of work, within which a broker of 10,000 topics is registered
_ORDER = (Lane.REGISTRATION, Lane.CALL, Lane.REGISTRATION, Lane.LARGE)


class Scheduler(Generic[W]):
    def __init__(self, rooms: Mapping[Lane, Room] = ROOMS) -> None:
        self._rooms = rooms
        self._waiting: dict[Lane, dict[str, deque[W]]] = {lane: {} for lane in Lane}
        self._counts = dict.fromkeys(Lane, 0)
        self._turn = 0
        self.refused = dict.fromkeys(Lane, 0)

    def __len__(self) -> int:
        return sum(self._counts.values())

    def is_idle(self, lane: Lane) -> bool:
        """Whether no answer of ``lane`` is open."""
        return not self._counts[lane]

    def put(self, lane: Lane, host: str, worker: W) -> bool:
        """Have ``worker`` wait for its turns; False where there is no room."""
        hosts, room = self._waiting[lane], self._rooms[lane]
        waiting = hosts.get(host)
        if self._counts[lane] >= room.total or (waiting and len(waiting) >= room.host):
            self.refused[lane] += 1
            return False
        if waiting is None:
            waiting = hosts[host] = deque()
        waiting.append(worker)
        self._counts[lane] += 1
        return True

    def pick(self) -> tuple[Lane, W] | None:
        """Who has the next slice: the open answer of the next lane, or the first to be opened."""
        for _ in _ORDER:
            lane = _ORDER[self._turn]
            self._turn = (self._turn + 1) % len(_ORDER)
            if hosts := self._waiting[lane]:
                return lane, next(iter(hosts.values()))[0]
        return None

    def leave(self, lane: Lane) -> None:
        """The open answer of ``lane`` is given, or goes elsewhere; its host is last now."""
        hosts = self._waiting[lane]
        host = next(iter(hosts))
        waiting = hosts.pop(host)
        waiting.popleft()
        self._counts[lane] -= 1
        if waiting:
            hosts[host] = waiting

    def status(self) -> dict[str, dict[str, int]]:
        """For the health of the node."""
        return {
            "waiting": {lane.value: count for lane, count in self._counts.items()},
            "refused": {lane.value: count for lane, count in self.refused.items()},
        }
