"""What handlers work with."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from routebook.events import Event, Subject
from routebook.handlers.absence import Absences
from routebook.handlers.counts import RequestCounts
from routebook.handlers.decoding import Decoding
from routebook.handlers.memo import AnswerMemo
from routebook.handlers.order import OrderTable
from routebook.handlers.rendering import RouteRenderer
from routebook.handlers.tally import QueryTally
from routebook.handlers.wide_routes import WideRoutes
from routebook.settings import LiveSettings, Network
from routebook.slices import Slices, finished
from routebook.state.kv import KvChange, KvStore
from routebook.state.model import Link
from routebook.state.routes import RouteTable
from routebook.watch.groups import GroupBook
from routebook.watch.hub import Watchers
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply
from routebook.wire.overview import Condition


@dataclass(frozen=True, slots=True)
class Caller:
    """The connection a request came over; ``inside``: of the node's own gateway."""

    link: Link
    peer: str
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Recent:
    """Lines of the latest records, after those of a state; ``why`` there is none, if so.

    ``dropped`` of the oldest records did not fit.
    """

    lines: Sequence[bytes]
    from_seq: int
    dropped: int
    why: str | None


@dataclass(frozen=True, slots=True)
class Control:
    """What a node tells of itself beyond RocketMQ's requests, and lets be done to it.

    ``recent`` gives the latest records about a topic, a broker, or everything.
    ``remote`` allows changes to peers that are not on this machine. Others than those of
    ``values_shown_to`` are told lengths of key-value values.
    """

    health: Callable[[], dict[str, object]]
    statistics: Callable[[], dict[str, object]]
    condition: Callable[[], Condition]
    revision: Callable[[], int]
    wall_ms: Callable[[], int]
    recent: Callable[[str | None, str | None, bool], Awaitable[Recent]]
    release_guard: Callable[[str], int]
    remote: bool
    values_shown_to: tuple[Network, ...] = ()


@dataclass(slots=True)
class Services:
    """The parts of a node, joined by ``app``. ``live`` is replaced whole when it changes.

    ``carry_on`` does work nobody waits for, a slice at a time. ``erred`` counts mistakes of ours.
    """

    routes: RouteTable
    kv: KvStore
    renderer: RouteRenderer
    memo: AnswerMemo
    tally: QueryTally
    absences: Absences
    order: OrderTable
    live: LiveSettings
    record: Callable[[Iterable[Event]], None]
    now_ms: Callable[[], int]
    started_ms: int
    max_frame: int
    max_topics_per_broker: int
    commit_kv: Callable[[KvChange], Awaitable[None]]
    config_text: Callable[[], str]
    update_config: Callable[[str, Caller], Awaitable[None]]
    control: Control
    groups: GroupBook
    counts: RequestCounts = field(default_factory=RequestCounts)
    decoding: Decoding = field(default_factory=Decoding)
    carry_on: Callable[[Slices[Any]], None] = finished
    erred: Callable[[str, BaseException], None] = lambda what, error: None
    find_in_production: Callable[[Command], Awaitable[Reply]] | None = None
    wide_routes: WideRoutes = field(default_factory=WideRoutes)
    watchers: Watchers | None = None

    def refused(self, request: Command, caller: Caller, reason: str) -> None:
        """Record that ``request`` was turned away."""
        code = request.code
        name = RequestCode(code).name if code in _CODES else str(code)
        said = request.ext_fields.get
        subject = Subject(
            said("clusterName"),
            said("brokerName"),
            said("brokerAddr"),
            topic=said("topic"),
            namespace=said("namespace"),
            key=said("key"),
        )
        events = self.routes.refuse(name, str(subject)[:200], reason[:500], peer=caller.peer)
        self.record(events)


_CODES = frozenset(RequestCode)

HandlerResult = Reply | Awaitable[Reply] | Slices[Reply]
"""At once, after the disk or another server was asked, or in slices."""

Handler = Callable[[Command, Services, Caller], HandlerResult]
