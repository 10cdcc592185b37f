"""Topics, permissions and lists of everything."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from routebook.handlers.rendering import broker_piece
from routebook.handlers.services import Caller, Handler, HandlerResult, Services
from routebook.handlers.slicing import begun, carried_through
from routebook.slices import Slices
from routebook.state.facts import Changes
from routebook.state.model import FLAG_UNIT, FLAG_UNIT_SUB, QueueShape
from routebook.wire import bodies
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.headers import boolean, required

GROUPS_A_SLICE = 200
NAMES_A_SLICE = 1000
_DISABLED = Reply(ResponseCode.SYSTEM_ERROR, "disable")


def get_cluster_info(request: Command, services: Services, caller: Caller) -> HandlerResult:
    return begun(_cluster_info(services))


def _cluster_info(services: Services) -> Slices[Reply]:
    brokers: dict[str, bytes] = {}
    clusters: dict[str, list[str]] = {}
    for number, group in enumerate(list(services.routes.members.groups()), start=1):
        if group.members:
            # One name in two clusters: the table has one place for it, the older group keeps it.
            if group.name not in brokers:
                brokers[group.name] = broker_piece(group, standard=False)
            clusters.setdefault(group.cluster, []).append(group.name)
        if number % GROUPS_A_SLICE == 0:
            yield
    return Reply(body=(yield from bodies.cluster_info(brokers, clusters)))


def get_all_topics(request: Command, services: Services, caller: Caller) -> HandlerResult:
    if not services.live.enable_all_topic_list:
        return _DISABLED
    return begun(_listed(services.routes.topics.names()))


def get_topics_by_cluster(request: Command, services: Services, caller: Caller) -> HandlerResult:
    if not services.live.enable_topic_list:
        return _DISABLED
    return begun(_listed(services.routes.topics_in(required(request, "cluster"))))


def _listed(topics: Slices[Iterable[str]]) -> Slices[Reply]:
    names = yield from topics
    return Reply(body=(yield from bodies.topic_list(names)))


def get_system_topics(request: Command, services: Services, caller: Caller) -> HandlerResult:
    """Cluster and broker names, and a broker to ask for the rest: what clients expect of it."""
    return begun(_system_topics(services))


def _system_topics(services: Services) -> Slices[Reply]:
    names: dict[str, None] = {}
    addr = None
    for number, group in enumerate(list(services.routes.members.groups()), start=1):
        if group.members:
            names[group.cluster] = names[group.name] = None
            if addr is None:
                addr = group.lowest.addr
        if number % (10 * GROUPS_A_SLICE) == 0:
            yield
    return Reply(body=(yield from bodies.topic_list(names, addr)))


def topics_by_flag(wanted: Callable[[int], bool]) -> Handler:
    def get_topics(request: Command, services: Services, caller: Caller) -> HandlerResult:
        if not services.live.enable_topic_list:
            return _DISABLED
        return begun(_listed(services.routes.topics.names_where(wanted)))

    return get_topics


get_unit_topics = topics_by_flag(lambda flag: bool(flag & FLAG_UNIT))
get_unit_sub_topics = topics_by_flag(lambda flag: bool(flag & FLAG_UNIT_SUB))
get_unit_sub_ununit_topics = topics_by_flag(
    lambda flag: bool(flag & FLAG_UNIT_SUB) and not flag & FLAG_UNIT
)


def wipe_write_permission(request: Command, services: Services, caller: Caller) -> HandlerResult:
    return begun(_write_permission(request, services, caller, "wipeTopicCount", writable=False))


def add_write_permission(request: Command, services: Services, caller: Caller) -> HandlerResult:
    return begun(_write_permission(request, services, caller, "addTopicCount", writable=True))


def _write_permission(
    request: Command, services: Services, caller: Caller, counted: str, *, writable: bool
) -> Slices[Reply]:
    changes = services.routes.set_writable(
        required(request, "brokerName"), writable=writable, peer=caller.peer
    )
    count = yield from carried_through(changes, services)
    return Reply(ext_fields={counted: str(count)})


def restore_write_permission(request: Command, services: Services, caller: Caller) -> Slices[Reply]:
    """What 327 cannot: give write permission back to topics it was taken from, and to no others.

    With ``lookOnly`` nothing is given back. The body says what is not writable afterwards: topics
    it is ``taken`` from, and those ``kept`` as their broker registered them.
    """
    name = required(request, "brokerName")
    restored = 0
    if not boolean(request, "lookOnly"):
        changes = services.routes.restore_writable(name, peer=caller.peer)
        restored = yield from carried_through(changes, services)
    state = yield from services.routes.write_state(name)
    taken = yield from _texts(state.taken)
    kept = yield from _texts(state.kept)
    return Reply(
        body=msgspec.json.encode(
            {"topics": state.topics, "restored": restored, "taken": taken, "kept": kept}
        )
    )


def _texts(names: Sequence[str]) -> Slices[msgspec.Raw]:
    """``names`` as JSON can hold them: they may have come from anywhere. Encoded in slices."""
    parts: list[bytes] = []
    for start in range(0, len(names), NAMES_A_SLICE):
        chunk = names[start : start + NAMES_A_SLICE]
        some = [name.encode("utf-8", "replace").decode() for name in chunk]
        parts.append(msgspec.json.encode(some)[1:-1])
        yield
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


def delete_topic(request: Command, services: Services, caller: Caller) -> HandlerResult:
    topic = required(request, "topic")
    cluster = request.ext_fields.get("clusterName") or None
    return begun(_done(services.routes.delete_topic(topic, cluster, peer=caller.peer), services))


def register_topic(request: Command, services: Services, caller: Caller) -> HandlerResult:
    return begun(_register_topic(required(request, "topic"), request, services, caller))


def _register_topic(
    topic: str, request: Command, services: Services, caller: Caller
) -> Slices[Reply]:
    queues: dict[str, QueueShape] = {}
    for number, data in enumerate((yield from bodies.decode_queue_datas(request.body)), start=1):
        queues[data.broker_name] = QueueShape(
            data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag
        )
        if number % NAMES_A_SLICE == 0:
            yield
    if not queues:
        return Reply()
    changes = services.routes.register_topic(topic, queues, peer=caller.peer)
    return (yield from _done(changes, services))


def _done(changes: Changes[None], services: Services) -> Slices[Reply]:
    yield from carried_through(changes, services)
    return Reply()
