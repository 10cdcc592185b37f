"""Traces of requests to a gateway, by OpenTelemetry, where that is installed and wanted.

The extra ``otel`` brings it, and OpenTelemetry's own variables say where traces go:
``OTEL_EXPORTER_OTLP_ENDPOINT`` switches them on, ``OTEL_TRACES_SAMPLER`` and the others are obeyed.
Names of spans and attributes are those of its conventions for HTTP servers.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from routebook.gateway.logs import request_id, trace_id
from routebook.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

logger = logging.getLogger(__name__)

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
LEAVE_S = 1.0  # to send what is left
SERVICE = "routebook-gateway"  # unless OTEL_SERVICE_NAME says otherwise


class Traces:
    """Wherever they go; ``provider`` None: nobody wants any. Leaving it sends what is left."""

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        self._provider = provider

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """As the environment says."""
        named = [name for name in ENDPOINTS if environment.get(name)]
        if not named or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
            return cls()
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
            logger.warning(
                "%s is set, but there are no traces: `pip install 'routebook[otel]'` brings"
                " OpenTelemetry",
                named[0],
            )
            return cls()
        return cls(_sending_provider(environment))

    def around(self, app: ASGIApp) -> ASGIApp:
        """``app``, with a trace of each request if somebody wants them."""
        return app if self._provider is None else Tracing(app, self._provider)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._provider is None:
            return
        # It tries again and again to reach a collector that is away; nobody is to wait for that.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, LEAVE_S)
        # The log ends next; what that thread still says must not reach anybody without one.
        its_log = logging.getLogger("opentelemetry")
        its_log.addHandler(logging.NullHandler())
        its_log.propagate = False


def _sending_provider(environment: Mapping[str, str]) -> "TracerProvider":
    """Sends spans in a thread of its own."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = environment.get("OTEL_SERVICE_NAME") or SERVICE
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class Tracing:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, provider: "TracerProvider") -> None:
        self._app = app
        self._tracer: Tracer = provider.get_tracer("routebook.gateway", __version__)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, format_trace_id

        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._tracer.start_as_current_span(
            _method(scope, "HTTP"),
            context=extract(headers),
            kind=SpanKind.SERVER,
            attributes=_asked(scope),
        ) as span:
            outer = trace_id.set(format_trace_id(span.get_span_context().trace_id))
            try:
                await self._app(scope, receive, _noting_status(span, send))
            finally:
                _name(span, scope)
                trace_id.reset(outer)


def _method(scope: Scope, otherwise: str) -> str:
    """Anybody can make up methods; there are few names for them."""
    method: str = scope["method"]
    return method if method in METHODS else otherwise


def _asked(scope: Scope) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "http.request.method": _method(scope, "_OTHER"),
        "url.path": scope["path"],
        "url.scheme": scope["scheme"],
        "network.protocol.version": scope["http_version"],
        "routebook.request_id": request_id.get(),
    }
    if scope["client"]:
        attributes |= {"client.address": scope["client"][0], "client.port": scope["client"][1]}
    return attributes


def _name(span: "Span", scope: Scope) -> None:
    """After the route, known once the request was handed on: few names, not one for each topic."""
    route = getattr(scope.get("route"), "path", None)
    if route is not None:
        span.set_attribute("http.route", route)
        span.update_name(f"{_method(scope, 'HTTP')} {route}")


def _noting_status(span: "Span", send: Send) -> Send:
    from opentelemetry.trace import StatusCode

    async def noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(StatusCode.ERROR)
        await send(message)

    return noted
