"""make_app: the endpoints as an ASGI application, each behind its class of access."""

import logging
from collections.abc import Awaitable, Callable, Iterable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from routebook.client.errors import NameServerError
from routebook.gateway.answers import error_answer
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.nodes import Fleet, NodeBusy
from routebook.gateway.options import GatewayOptions
from routebook.gateway.rarely import Rarely
from routebook.gateway.table import ENDPOINTS

logger = logging.getLogger(__name__)

GZIP_FROM = 1024  # bytes
GZIP_LEVEL = 4
_rarely = Rarely(logger)


def make_app(
    fleet: Fleet, options: GatewayOptions, endpoints: Iterable[Endpoint] = ENDPOINTS
) -> Starlette:
    """``fleet`` is entered by whoever runs it. ``state.gateway`` of what is made has the parts."""
    return app_of(Gateway(fleet, options), endpoints)


def app_of(gateway: Gateway, endpoints: Iterable[Endpoint]) -> Starlette:
    """Some endpoints of a gateway that may have others elsewhere."""
    app = Starlette(
        routes=[_route(endpoint, gateway) for endpoint in endpoints],
        middleware=[Middleware(GZipMiddleware, minimum_size=GZIP_FROM, compresslevel=GZIP_LEVEL)],
        exception_handlers={404: _not_found, 405: _wrong_method, 500: _failed},
    )
    app.state.gateway = gateway
    return app


def _route(endpoint: Endpoint, gateway: Gateway) -> Route:
    return Route(endpoint.path, _guarded(endpoint, gateway), methods=[endpoint.method])


def _guarded(endpoint: Endpoint, gateway: Gateway) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        response = await _answer(request)
        gateway.requests[endpoint.path, response.status_code] += 1
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        return response

    async def _answer(request: Request) -> Response:
        refusal = gateway.rules.refusal(endpoint.access, request.headers)
        if refusal is not None:
            who = request.client.host if request.client else ""
            _rarely.warn(f"refused {endpoint.method} {endpoint.path}", who)
            return refusal
        try:
            return await endpoint.handler(request, gateway)
        except NodeBusy as error:
            return error_answer(503, str(error), code="busy", retry_after_s=1)
        except NameServerError as error:
            return error_answer(503, str(error), code="node_away", retry_after_s=2)

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    return error_answer(
        404, "there is nothing here; /v1/openapi.json lists what there is", code="no_such_path"
    )


async def _wrong_method(request: Request, error: Exception) -> Response:
    return error_answer(
        405, "this is asked for in another way; /v1/openapi.json says how", code="method"
    )


async def _failed(request: Request, error: Exception) -> Response:
    logger.error("request for %s failed", request.scope["path"], exc_info=error)
    return error_answer(500, "internal error; the log of the gateway says more", code="internal")
