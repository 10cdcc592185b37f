"""RouteRenderer: route answers joined from pieces encoded once.

A group keeps its own encoded broker data until it changes, and one encoded queue piece for
each queue shape it uses. Whole bodies are kept too, up to a byte limit, and thrown away
together with the next event: a poll of an unchanged table costs a look-up, a change costs
nothing until somebody asks.

A topic that thousands of groups hold is encoded in slices (``body_slices``), see ``WideRoutes``.
"""

from collections.abc import Callable, Mapping
from typing import Final

from routebook.events import StaticMapping
from routebook.settings import LiveSettings
from routebook.slices import Slices, finished
from routebook.state.model import MASTER, Group, QueueShape
from routebook.state.routes import RouteTable
from routebook.wire import bodies
from routebook.wire.wide_route import WideRoute

MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
MAX_KEPT_BYTES = 32 * 1024 * 1024
ENTRY_BYTES = 300  # beside its body
GROUPS_A_SLICE = 50
MAX_SHAPES = 1024  # per group; honest brokers have a handful
TOO_WIDE: Final = b"(not encoded at once)"  # no answer: it is known by being this very object


class RouteRenderer:
    def __init__(self, routes: RouteTable, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._routes = routes
        self._kept: dict[tuple[str, bool], bytes] = {}
        self._kept_bytes = 0
        self._changes = 0

    def clear(self) -> None:
        """Forget whole bodies; to be called with every event."""
        self._changes += 1
        if self._kept:
            self._kept.clear()
            self._kept_bytes = 0

    def body(self, topic: str, *, standard: bool, live: LiveSettings) -> bytes | None:
        """The route of ``topic`` without order configuration, or None when there is none.

        ``TOO_WIDE`` when it takes long to encode: see ``body_slices``.
        """
        kept = self._kept.get((topic, standard))
        if kept is not None:
            return kept
        if self._routes.topics.is_wide(topic):
            return TOO_WIDE
        queues = self._routes.topics.queues(topic)
        if not queues:
            return None
        rendered = self.render(topic, queues, standard=standard, live=live)
        self._keep(topic, rendered, standard=standard)
        return rendered

    def _keep(self, topic: str, rendered: bytes, *, standard: bool) -> None:
        size = len(rendered) + ENTRY_BYTES
        if self._kept_bytes + size > self._max_bytes:
            self._kept.clear()
            self._kept_bytes = 0
        if size <= self._max_bytes:
            self._kept[topic, standard] = rendered
            self._kept_bytes += size

    def body_slices(
        self,
        topic: str,
        *,
        standard: bool,
        live: LiveSettings,
        order_conf: str | None = None,
        wanted: Callable[[Group], bool] | None = None,
        at_most: int = 2**60,
    ) -> Slices[bytes | None]:
        """``render`` in slices, with the groups that are ``wanted``; None when nobody holds it.

        Each group as it is when its turn comes. Beyond ``at_most`` bytes it is not finished.
        """
        topics, changes = self._routes.topics, self._changes
        acting = _acting(topic, live)
        pieces = WideRoute(standard=standard)
        held = False
        for number, group in enumerate(topics.holders(topic), start=1):
            shape = topics.told(topic, group)
            if shape is not None:
                held = True
                if wanted is None or wanted(group):
                    pieces.add(
                        _broker_told(group, shape, acting=acting, standard=standard),
                        _queue_piece(group, shape, standard=standard),
                        _filter_servers(group),
                    )
            if number % GROUPS_A_SLICE == 0:
                yield
                if len(pieces) > at_most:
                    break
        if not held:
            return None
        body = yield from pieces.body(
            order_conf=order_conf,
            mappings=(_mapping(each, standard=standard) for each in topics.mappings(topic)),
        )
        if changes == self._changes and wanted is None and order_conf is None:
            self._keep(topic, body, standard=standard)
        return body

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
        brokers = (
            [
                _broker_told(group, shape, acting=True, standard=standard)
                for group, shape in queues.items()
            ]
            if _acting(topic, live)
            else [broker_piece(group, standard=standard) for group in queues]
        )
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
                finished(_mapping(mapping, standard=standard))
                for mapping in self._routes.topics.mappings(topic)
            ],
            standard=standard,
        )


def _acting(topic: str, live: LiveSettings) -> bool:
    return live.support_acting_master and not topic.startswith(MEMBER_TOPIC_PREFIX)


def _broker_told(group: Group, shape: QueueShape, *, acting: bool, standard: bool) -> bytes:
    """What those are told of ``group`` who ask for a topic it holds."""
    if acting and group.acting_master and MASTER not in group.members:
        addrs = group.addrs if shape.writable else with_acting_master(group.addrs)
        return _broker_data(group, addrs, standard=standard)
    return broker_piece(group, standard=standard)


def _filter_servers(group: Group) -> dict[str, tuple[str, ...]]:
    members = group.members.values()
    return {member.addr: member.filter_servers for member in members if member.filter_servers}


def _mapping(mapping: StaticMapping, *, standard: bool) -> Slices[bytes]:
    return bodies.queue_mapping_slices(
        bname=mapping.bname,
        curr_id_map=mapping.curr_id_map,
        dirty=mapping.dirty,
        epoch=mapping.epoch,
        scope=mapping.scope,
        topic=mapping.topic,
        total_queues=mapping.total_queues,
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
