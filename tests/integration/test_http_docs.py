"""The examples of docs/http.md, the shapes of the OpenAPI document, and real answers: all alike."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from routebook.gateway.api import shapes
from routebook.gateway.api.operations import Operation
from routebook.gateway.api.table import OPERATIONS
from routebook.testing import Workbench
from support.documents import ROOT
from support.gateways import GatewayThread
from support.journal_folders import write_journal
from support.night import night

PAGE = (ROOT / "docs" / "http.md").read_text()
HEADING = re.compile(r"^### (?:GET|POST) (\S+?),?(?: |$)", re.MULTILINE)
EXAMPLE = re.compile(r"^```json by \S+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BY_PATH = {operation.path: operation for operation in OPERATIONS}


def sections() -> Iterator[tuple[str, str]]:
    """Paths of the page, each with the text below it."""
    parts = HEADING.split(PAGE)
    yield from zip(parts[1::2], parts[2::2], strict=True)


def shapes_of(operation: Operation) -> list[Any]:
    found = operation.shape if isinstance(operation.shape, tuple) else (operation.shape,)
    streamed = [shapes.EventTold] if operation.path == "/v1/events" else []
    return [*found, *(operation.others or {}).values(), *streamed]


def fits(document: Any, shape: Any) -> bool:
    """Whether it has all members of the shape, and no others."""
    if shape is None:
        return False
    try:
        again = msgspec.json.encode(msgspec.convert(document, shape))
        return bool(msgspec.json.decode(again) == document)
    except msgspec.ValidationError:
        return False


EXAMPLES = [
    pytest.param(path, json.loads(text), id=f"{path}-{number}")
    for path, section in sections()
    for number, text in enumerate(EXAMPLE.findall(section))
]


@pytest.mark.parametrize(("path", "example"), EXAMPLES)
def test_each_example_has_the_members_of_a_real_answer(path: str, example: Any) -> None:
    """Of the shapes, that is; that real answers have them too is seen below."""
    assert any(fits(example, shape) for shape in shapes_of(BY_PATH[path]))


def test_every_operation_is_told_of_with_an_example() -> None:
    told = {path for path, section in sections() if EXAMPLE.search(section)}
    told |= {"/v1/watch", "/v1/undrain/{broker}"}  # a console block; the same as the one above it
    assert {operation.path for operation in OPERATIONS} - told == {"/v1/openapi.json"}


def test_the_example_of_an_error_is_one() -> None:
    first = EXAMPLE.search(PAGE)
    assert first is not None
    assert fits(json.loads(first[1]), shapes.Error)


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    """Of two nodes that differ."""
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        nodes = bench.nodes(2)
        bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
        bench.broker("broker-b", topics=["orders"], nameservers=nodes[0].address)
        nodes[0].client().put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:8")
        with GatewayThread(*(node.address for node in nodes)) as gateway:
            yield gateway


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    """Of a node with the journal of a night."""
    folder = tmp_path_factory.mktemp("night")
    write_journal(folder / "journal", night().records)
    with (
        Workbench(folder) as bench,
        GatewayThread(bench.nodes(1)[0].address, own=True, data_dir=str(folder)) as gateway,
    ):
        yield gateway


@pytest.mark.parametrize(
    "path",
    [
        "/v1/now",
        "/v1/routes/orders",
        "/v1/routes/orders?all=true",
        "/v1/routes/orders?at=now",
        "/v1/topics",
        "/v1/brokers",
        "/v1/brokers/broker-a",
        "/v1/clusters",
        "/v1/kv",
        "/v1/nodes",
        "/v1/differences",
        "/v1/doctor",
        "/v1/guard",
        "/v1/history/compare",
        "/v1/openapi.json",
    ],
)
def test_a_real_answer_has_the_members_of_its_shape(present: GatewayThread, path: str) -> None:
    check(present, path)


NIGHT = "from=2026-11-15T03:00:00Z&to=2026-11-15T03:55:00Z"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/history",
        "/v1/history/route?topic=orders&at=2026-11-15T03:51:04Z",
        "/v1/history/diff?from=2026-11-15T03:15:00Z&to=2026-11-15T03:40:30Z",
        "/v1/history/topic?topic=payments",
        "/v1/history/demand?topic=orders",
        "/v1/history/broker?broker=broker-a",
        "/v1/history/heartbeats?broker=broker-a",
        "/v1/history/explain?name=broker-a",
        "/v1/history/topics?broker=broker-a&at=2026-11-15T03:30:00Z&limit=3",
        f"/v1/history/window?{NIGHT}",
    ],
)
def test_a_real_answer_about_the_past_has_the_members_of_its_shape(
    past: GatewayThread, path: str
) -> None:
    check(past, path)


def check(gateway: GatewayThread, path: str) -> None:
    document = gateway.document(path)
    template = path.partition("?")[0]
    template = re.sub(r"^/v1/(routes|brokers)/.*", _template, template)
    found = shapes_of(BY_PATH[template])
    assert any(fits(document, shape) for shape in found), document


def _template(found: "re.Match[str]") -> str:
    return {"routes": "/v1/routes/{topic}", "brokers": "/v1/brokers/{broker}"}[found[1]]


def test_the_page_names_every_parameter() -> None:
    by_path = dict(sections())
    for operation in OPERATIONS:
        section = by_path.get(operation.path, PAGE)
        shared = {"limit", "cursor", "node"}
        for parameter in operation.parameters:
            told = parameter.in_path or parameter.name in shared or f"`{parameter.name}" in section
            assert told, (operation.path, parameter.name)


def test_the_folder_of_the_journal_is_told_to_nobody(past: GatewayThread) -> None:
    assert past.document("/v1/history")["sources"][0]["source"] == "journal"
