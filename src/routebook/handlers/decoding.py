"""Decoding: what the registrations that are being worked on take, decoded, and for which host."""

from collections import Counter
from collections.abc import Mapping

from routebook.slices import Slices
from routebook.state.account import host_of
from routebook.wire.command import Reply
from routebook.wire.registration import DecodingRoom


class Decoding:
    def __init__(self) -> None:
        self._at_work: dict[DecodingRoom, str] = {}

    def at_work(self, room: DecodingRoom, peer: str, answer: Slices[Reply]) -> Slices[Reply]:
        """``answer``; until it is given, or given up, what is in ``room`` is held for ``peer``."""
        self._at_work[room] = host_of(peer)
        try:
            return (yield from answer)
        finally:
            del self._at_work[room]

    @property
    def by_host(self) -> Mapping[str, int]:
        taken: Counter[str] = Counter()
        for room, host in self._at_work.items():
            taken[host] += room.taken
        return taken
