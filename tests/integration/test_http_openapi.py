"""The OpenAPI document, and whatever may be sent to what it describes."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from openapi_spec_validator import validate
from requests import Session
from schemathesis import checks
from schemathesis.core.result import Ok

from routebook.gateway.access import Access
from routebook.gateway.api.table import OPERATIONS
from routebook.gateway.table import ENDPOINTS
from routebook.testing import Workbench
from support.gateways import GatewayThread
from support.journal_folders import write_journal
from support.night import night

READ, ADMIN = "read-token", "admin-token"
STREAMS = {operation.path for operation in OPERATIONS if operation.shape is None}
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
ASKED = 4  # of each operation, with parameters as they should be and as they should not


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    folder = tmp_path_factory.mktemp("night")
    write_journal(folder / "journal", night().records)
    with Workbench(tmp_path_factory.mktemp("nodes")) as bench:
        node = bench.nodes(1)[0]
        bench.broker("broker-a", topics=["orders"], nameservers=node.address)
        tokens = {"read_token": READ, "admin_token": ADMIN}
        with GatewayThread(node.address, own=True, data_dir=str(folder), **tokens) as gateway:
            yield gateway


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def example(path: str) -> str:
    return re.sub(r"\{(\w+)(:path)?\}", "x", path)


def test_it_is_one_that_others_can_read(gateway: GatewayThread) -> None:
    document: Any = gateway.get("/v1/openapi.json", **bearer(READ)).json
    validate(document)
    told = {(m.upper(), path) for path, by in document["paths"].items() for m in by}
    assert told == {(each.method, each.path) for each in ENDPOINTS if each.path.startswith("/v1/")}


def test_every_operation_says_who_may_ask(gateway: GatewayThread) -> None:
    document: Any = gateway.get("/v1/openapi.json", **bearer(READ)).json
    for operation in OPERATIONS:
        told = document["paths"][operation.path][operation.method.lower()]["security"]
        assert told[0] == {operation.access.value: []}


@pytest.mark.parametrize(
    "endpoint",
    [each for each in ENDPOINTS if each.access is not Access.OPEN],
    ids=lambda each: f"{each.method} {each.path}",
)
def test_nobody_is_answered_without_the_token_or_under_another_name(
    gateway: GatewayThread, endpoint: Any
) -> None:
    def asked(**headers: str) -> tuple[int, str]:
        ask = gateway.get if endpoint.method == "GET" else gateway.post
        page = ask(example(endpoint.path), **headers)
        error: Any = page.json
        return page.status, error["code"]

    assert asked() == (401, "token")
    assert asked(**bearer("wrong")) == (401, "token")
    assert asked(**bearer(ADMIN), Host="evil.example") == (403, "host")
    if endpoint.access is Access.ADMIN:
        assert asked(**bearer(READ)) == (401, "token")


def test_whatever_is_asked_is_answered_as_the_document_says(gateway: GatewayThread) -> None:
    """Parameters of all kinds get answers that are described; what means nothing is refused."""
    schema = schemathesis.openapi.from_url(f"{gateway.url}v1/openapi.json", headers=bearer(READ))
    asked: Counter[str] = Counter()
    with Session() as session:
        session.headers.update(bearer(ADMIN))
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()
            if operation.path in STREAMS:
                continue
            for mode in schemathesis.GenerationMode:
                asked[mode] += _asked(operation, mode, session)
    assert min(asked.values()) > ASKED


def _asked(operation: Any, mode: schemathesis.GenerationMode, session: Session) -> int:
    count = 0

    @settings(
        max_examples=ASKED,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        nonlocal count
        count += 1
        answer = case.call(session=session)
        # What is too long is turned away before anybody looks at what it means.
        looked_at = [*CHECKS, checks.negative_data_rejection]
        case.validate_response(answer, checks=CHECKS if answer.status_code == 414 else looked_at)

    try:
        ask()
    except Unsatisfiable:
        pass  # it has no parameters that could be wrong
    return count
