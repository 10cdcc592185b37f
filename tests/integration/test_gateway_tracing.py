"""Traces of requests to a gateway, into OpenTelemetry's exporters in memory and over HTTP."""

import asyncio
import gzip
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway import tracing
from routebook.gateway.access import Access
from routebook.gateway.answers import text_answer
from routebook.gateway.app import make_app
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.listening import HttpPort
from routebook.gateway.logs import gateway_log
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from routebook.gateway.tracing import Traces, Tracing
from support.gateways import Page, fetch
from support.nodes import NodeProcess
from support.ports import free_port
from support.programs import Program
from support.waiting import wait_for

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def topic(request: Request, gateway: Gateway) -> Response:
    return text_answer(request.path_params["topic"])


async def broken(request: Request, gateway: Gateway) -> Response:
    raise ValueError("a fault of ours")


ENDPOINTS = [
    Endpoint("GET", "/v1/routes/{topic}", Access.OPEN, topic, "A topic."),
    Endpoint("GET", "/v1/broken", Access.OPEN, broken, "Fails."),
]
APP = make_app(Fleet([]), GatewayOptions(), ENDPOINTS)


async def asked(
    path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[Page, ReadableSpan]:
    """The answer, and the only span that was made of it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with HttpPort(Tracing(APP, provider), "127.0.0.1", 0) as port:
        page = await asyncio.to_thread(fetch, port.url, path, method, headers)
    [span] = exporter.get_finished_spans()
    return page, span


async def test_a_request_is_a_span_named_after_its_route() -> None:
    page, span = await asked("/v1/routes/orders?limit=1", {"X-Request-Id": "r1"})
    assert page.text == "orders"
    assert (span.name, span.kind) == ("GET /v1/routes/{topic}", SpanKind.SERVER)
    attributes = dict(span.attributes or {})
    assert attributes.pop("client.port")
    assert attributes == {
        "http.request.method": "GET",
        "http.route": "/v1/routes/{topic}",
        "http.response.status_code": 200,
        "url.path": "/v1/routes/orders",
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "client.address": "127.0.0.1",
        "routebook.request_id": "r1",
    }
    assert span.status.status_code is StatusCode.UNSET


async def test_a_trace_that_was_begun_elsewhere_goes_on() -> None:
    _, span = await asked("/v1/routes/orders", {"traceparent": PARENT})
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (
        0x0AF7651916CD43DD8448EB211C80319C,
        0xB7AD6B7169203331,
    )


async def test_a_fault_is_an_error_with_its_exception() -> None:
    page, span = await asked("/v1/broken")
    assert page.status == 500
    assert span.status.status_code is StatusCode.ERROR
    assert "exception" in [event.name for event in span.events]


@pytest.mark.parametrize(("method", "path"), [("GET", "/nowhere/42"), ("FORGED", "/nowhere")])
async def test_strangers_cannot_make_up_names_of_spans(method: str, path: str) -> None:
    page, span = await asked(path, method=method)
    assert page.status == 404
    assert span.name == ("GET" if method == "GET" else "HTTP")
    assert span.status.status_code is StatusCode.UNSET  # it is the client's mistake


async def test_lines_of_the_log_name_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_log("json"):
        await asked("/v1/broken", {"traceparent": PARENT})
    fault = json.loads(capsys.readouterr().err.splitlines()[0])
    assert fault["traceback"]
    assert fault["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "environment",
    [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}],
    ids=["nowhere", "disabled"],
)
def test_nobody_is_traced_who_did_not_ask_for_it(environment: dict[str, str]) -> None:
    assert Traces.of(environment).around(APP) is APP


def test_whoever_wants_traces_without_having_them_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    with caplog.at_level(logging.WARNING):
        traces = Traces.of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert traces.around(APP) is APP
    assert caplog.messages == [
        "OTEL_EXPORTER_OTLP_ENDPOINT is set, but there are no traces: `pip install"
        " 'routebook[otel]'` brings OpenTelemetry"
    ]


class Collector(ThreadingHTTPServer):
    """Takes traces over HTTP, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Take)
        self.requests: list[ExportTraceServiceRequest] = []

    def names(self) -> set[tuple[str, str]]:
        """Service and span."""
        return {
            (attribute.value.string_value, span.name)
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
            for scope in resource.scope_spans
            for span in scope.spans
        }


class _Take(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_gateway_of_a_node_sends_its_traces_and_logs_as_told(
    tmp_path: Path, collector: Collector
) -> None:
    port = free_port()
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "NO_PROXY": "127.0.0.1",
    }
    options = ("--gateway-port", str(port), "--log-format", "json")
    with NodeProcess(tmp_path, *options, environment=environment) as node:
        node.wait_for_output(f"http://127.0.0.1:{port}/")
        answer = fetch(f"http://127.0.0.1:{port}/", "/v1/nothing/at/all")
        wait_for("a trace", collector.names)
        assert node.stop() == 0
    assert collector.names() == {("routebook-gateway", "GET")}
    lines = [json.loads(line) for line in node.stderr.splitlines()]
    assert {"NodeStarted", "NodeStopped"} <= {line.get("event") for line in lines}
    [line] = [line for line in lines if line["logger"] == "routebook.gateway.requests"]
    assert line["request_id"] == answer.headers["x-request-id"]


def test_a_collector_that_is_away_keeps_nobody_from_ending(tmp_path: Path) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
    words = ("gateway", "--nodes", "127.0.0.1:1", "--port", "0", "--log-format", "json")
    with Program(tmp_path, *words, ready="ready on", environment=environment) as gateway:
        url = gateway.stdout.partition("ready on ")[2].split()[0]
        assert fetch(url, "/v1/nothing").status == 404
        assert gateway.stop() == 0
    for line in gateway.stderr.splitlines():  # nothing was said after the log had ended
        json.loads(line)
