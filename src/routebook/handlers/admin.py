"""The node's own configuration (318, 319)."""

from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadRequest, BodyTooLarge

MAX_CONFIG = 64 * 1024


def get_config(request: Command, services: Services, caller: Caller) -> Reply:
    return Reply(body=services.config_text().encode())


def update_config(request: Command, services: Services, caller: Caller) -> HandlerResult:
    if len(request.body) > MAX_CONFIG:
        raise BodyTooLarge("a configuration", MAX_CONFIG)
    try:
        text = request.body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest("string2Properties error") from error

    async def updated() -> Reply:
        await services.update_config(text, caller)
        return Reply()

    return updated()
