"""RouteRenderer: route answers joined from pieces encoded once.

A group keeps its own encoded broker data until it changes, and one encoded queue piece for
each queue shape it uses. Whole bodies are kept too, up to a byte limit, and thrown away
together with the next event: a poll of an unchanged table costs a look-up, a change costs
nothing until somebody asks.
"""

from collections.abc import Mapping

from routebook.settings import LiveSettings
from routebook.state.model import MASTER, Group, QueueShape
from routebook.state.routes import RouteTable
from routebook.wire import bodies

MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
MAX_KEPT_BYTES = 32 * 1024 * 1024
ENTRY_BYTES = 300  # beside its body
MAX_SHAPES = 1024  # per group; honest brokers have a handful


class RouteRenderer:
    def __init__(self, routes: RouteTable, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._routes = routes
        self._kept: dict[tuple[str, bool], bytes] = {}
        self._kept_bytes = 0

    def clear(self) -> None:
        """Forget whole bodies; to be called with every event."""
        if self._kept:
            self._kept.clear()
            self._kept_bytes = 0

    def body(self, topic: str, *, standard: bool, live: LiveSettings) -> bytes | None:
        """The route of ``topic`` without order configuration, or None when there is none."""
        kept = self._kept.get((topic, standard))
        if kept is not None:
            return kept
        queues = self._routes.topics.queues(topic)
        if not queues:
            return None
        rendered = self.render(topic, queues, standard=standard, live=live)
        size = len(rendered) + ENTRY_BYTES
        if self._kept_bytes + size > self._max_bytes:
            self.clear()
        if size <= self._max_bytes:
            self._kept[topic, standard] = rendered
            self._kept_bytes += size
        return rendered

    def render(
        self,
        topic: str,
        queues: Mapping[Group, QueueShape],
        *,
        standard: bool,
        live: LiveSettings,
        order_conf: str | None = None,
    ) -> bytes:
        """The route of ``topic`` as far as ``queues`` names groups."""
        acting = live.support_acting_master and not topic.startswith(MEMBER_TOPIC_PREFIX)
        brokers: list[bytes] = []
        for group, shape in queues.items():
            if acting and group.acting_master and MASTER not in group.members:
                addrs = group.addrs if shape.writable else with_acting_master(group.addrs)
                brokers.append(_broker_data(group, addrs, standard=standard))
            else:
                brokers.append(broker_piece(group, standard=standard))
        return bodies.topic_route(
            brokers,
            [_queue_piece(group, shape, standard=standard) for group, shape in queues.items()],
            filter_servers={
                member.addr: member.filter_servers
                for group in queues
                for member in group.members.values()
                if member.filter_servers
            },
            order_conf=order_conf,
            mappings=[
                bodies.queue_mapping(
                    bname=mapping.bname,
                    curr_id_map=mapping.curr_id_map,
                    dirty=mapping.dirty,
                    epoch=mapping.epoch,
                    scope=mapping.scope,
                    topic=mapping.topic,
                    total_queues=mapping.total_queues,
                    standard=standard,
                )
                for mapping in self._routes.topics.mappings(topic)
            ],
            standard=standard,
        )


def with_acting_master(addrs: dict[int, str]) -> dict[int, str]:
    """``addrs`` with the smallest id shown as the master."""
    lowest = min(addrs)
    return {MASTER: addrs[lowest], **{i: a for i, a in addrs.items() if i != lowest}}


def broker_piece(group: Group, *, standard: bool) -> bytes:
    """The encoded broker data of a group, kept with it until it changes."""
    rendered: list[bytes | None] | None = group.rendered
    if rendered is None:
        rendered = group.rendered = [None, None]
    piece = rendered[standard]
    if piece is None:
        piece = rendered[standard] = _broker_data(group, group.addrs, standard=standard)
    return piece


def _broker_data(group: Group, addrs: Mapping[int, str], *, standard: bool) -> bytes:
    return bodies.broker_data(
        addrs,
        group.name,
        group.cluster,
        acting_master=group.acting_master,
        zone=group.zone,
        standard=standard,
    )


def _queue_piece(group: Group, shape: QueueShape, *, standard: bool) -> bytes:
    pieces = group.rendered_queues
    key = (shape, standard)
    piece = pieces.get(key)
    if piece is None:
        if len(pieces) >= MAX_SHAPES:
            pieces.clear()
        piece = pieces[key] = bodies.queue_data(
            group.name,
            perm=shape.perm,
            read_queues=shape.read_queues,
            sys_flag=shape.sys_flag,
            write_queues=shape.write_queues,
            standard=standard,
        )
    return piece
