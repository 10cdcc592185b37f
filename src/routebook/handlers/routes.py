"""Route queries (105): the request clients send most."""

from functools import partial

from routebook.handlers.order import ORDER_NAMESPACE
from routebook.handlers.rendering import TOO_WIDE
from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.tally import KNOWN, NOT_READY, UNKNOWN
from routebook.handlers.wide_routes import Question
from routebook.slices import Slices
from routebook.state.model import MASTER, Group
from routebook.wire.codes import ResponseCode, Version
from routebook.wire.command import Command, Reply
from routebook.wire.headers import MAX_ECHOED, boolean

_NOT_FOUND = (
    "No topic route info in name server for the topic: %s\n"
    "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)


def get_route(request: Command, services: Services, caller: Caller) -> HandlerResult:
    ext_fields, live = request.ext_fields, services.live
    topic = ext_fields.get("topic")
    if services.find_in_production is not None:
        return _get_test_cluster_route(request, services, topic)
    if not_ready(services):
        services.tally.cell(topic or "")[NOT_READY] += 1
        return Reply(ResponseCode.SYSTEM_ERROR, "name server not ready")
    if topic is None:
        return not_found(None)
    standard = wants_standard(request)
    zone = zone_of(request)
    order_conf = services.kv.find(ORDER_NAMESPACE, topic) if live.order_message_enable else None
    if zone is None and order_conf is None:
        body = services.renderer.body(topic, standard=standard, live=live)
    elif services.routes.topics.is_wide(topic):
        body = TOO_WIDE
    else:
        body = _special_body(services, topic, zone, order_conf, standard=standard)
    if body is TOO_WIDE:
        return _get_wide_route(Question(topic, standard, zone, order_conf), services)
    services.tally.cell(topic)[UNKNOWN if body is None else KNOWN] += 1
    return _not_found(topic, services) if body is None else Reply(body=body)


async def _get_wide_route(question: Question, services: Services) -> Reply:
    body = await services.wide_routes.body(question, partial(_encoded, services))
    services.tally.cell(question.topic)[UNKNOWN if body is None else KNOWN] += 1
    return _not_found(question.topic, services) if body is None else Reply(body=body)


def _encoded(services: Services, question: Question) -> Slices[bytes | None]:
    """The route that is asked for, in slices; None when there is none."""
    zone = question.zone
    return services.renderer.body_slices(
        question.topic,
        standard=question.standard,
        live=services.live,
        order_conf=question.order_conf,
        wanted=None if zone is None else lambda group: _in_zone(group, zone),
        at_most=services.max_frame,
    )


def wants_standard(request: Command) -> bool:
    return request.version >= Version.V4_9_4 or bool(boolean(request, "acceptStandardJsonOnly"))


def not_found(topic: str | None) -> Reply:
    name = "null" if topic is None else topic[:MAX_ECHOED]
    return Reply(ResponseCode.TOPIC_NOT_EXIST, _NOT_FOUND % name)


def _not_found(topic: str, services: Services) -> Reply:
    """The words of the reference, and then why."""
    reply = not_found(topic)
    if len(topic) > MAX_ECHOED:
        return reply
    reason = services.absences.reason(topic)
    return Reply(reply.code, f"{reply.remark}\nReason: {reason}")


def not_ready(services: Services) -> bool:
    """Whether the node has just started, and is to wait for its brokers."""
    live = services.live
    if not live.need_wait_for_service:
        return False
    return services.now_ms() - services.started_ms < live.wait_seconds_for_service * 1000


def zone_of(request: Command) -> str | None:
    """The zone whose brokers the sender wants, or None."""
    fields = request.ext_fields
    if (fields.get("__ZONE_MODE") or "").lower() != "true":
        return None
    zone = fields.get("__ZONE_NAME") or ""
    return zone if zone.strip() else None


def _special_body(
    services: Services, topic: str, zone: str | None, order_conf: str | None, *, standard: bool
) -> bytes | None:
    queues = services.routes.topics.queues(topic)
    if not queues:
        return None
    return services.renderer.render(
        topic,
        {g: s for g, s in queues.items() if zone is None or _in_zone(g, zone)},
        standard=standard,
        live=services.live,
        order_conf=order_conf,
    )


def _in_zone(group: Group, zone: str) -> bool:
    # A group without a master is kept for everybody, also while a slave stands in for it:
    # better another zone than no route (reference: ZoneRouteRPCHook, which forgets the latter).
    return MASTER not in group.members or (group.zone or "").lower() == zone.lower()


async def _get_test_cluster_route(request: Command, services: Services, topic: str | None) -> Reply:
    """Cluster-test mode: what is unknown here is asked of production."""
    assert services.find_in_production is not None
    if topic is None:
        return not_found(None)
    order_conf = services.kv.find(ORDER_NAMESPACE, topic)
    standard = wants_standard(request)
    if services.routes.topics.is_wide(topic):
        question = Question(topic, standard, None, order_conf)
        body = await services.wide_routes.body(question, partial(_encoded, services))
    else:
        body = _special_body(services, topic, None, order_conf, standard=standard)
    if body is not None:
        return Reply(body=body)
    return await services.find_in_production(request)
