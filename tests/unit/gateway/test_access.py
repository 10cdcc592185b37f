"""Who may ask for what."""

from base64 import b64encode

import pytest
from starlette.datastructures import Headers

from routebook.gateway.access import Access, AccessRules
from routebook.gateway.options import GatewayOptions


def status(access: Access, options: GatewayOptions, **headers: str) -> int:
    refusal = AccessRules.of(options).refusal(access, Headers(headers))
    return 200 if refusal is None else refusal.status_code


def basic(password: str) -> str:
    return "Basic " + b64encode(f"anybody:{password}".encode()).decode()


OPEN = GatewayOptions()
TOKENS = GatewayOptions(read_token="r-secret", admin_token="a-secret")


@pytest.mark.parametrize("host", ["localhost", "localhost:19876", "127.0.0.1:80", "[::1]:80"])
def test_reading_is_open_where_there_is_no_token(host: str) -> None:
    assert status(Access.READ, OPEN, host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example.com", "localhost.evil.com", "", "a:b", "localhost:x"]
)
@pytest.mark.parametrize("access", [Access.READ, Access.ADMIN])
def test_a_name_that_is_not_ours_is_refused(host: str, access: Access) -> None:
    assert status(access, TOKENS, host=host, authorization="Bearer a-secret") == 403


def test_what_is_open_is_so_under_any_name() -> None:
    assert status(Access.OPEN, TOKENS, host="evil.example.com") == 200


def test_names_of_the_settings_are_ours() -> None:
    options = GatewayOptions(hosts=("NS1.example.com",), advertised_address="ns2.example.com:9876")
    for name in ("ns1.example.com", "Ns2.example.com:19876"):
        assert status(Access.READ, options, host=name) == 200


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        pytest.param("Bearer r-secret", 200, id="bearer"),
        pytest.param("bearer  r-secret ", 200, id="other-case-and-blanks"),
        pytest.param(basic("r-secret"), 200, id="password"),
        pytest.param("Bearer a-secret", 200, id="who-may-change-may-read"),
        pytest.param("Bearer r-secre", 401, id="shorter"),
        pytest.param("Bearer r-secret2", 401, id="longer"),
        pytest.param("r-secret", 401, id="no-scheme"),
        pytest.param(basic("wrong"), 401, id="wrong-password"),
        pytest.param("Basic r-secret", 401, id="not-base64"),
        pytest.param("Bearer ü", 401, id="not-ascii"),
        pytest.param("", 401, id="nothing"),
    ],
)
def test_a_token_to_read_with(authorization: str, expected: int) -> None:
    got = status(Access.READ, TOKENS, host="localhost", authorization=authorization)
    assert got == expected


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        pytest.param("Bearer a-secret", 200, id="bearer"),
        pytest.param(basic("a-secret"), 401, id="browsers-send-passwords-by-themselves"),
        pytest.param("Bearer r-secret", 401, id="the-other-token"),
        pytest.param("", 401, id="nothing"),
    ],
)
def test_a_token_to_change_with(authorization: str, expected: int) -> None:
    got = status(Access.ADMIN, TOKENS, host="localhost", authorization=authorization)
    assert got == expected


def test_without_a_token_nobody_changes_anything() -> None:
    assert status(Access.ADMIN, OPEN, host="localhost", authorization="Bearer ") == 403
