"""From a topic's route to its queues, and from a queue to the broker that holds it.

Three kinds of topics, told apart in this order:

* ordered: ``order_conf`` lists brokers and queue counts, and writers follow it to the letter,
  whatever permissions and masters there are
* static: ``mappings`` say which broker holds which logical queue. Those queues go under the
  name of no real broker, ``__syslo__`` and the scope; ``holder_of`` gives the real one
* all others: what each broker says of itself

A route that lists one broker name twice is read as if it had the first entry only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from routebook.client.routes import TopicRoute
from routebook.wire.answers import MASTER_ID, BrokerGroup, TopicQueues
from routebook.wire.registration import MappingInfo

MAX_QUEUES = 65_536  # of one topic: a few bytes of an answer must not make us build millions
LOGICAL_PREFIX = "__syslo__"
NO_HOLDER = "__syslo__none__"
_GLOBAL_SCOPE = "__global__"


class BadRoute(ValueError):
    """A route that no queues can be derived from."""


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic, sortable.

    ``broker`` is a broker name; for a queue of a static topic it stands for the scope.
    """

    topic: str
    broker: str
    queue_id: int

    @property
    def logical(self) -> bool:
        """Whether it is a queue of a static topic."""
        return self.broker.startswith(LOGICAL_PREFIX)


def publish_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Where messages may be sent, in the order in which writers take turns. Raises BadRoute."""
    queues = _queues(route.topic, _publish_counts(route))
    if _writes_logical(route):
        return tuple(sorted(queues, key=lambda queue: (queue.queue_id, queue.broker)))
    return tuple(queues)


def subscribe_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Where messages may be read, sorted. Raises BadRoute."""
    return tuple(sorted(_queues(route.topic, _subscribe_counts(route))))


def check_route(route: TopicRoute) -> None:
    """Raises BadRoute if one of the two lists cannot be derived; builds neither."""
    _publish_counts(route)
    _subscribe_counts(route)


def first_queues(route: TopicRoute) -> dict[str, TopicQueues]:
    """The queue entry that counts for each broker name."""
    return {queues.broker: queues for queues in reversed(route.queues)}


def first_groups(route: TopicRoute) -> dict[str, BrokerGroup]:
    """The broker entry that counts for each broker name."""
    return {group.name: group for group in reversed(route.brokers)}


def endpoints(route: TopicRoute) -> dict[MessageQueue, str]:
    """The holder of every logical queue; NO_HOLDER for a queue no broker claims.

    Of several claims the one of the highest epoch counts, of equal epochs the first broker name.
    Raises BadRoute.
    """
    table = dict.fromkeys(_queues(route.topic, _bounded(_logical_counts(route).items())), NO_HOLDER)
    for scope, broker, info in _claims(route):
        for queue_id in info.curr_id_map:
            queue = MessageQueue(route.topic, scope, queue_id)
            if queue in table:
                table[queue] = broker
    return table


def holder_of(route: TopicRoute, queue: MessageQueue) -> str | None:
    """The name of the broker ``queue`` is on, as ``endpoints`` has it.

    NO_HOLDER for a logical queue no broker claims, None for one the topic does not have.
    """
    if not queue.logical:
        return queue.broker
    if not 0 <= queue.queue_id < _logical_counts(route).get(queue.broker, 0):
        return None
    for scope, broker, info in reversed(_claims(route)):
        if scope == queue.broker and queue.queue_id in info.curr_id_map:
            return broker
    return NO_HOLDER


def address_of(
    route: TopicRoute, queue: MessageQueue, *, broker_id: int = MASTER_ID, reading: bool = False
) -> str | None:
    """Where to send to, or read from, ``queue``; None when nobody is there.

    Only the master takes messages. A reader names the member last suggested to it
    as ``broker_id``; when it is gone the next one answers, or else any other.
    """
    holder = holder_of(route, queue)
    group = None if holder is None else route.group(holder)
    if group is None or not group.addrs:
        return None
    if not reading:
        return group.master
    address = group.addrs.get(broker_id)
    if address is None and broker_id != MASTER_ID:
        address = group.addrs.get(broker_id + 1)
    return group.addrs[min(group.addrs)] if address is None else address


def _writes_logical(route: TopicRoute) -> bool:
    # An order config that is there but empty makes a static topic an ordinary one for writers
    # (reference: MQClientInstance.topicRouteData2TopicPublishInfo).
    return route.order_conf is None and bool(route.mappings)


def _publish_counts(route: TopicRoute) -> list[tuple[str, int]]:
    if route.order_conf:
        return _bounded(_order(route.order_conf))
    if _writes_logical(route):
        return _bounded(_logical_counts(route).items())
    groups = first_groups(route)
    return _bounded(
        (name, queues.write_queues)
        for name, queues in sorted(first_queues(route).items())
        if queues.writable and name in groups and groups[name].master is not None
    )


def _subscribe_counts(route: TopicRoute) -> list[tuple[str, int]]:
    if route.mappings:
        return _bounded(_logical_counts(route).items())
    return _bounded(
        (name, queues.read_queues)
        for name, queues in first_queues(route).items()
        if queues.readable
    )


def _order(text: str) -> Iterator[tuple[str, int]]:
    """Brokers and their queue counts as an order config has them.

    One bad item spoils the whole: without it the queues after it would change places, and with
    them the keys that writers assign to queues by number.
    """
    for item in text.split(";"):
        if not item.strip():
            continue  # a trailing separator
        broker, _, rest = item.strip().partition(":")
        count = rest.partition(":")[0].strip()
        if not broker or not count.isascii() or not count.isdigit() or len(count) > 9:
            raise BadRoute(f"{item[:100]!r} in the order config is not broker:count")
        yield broker, int(count)


def _logical_counts(route: TopicRoute) -> dict[str, int]:
    """How many logical queues each scope has, by the name its queues go under."""
    counts: dict[str, int] = {}
    for scope, _, info in _claims(route):
        counts[scope] = max(counts.get(scope, 0), info.total_queues)
    return counts


def _claims(route: TopicRoute) -> list[tuple[str, str, MappingInfo]]:
    """Name of the scope, broker, what it claims; the claims that count most come last."""
    claims = [
        (_mock_broker(info.scope), info.bname or name, info)
        for name, info in route.mappings.items()
        if info.scope is not None  # else it says nothing
    ]
    claims.sort(key=lambda claim: claim[1], reverse=True)
    claims.sort(key=lambda claim: claim[2].epoch)
    return claims


def _mock_broker(scope: str) -> str:
    return LOGICAL_PREFIX + (scope.removeprefix("__") if scope == _GLOBAL_SCOPE else scope)


def _bounded(counts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    kept = list(counts)
    total = sum(max(0, count) for _, count in kept)
    if total > MAX_QUEUES:
        raise BadRoute(f"{total} queues of one topic exceed the limit of {MAX_QUEUES}")
    return kept


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> list[MessageQueue]:
    return [
        MessageQueue(topic, broker, queue_id)
        for broker, count in counts
        for queue_id in range(count)
    ]
