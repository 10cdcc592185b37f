"""What brokers ask: register, unregister, heartbeat, data version, member group."""

from collections import Counter
from collections.abc import Hashable
from itertools import islice
from operator import attrgetter

from routebook.events import StaticMapping
from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.slicing import begun, carried_through, recorded
from routebook.heartbeats import DEFAULT_TIMEOUT_MS
from routebook.slices import NO_WAY_BACK, Slices, finished
from routebook.state import costs
from routebook.state.facts import Changes
from routebook.state.model import (
    Member,
    QueueShape,
    Registration,
    ShapeByNumbers,
    VersionStamp,
)
from routebook.state.registrar import RegisterResult
from routebook.wire import bodies
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadRequest
from routebook.wire.headers import (
    MAX_WIDE_NAME,
    BrokerIdentity,
    RegisterBrokerHeader,
    check_name,
    optional,
    required,
)
from routebook.wire.registration import (
    RELEASED_A_SLICE,
    SEEN_A_SLICE,
    TOPICS_A_SLICE,
    DataVersion,
    DecodingRoom,
    MappingInfo,
    RegistrationBody,
    TopicConfig,
    decode_data_version,
    decode_registration,
    released,
    seen,
)

MAX_FILTER_SERVERS = 1024
QUEUES_A_SLICE = 5000
MAX_BROKERS_OF_A_MAPPING = 1000  # a broker tells its own, one for each topic


def register_broker(request: Command, services: Services, caller: Caller) -> HandlerResult:
    header = RegisterBrokerHeader.of(request)
    if len(request.body) <= SEEN_A_SLICE:
        checksum, fingerprint = finished(seen(request.body, check=header.body_crc32 != 0))
        return _seen(request, header, checksum, fingerprint, services, caller)
    return _register_large(request, header, services, caller)


def _register_large(
    request: Command, header: RegisterBrokerHeader, services: Services, caller: Caller
) -> Slices[Reply]:
    checksum, fingerprint = yield from seen(request.body, check=header.body_crc32 != 0)
    yield
    answer = _seen(request, header, checksum, fingerprint, services, caller)
    return answer if isinstance(answer, Reply) else (yield from answer)


