"""RouteRenderer: route answers joined from pieces encoded once.

What is encoded of each broker group is kept (``Pieces``). Whole bodies are kept too, up to a byte
limit, and thrown away together with the next event: a poll of an unchanged table costs a look-up,
a change costs nothing until somebody asks.

A topic that thousands of groups hold is encoded in slices (``body_slices``), see ``WideRoutes``.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from routebook.events import StaticMapping
from routebook.handlers.pieces import Pieces, RoutePieces, broker_data
from routebook.settings import LiveSettings
from routebook.slices import Slices, finished
from routebook.state.model import MASTER, Group, QueueShape
from routebook.state.routes import RouteTable
from routebook.watch import etags
from routebook.wire import bodies
from routebook.wire.wide_route import WideRoute

MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
MAX_KEPT_BYTES = 32 * 1024 * 1024
ENTRY_BYTES = 300  # beside its body
GROUPS_A_SLICE = 50
SUMMED_A_SLICE = 200
TOO_WIDE: Final = b"(not encoded at once)"  # no answer: it is known by being this very object


class RouteRenderer:
    def __init__(self, routes: RouteTable, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._routes = routes
        self.pieces = Pieces()
        self._kept: dict[tuple[str, bool], bytes] = {}
        self._kept_bytes = 0
        self._changes = 0

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

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
                    told = self._pieces_of({group: shape}, acting=acting, standard=standard)
                    pieces.add(told.brokers[0], told.queues[0], told.filter_servers)
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

    def summed(
        self, topic: str, *, live: LiveSettings, order_conf: str | None
    ) -> Slices[tuple[int, int]]:
        """The sum of the hashes of all parts of a route, and how many groups it has.

        The same wherever the same groups hold the topic, in whatever order.
        """
        topics, acting = self._routes.topics, _acting(topic, live)
        total = width = 0
        groups = iter(topics.holders(topic))
        while some := list(islice(groups, SUMMED_A_SLICE)):
            told = ((group, topics.told(topic, group)) for group in some)
            queues = {group: shape for group, shape in told if shape is not None}
            pieces = self._pieces_of(queues, acting=acting, standard=True)
            total += etags.summed(map(b"".join, zip(pieces.brokers, pieces.queues, strict=True)))
            for addr, servers in pieces.filter_servers.items():
                total += etags.summed([repr((addr, *servers)).encode()])
            width += len(queues)
            if len(some) == SUMMED_A_SLICE:
                yield
        for mapping in topics.mappings(topic) if width else ():
            total += etags.summed([(yield from _mapping(mapping, standard=True))])
        if order_conf is not None:
            total += etags.summed([b"order:" + order_conf.encode(errors="surrogatepass")])
        return total, width

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
        pieces = self._pieces_of(queues, acting=_acting(topic, live), standard=standard)
        return bodies.topic_route(
            pieces.brokers,
            pieces.queues,
            filter_servers=pieces.filter_servers,
            order_conf=order_conf,
            mappings=[
                finished(_mapping(mapping, standard=standard))
                for mapping in self._routes.topics.mappings(topic)
            ],
            standard=standard,
        )

    def _pieces_of(
        self, queues: Mapping[Group, QueueShape], *, acting: bool, standard: bool
    ) -> RoutePieces:
        """What those are told of ``queues`` who ask for their topic."""
        pieces = self.pieces.gathered(queues, standard=standard)
        if acting:
            for number, (group, shape) in enumerate(queues.items()):
                if group.acting_master and MASTER not in group.members:
                    addrs = group.addrs if shape.writable else with_acting_master(group.addrs)
                    pieces.brokers[number] = broker_data(group, addrs, standard=standard)
        return pieces


def _acting(topic: str, live: LiveSettings) -> bool:
    return live.support_acting_master and not topic.startswith(MEMBER_TOPIC_PREFIX)


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
