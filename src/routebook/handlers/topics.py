"""Topics, permissions and lists of everything."""

from collections.abc import Callable

import msgspec

from routebook.handlers.rendering import broker_piece
from routebook.handlers.services import Caller, Handler, Services
from routebook.slices import Slices
from routebook.state.model import FLAG_UNIT, FLAG_UNIT_SUB, QueueShape
from routebook.wire import bodies
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.headers import boolean, required

_DISABLED = Reply(ResponseCode.SYSTEM_ERROR, "disable")


def get_cluster_info(request: Command, services: Services, caller: Caller) -> Reply:
    brokers: dict[str, bytes] = {}
    clusters: dict[str, list[str]] = {}
    for group in services.routes.members.groups():
        # One name in two clusters: the table has one place for it, the older group keeps it.
        brokers.setdefault(group.name, broker_piece(group, standard=False))
        clusters.setdefault(group.cluster, []).append(group.name)
    return Reply(body=bodies.cluster_info(brokers, clusters))


def get_all_topics(request: Command, services: Services, caller: Caller) -> Reply:
    if not services.live.enable_all_topic_list:
        return _DISABLED
    return Reply(body=bodies.topic_list(list(services.routes.topics)))


def get_topics_by_cluster(request: Command, services: Services, caller: Caller) -> Reply:
    if not services.live.enable_topic_list:
        return _DISABLED
    return Reply(body=bodies.topic_list(services.routes.topics_in(required(request, "cluster"))))


def get_system_topics(request: Command, services: Services, caller: Caller) -> Reply:
    """Cluster and broker names, and a broker to ask for the rest: what clients expect of it."""
    names: dict[str, None] = {}
    addr = None
    for group in services.routes.members.groups():
        names[group.cluster] = names[group.name] = None
        if addr is None:
            addr = group.lowest.addr
    return Reply(body=bodies.topic_list(list(names), addr))


def topics_by_flag(wanted: Callable[[int], bool]) -> Handler:
    def get_topics(request: Command, services: Services, caller: Caller) -> Reply:
        if not services.live.enable_topic_list:
            return _DISABLED
        return Reply(body=bodies.topic_list(services.routes.topics_where(wanted)))

    return get_topics


get_unit_topics = topics_by_flag(lambda flag: bool(flag & FLAG_UNIT))
get_unit_sub_topics = topics_by_flag(lambda flag: bool(flag & FLAG_UNIT_SUB))
get_unit_sub_ununit_topics = topics_by_flag(
    lambda flag: bool(flag & FLAG_UNIT_SUB) and not flag & FLAG_UNIT
)


def wipe_write_permission(request: Command, services: Services, caller: Caller) -> Reply:
    count = _set_writable(request, services, caller, writable=False)
    return Reply(ext_fields={"wipeTopicCount": str(count)})


def add_write_permission(request: Command, services: Services, caller: Caller) -> Reply:
    count = _set_writable(request, services, caller, writable=True)
    return Reply(ext_fields={"addTopicCount": str(count)})


def restore_write_permission(request: Command, services: Services, caller: Caller) -> Slices[Reply]:
    """What 327 cannot: give write permission back to topics it was taken from, and to no others.

    With ``lookOnly`` nothing is given back. The body says what is not writable afterwards: topics
    it is ``taken`` from, and those ``kept`` as their broker registered them.
    """
    name = required(request, "brokerName")
    restored = 0
    if not boolean(request, "lookOnly"):
        restored, events = services.routes.restore_writable(name, peer=caller.peer)
        services.record(events)
    state = yield from services.routes.write_state(name)
    return Reply(
        body=msgspec.json.encode(
            {
                "topics": state.topics,
                "restored": restored,
                "taken": [_text(topic) for topic in state.taken],
                "kept": [_text(topic) for topic in state.kept],
            }
        )
    )


def _text(name: str) -> str:
    """What JSON can hold of a name that may have come from anywhere."""
    return name.encode("utf-8", "replace").decode()


def _set_writable(request: Command, services: Services, caller: Caller, *, writable: bool) -> int:
    count, events = services.routes.set_writable(
        required(request, "brokerName"), writable=writable, peer=caller.peer
    )
    services.record(events)
    return count


def delete_topic(request: Command, services: Services, caller: Caller) -> Reply:
    topic = required(request, "topic")
    cluster = request.ext_fields.get("clusterName") or None
    services.record(services.routes.delete_topic(topic, cluster, peer=caller.peer))
    return Reply()


def register_topic(request: Command, services: Services, caller: Caller) -> Reply:
    topic = required(request, "topic")
    queues = [
        (
            data.broker_name,
            QueueShape(data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag),
        )
        for data in bodies.decode_queue_datas(request.body)
    ]
    if queues:
        services.record(services.routes.register_topic(topic, queues, peer=caller.peer))
    return Reply()
