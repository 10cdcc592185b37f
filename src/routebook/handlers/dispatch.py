"""The table of handlers, the table of rejections, and one function."""

import logging
from collections.abc import Awaitable, Generator

from routebook.handlers import admin, brokers, control, kv, overview, routes, topics, watch
from routebook.handlers.counts import ERROR, REJECTED, SUCCESS
from routebook.handlers.errors import NoPermission
from routebook.handlers.services import Caller, Handler, HandlerResult, Services
from routebook.slices import Slices
from routebook.state.errors import NoRoom, NotDurable, TableFull
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command, Oversized, Reply
from routebook.wire.errors import BadRequest, BodyTooLarge

logger = logging.getLogger(__name__)

HANDLERS: dict[int, Handler] = {
    RequestCode.PUT_KV_CONFIG: kv.put_kv,
    RequestCode.GET_KV_CONFIG: kv.get_kv,
    RequestCode.DELETE_KV_CONFIG: kv.delete_kv,
    RequestCode.REGISTER_BROKER: brokers.register_broker,
    RequestCode.UNREGISTER_BROKER: brokers.unregister_broker,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: routes.get_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: topics.get_cluster_info,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: topics.wipe_write_permission,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: topics.get_all_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: topics.delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: topics.register_topic,
    RequestCode.GET_KVLIST_BY_NAMESPACE: kv.get_kv_list,
    RequestCode.GET_TOPICS_BY_CLUSTER: topics.get_topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: topics.get_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: topics.get_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: topics.get_unit_sub_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: topics.get_unit_sub_ununit_topics,
    RequestCode.UPDATE_NAMESRV_CONFIG: admin.update_config,
    RequestCode.GET_NAMESRV_CONFIG: admin.get_config,
    RequestCode.QUERY_DATA_VERSION: brokers.query_data_version,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: topics.add_write_permission,
    RequestCode.GET_BROKER_MEMBER_GROUP: brokers.get_member_group,
    RequestCode.BROKER_HEARTBEAT: brokers.broker_heartbeat,
    RequestCode.ROUTEBOOK_HEALTH: control.get_health,
    RequestCode.ROUTEBOOK_RECENT: control.get_recent,
    RequestCode.ROUTEBOOK_RELEASE_GUARD: control.release_guard,
    RequestCode.ROUTEBOOK_RESTORE_WRITE_PERM: topics.restore_write_permission,
    RequestCode.ROUTEBOOK_WATCH: watch.watch,
    RequestCode.ROUTEBOOK_UNWATCH: watch.unwatch,
    RequestCode.ROUTEBOOK_STATISTICS: overview.get_statistics,
    RequestCode.ROUTEBOOK_SUMMARY: overview.get_summary,
}

REJECTIONS: dict[type[Exception], ResponseCode] = {
    BadRequest: ResponseCode.SYSTEM_ERROR,
    BodyTooLarge: ResponseCode.SYSTEM_ERROR,
    TableFull: ResponseCode.SYSTEM_ERROR,
    NoRoom: ResponseCode.SYSTEM_ERROR,
    NotDurable: ResponseCode.SYSTEM_ERROR,
    NoPermission: ResponseCode.NO_PERMISSION,
}


def dispatch(request: Command, services: Services, caller: Caller) -> HandlerResult:
    """The answer to ``request``; never raises."""
    handler = HANDLERS.get(request.code)
    if handler is None:
        if isinstance(request, Oversized):
            return rejection(request, services, caller, BadRequest(request.remark))
        services.counts[request.code][REJECTED] += 1
        return Reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
        )
    try:
        answer = handler(request, services, caller)
    except Exception as error:  # noqa: BLE001 - a handler's bug must not take the node down
        return rejection(request, services, caller, error)
    if isinstance(answer, Reply):
        if answer.code:
            services.counts.answered(request.code, answer.code)
        else:  # nearly always
            services.counts[request.code][SUCCESS] += 1
        return answer
    if isinstance(answer, Generator):
        return _guarded_slices(answer, request, services, caller)
    return _guarded(answer, request, services, caller)


def _guarded_slices(
    answer: Slices[Reply], request: Command, services: Services, caller: Caller
) -> Slices[Reply]:
    try:
        reply = yield from answer
    except Exception as error:  # noqa: BLE001 - nor one in its later slices or after a wait
        return rejection(request, services, caller, error)
    services.counts.answered(request.code, reply.code)
    return reply


async def _guarded(
    answer: Awaitable[Reply], request: Command, services: Services, caller: Caller
) -> Reply:
    try:
        reply = await answer
    except Exception as error:  # noqa: BLE001 - nor one in its later slices or after a wait
        return rejection(request, services, caller, error)
    services.counts.answered(request.code, reply.code)
    return reply


def rejection(request: Command, services: Services, caller: Caller, error: Exception) -> Reply:
    """What a request that failed is answered; a refusal is an event, a fault of ours a log line."""
    code = REJECTIONS.get(type(error))
    services.counts[request.code][ERROR if code is None else REJECTED] += 1
    if code is None:
        logger.error("request %d of %s failed", request.code, caller.peer, exc_info=error)
        services.erred(f"request {request.code}", error)
        return Reply(ResponseCode.SYSTEM_ERROR, "internal error")
    try:
        services.refused(request, caller, str(error))
    except Exception as unrecorded:  # the refusal holds, and is answered, all the same
        logger.exception("the refusal of request %d is not recorded", request.code)
        services.erred(f"recording the refusal of request {request.code}", unrecorded)
    return Reply(code, str(error))
