"""Key-value configuration (100, 101, 102, 219)."""

from collections.abc import Mapping

from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.slicing import begun
from routebook.slices import Slices
from routebook.state.kv import KvChange
from routebook.wire import bodies
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadRequest
from routebook.wire.headers import MAX_ECHOED


def put_kv(request: Command, services: Services, caller: Caller) -> HandlerResult:
    namespace, key = _item(request)
    value = request.ext_fields.get("value")
    if value is None:
        raise BadRequest("value is missing")
    return _commit(KvChange(namespace, key, value, caller.peer), services)


def delete_kv(request: Command, services: Services, caller: Caller) -> HandlerResult:
    namespace, key = _item(request)
    return _commit(KvChange(namespace, key, None, caller.peer), services)


def _commit(change: KvChange, services: Services) -> HandlerResult:
    async def committed() -> Reply:
        await services.commit_kv(change)
        return Reply()

    return committed()


def get_kv(request: Command, services: Services, caller: Caller) -> Reply:
    namespace, key = _item(request)
    value = services.kv.find(namespace, key)
    if value is None:
        return Reply(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {namespace[:MAX_ECHOED]} Key: {key[:MAX_ECHOED]}",
            {},
        )
    return Reply(ext_fields={"value": value})


def get_kv_list(request: Command, services: Services, caller: Caller) -> HandlerResult:
    namespace = request.ext_fields.get("namespace")
    table = None if namespace is None else services.kv.find_table(namespace)
    if table is None:
        return Reply(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {'null' if namespace is None else namespace[:MAX_ECHOED]}",
        )
    return begun(_listed(table))


def _listed(table: Mapping[str, str]) -> Slices[Reply]:
    return Reply(body=(yield from bodies.kv_table(table)))


def _item(request: Command) -> tuple[str, str]:
    namespace, key = request.ext_fields.get("namespace"), request.ext_fields.get("key")
    if namespace is None or key is None:
        raise BadRequest("namespace or key is null")
    return namespace, key
