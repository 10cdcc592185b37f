"""Pieces: what is encoded of a broker group, once, until the group changes or is gone.

A group has its broker data, and a queue piece for each shape of queues that it uses.
"""

from collections.abc import Mapping
from typing import NamedTuple
from weakref import ref

from routebook.state.model import Group, QueueShape
from routebook.wire import bodies

MAX_SHAPES = 1024  # per group; honest brokers have a handful

FilterServers = dict[str, tuple[str, ...]]  # by address


class RoutePieces(NamedTuple):
    """What a route is made of: one of each for each group, and filter servers of all of them."""

    brokers: list[bytes]
    queues: list[bytes]
    filter_servers: FilterServers


class Pieces:
    def __init__(self) -> None:
        self._by_id: dict[int, _GroupPieces] = {}

    def gathered(self, queues: Mapping[Group, QueueShape], *, standard: bool) -> RoutePieces:
        """All of ``queues``. Every route goes through here: it calls next to nothing."""
        find = self._by_id.get
        found = RoutePieces([], [], {})
        brokers, told, filter_servers = found
        for group, shape in queues.items():
            kept = find(id(group))
            if kept is None or kept.version != group.version:
                kept = self._begun(group)
            brokers.append(kept.brokers[standard] or kept.encode_broker(group, standard))
            told.append(
                kept.queues[standard].get(shape) or kept.encode_queues(group, shape, standard)
            )
            if kept.filter_servers:
                filter_servers.update(kept.filter_servers)
        return found

    def broker(self, group: Group, *, standard: bool) -> bytes:
        """The name, cluster and addresses of one group."""
        kept = self._by_id.get(id(group))
        if kept is None or kept.version != group.version:
            kept = self._begun(group)
        return kept.brokers[standard] or kept.encode_broker(group, standard)

    def __len__(self) -> int:
        return sum(len(shapes) for kept in self._by_id.values() for shapes in kept.queues)

    def _begun(self, group: Group) -> "_GroupPieces":
        by_id, number = self._by_id, id(group)
        # They go with the group, so that no other one is ever taken for it.
        alive = ref(group, lambda _: by_id.pop(number))
        kept = by_id[number] = _GroupPieces(alive, group)
        return kept


class _GroupPieces:
    """Of one version of a group, for answers in either JSON: not standard, and standard."""

    __slots__ = ("alive", "brokers", "filter_servers", "queues", "version")

    def __init__(self, alive: "ref[Group]", group: Group) -> None:
        self.alive = alive  # kept, so that somebody hears of the end of the group
        self.version = group.version
        self.brokers: list[bytes | None] = [None, None]
        self.queues: tuple[dict[QueueShape, bytes], dict[QueueShape, bytes]] = ({}, {})
        self.filter_servers: FilterServers = {
            member.known.addr: member.known.filter_servers
            for member in group.members.values()
            if member.known.filter_servers
        }

    def encode_broker(self, group: Group, standard: bool) -> bytes:
        piece = self.brokers[standard] = broker_data(group, group.addrs, standard=standard)
        return piece

    def encode_queues(self, group: Group, shape: QueueShape, standard: bool) -> bytes:
        pieces = self.queues[standard]
        if len(pieces) >= MAX_SHAPES // 2:
            pieces.clear()
        piece = pieces[shape] = bodies.queue_data(
            group.name,
            perm=shape.perm,
            read_queues=shape.read_queues,
            sys_flag=shape.sys_flag,
            write_queues=shape.write_queues,
            standard=standard,
        )
        return piece


def broker_data(group: Group, addrs: Mapping[int, str], *, standard: bool) -> bytes:
    return bodies.broker_data(
        addrs,
        group.name,
        group.cluster,
        acting_master=group.acting_master,
        zone=group.zone,
        standard=standard,
    )