def _seen(
    request: Command,
    header: RegisterBrokerHeader,
    checksum: int,
    content: Hashable,
    services: Services,
    caller: Caller,
) -> Reply | Slices[Reply]:
    if header.body_crc32 and header.body_crc32 != checksum:
        services.refused(request, caller, "crc32 not match")
        return Reply(ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
    # Equal header and body, to the byte, from the same broker: nothing needs decoding.
    fingerprint = hash((header, request.version, content, services.live))
    broker = header.broker
    renewed = services.routes.renew(
        broker.cluster,
        broker.addr,
        fingerprint=fingerprint,
        link=caller.link,
        now_ms=services.now_ms(),
    )
    if renewed is not None:
        order = _order_table(services)
        return _registered(renewed, order) if order is not None else _renewed(renewed, services)
    at_most = services.routes.account.budgets.work // 2  # two may be at it
    room = DecodingRoom(services.max_topics_per_broker, at_most)
    answer = _register(request, header, fingerprint, services, caller, room)
    return services.decoding.at_work(room, caller.peer, answer)


def _register(
    request: Command,
    header: RegisterBrokerHeader,
    fingerprint: int,
    services: Services,
    caller: Caller,
    room: DecodingRoom,
) -> Slices[Reply]:
    body = yield from decode_registration(
        request.body,
        request.version,
        compressed=header.compressed,
        max_frame=services.max_frame,
        max_topics=services.max_topics_per_broker,
        room=room,
    )
    yield
    topics, shapes = yield from _shapes(body.topics)
    if len(body.topics) > RELEASED_A_SLICE:
        yield from released(body.topics)
    mappings = yield from _mappings(body.mappings)
    registration = _registration(header, body, topics, shapes, mappings, fingerprint, caller)
    yield NO_WAY_BACK
    steps = services.routes.register(
        registration,
        now_ms=services.now_ms(),
        delete_absent_topics=services.live.delete_topic_with_broker_registration,
    )
    result = yield from recorded(steps, services)
    services.record(result.events)
    if result.refused is not None and result.told:
        return Reply(ResponseCode.SYSTEM_ERROR, result.refused, {})
    return (yield from _renewed(result, services))


_name_of = attrgetter("topic_name")
_numbers_of = attrgetter("read_queue_nums", "write_queue_nums", "perm", "topic_sys_flag")


def _shapes(topics: dict[str, TopicConfig]) -> Slices[tuple[dict[str, QueueShape], int]]:
    """Queue shapes by topic, each distinct shape held once; and how many shapes."""
    shapes = ShapeByNumbers()
    by_topic: dict[str, QueueShape] = {}
    items = iter(topics.items())
    while chunk := list(islice(items, TOPICS_A_SLICE)):
        keys, configs = zip(*chunk, strict=True)
        names = tuple(map(_name_of, configs))
        if names == keys:
            names = keys  # whose hashes are known
        elif None in names or "" in names:
            names = tuple(name or key for key, name in zip(keys, names, strict=True))
        if max(map(len, names)) > MAX_WIDE_NAME:
            for name in names:
                check_name("a topic name", name)
        numbers = map(_numbers_of, configs)
        by_topic.update(zip(names, map(shapes.__getitem__, numbers), strict=True))
        yield
    return by_topic, len(shapes)


def _registration(
    header: RegisterBrokerHeader,
    body: RegistrationBody,
    topics: dict[str, QueueShape],
    shapes: int,
    mappings: tuple[tuple[StaticMapping, ...], int],
    fingerprint: int,
    caller: Caller,
) -> Registration:
    broker, version = header.broker, body.data_version
    timeout_ms = header.heartbeat_timeout_ms
    return Registration(
        cluster=broker.cluster,
        name=broker.name,
        broker_id=broker.broker_id,
        addr=broker.addr,
        ha_addr=header.ha_server_addr,
        heartbeat_timeout_ms=DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        acting_master=header.acting_master,
        zone=header.zone,
        state_version=version.state_version if version else 0,
        stamp=_stamp(version),
        topics=topics,
        mappings=mappings[0],
        mappings_cost=mappings[1],
        filter_servers=_filter_servers(body.filter_servers),
        fingerprint=fingerprint,
        link=caller.link,
        peer=caller.peer,
        shapes=shapes,
    )


def _filter_servers(servers: list[str] | None) -> tuple[str, ...] | None:
    if servers is None:
        return None
    if len(servers) > MAX_FILTER_SERVERS:
        raise BadRequest(f"more than {MAX_FILTER_SERVERS} filter servers")
    for server in servers:
        check_name("the address of a filter server", server)
    return tuple(servers)


def _stamp(version: DataVersion | None) -> VersionStamp | None:
    if version is None or version.timestamp is None:
        return None
    return VersionStamp(version.state_version, version.timestamp, version.counter)


def _mappings(infos: list[MappingInfo]) -> Slices[tuple[tuple[StaticMapping, ...], int]]:
    """The mappings, and what they cost; ``infos`` is emptied."""
    found: list[StaticMapping] = []
    cost, room = 0, QUEUES_A_SLICE
    brokers: Counter[str] = Counter()
    infos.reverse()
    while infos:
        mapping = _mapping(infos.pop())
        found.append(mapping)
        brokers[mapping.topic] += 1
        if brokers[mapping.topic] > MAX_BROKERS_OF_A_MAPPING:
            while infos:
                del infos[-QUEUES_A_SLICE:]
                yield
            raise BadRequest(
                f"more than {MAX_BROKERS_OF_A_MAPPING} static mappings of topic {mapping.topic}"
            )
        cost += costs.mapping(mapping)
        room -= 10 + len(mapping.curr_id_map)
        if room < 0:
            room = QUEUES_A_SLICE
            yield
    return tuple(found), cost


def _mapping(info: MappingInfo) -> StaticMapping:
    if not info.topic or not info.bname:
        raise BadRequest("a static topic mapping has no topic or no broker name")
    for name in (info.topic, info.bname, info.scope or ""):
        check_name("a name in a static topic mapping", name)
    return StaticMapping(
        topic=info.topic,
        bname=info.bname,
        total_queues=info.total_queues,
        epoch=info.epoch,
        scope=info.scope,
        dirty=info.dirty,
        curr_id_map=tuple(sorted(info.curr_id_map.items())),
    )


def _order_table(services: Services) -> bytes | None:
    """The body of the answer; None when it has to be encoded first."""
    return services.order.body() if services.live.return_order_topic_config_to_broker else b""


def _renewed(result: RegisterResult, services: Services) -> Slices[Reply]:
    order = _order_table(services)
    if order is None:
        order = yield from services.order.encoded()
    return _registered(result, order)


def _registered(result: RegisterResult, order: bytes) -> Reply:
    ext_fields = {}
    if result.ha_addr is not None:
        ext_fields["haServerAddr"] = result.ha_addr
    if result.master_addr is not None:
        ext_fields["masterAddr"] = result.master_addr
    return Reply(ext_fields=ext_fields, body=order)


def unregister_broker(request: Command, services: Services, caller: Caller) -> HandlerResult:
    broker = BrokerIdentity.of(request)
    leaving = services.routes.unregister(
        broker.cluster, broker.name, broker.addr, link=caller.link, peer=caller.peer
    )
    return begun(_left(leaving, services))


def _left(leaving: Changes[None], services: Services) -> Slices[Reply]:
    yield from carried_through(leaving, services)
    return Reply()


def broker_heartbeat(request: Command, services: Services, caller: Caller) -> Reply:
    _heard(request, services, caller)
    return Reply()


def _heard(request: Command, services: Services, caller: Caller) -> Member | None:
    member, events = services.routes.heartbeat(
        required(request, "clusterName"),
        required(request, "brokerAddr"),
        link=caller.link,
        peer=caller.peer,
        now_ms=services.now_ms(),
    )
    if events:
        services.record(events)
    return member


def query_data_version(request: Command, services: Services, caller: Caller) -> Reply:
    member = _heard(request, services, caller)
    if request.is_oneway:
        # Acting-master brokers use this as their heartbeat, once a second; nobody reads an answer.
        return Reply()
    version = member.known.data_version if member else None
    if version is None:
        return Reply(ext_fields={"changed": "true"})
    asked = _stamp(decode_data_version(request.body))
    stamp = VersionStamp(*version)
    return Reply(
        ext_fields={"changed": "false" if asked == stamp else "true"},
        body=bodies.data_version(DataVersion(stamp.counter, stamp.state_version, stamp.timestamp)),
    )


def get_member_group(request: Command, services: Services, caller: Caller) -> Reply:
    name = required(request, "brokerName")
    cluster = optional(request, "clusterName")
    group = services.routes.members.find_group(cluster or "", name)
    if group is None:
        group = next(iter(services.routes.members.groups_named(name)), None)
    return Reply(body=bodies.member_group(group.addrs if group else {}, name, cluster))
