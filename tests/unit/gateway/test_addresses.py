"""How a node's own gateway tells of it: never an address that stands for all there are."""

import pytest
from starlette.requests import Request

from routebook.gateway.address_service import addresses
from routebook.gateway.gateway import Gateway
from routebook.gateway.link import OwnNode
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from routebook.gateway.program import own_address
from routebook.wire.address import Address


def request(server: tuple[str, int] | None) -> Request:
    scope: dict[str, object] = {
        "type": "http",
        "method": "GET",
        "path": "/rocketmq/nsaddr",
        "path_params": {"name": "nsaddr"},
        "query_string": b"",
        "headers": [],
        "server": server,
    }
    return Request(scope)


@pytest.mark.parametrize(
    ("advertised", "server", "told"),
    [
        pytest.param("", ("10.0.0.7", 8080), "10.0.0.7:9876", id="as-it-was-reached"),
        pytest.param("", ("::ffff:10.0.0.7", 8080), "10.0.0.7:9876", id="mapped"),
        pytest.param("", ("fd00::7", 8080), "[fd00::7]:9876", id="v6"),
        pytest.param("ns1.example.com", ("10.0.0.7", 1), "ns1.example.com:9876", id="name"),
        pytest.param("ns1:1234", ("10.0.0.7", 1), "ns1:1234", id="name-and-port"),
        pytest.param("[fd00::9]", ("10.0.0.7", 1), "[fd00::9]:9876", id="advertised-v6"),
    ],
)
async def test_a_node_is_told_by(advertised: str, server: tuple[str, int], told: str) -> None:
    options = GatewayOptions(advertised_address=advertised, listen_host="0.0.0.0", listen_port=9876)
    node = OwnNode(Address("0.0.0.0", 9876), None)  # type: ignore[arg-type]  # it is not asked
    gateway = Gateway(Fleet([node], own=True), options)
    answer = await addresses(request(server), gateway)
    assert bytes(answer.body) == told.encode() + b"\n"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        pytest.param(GatewayOptions(listen_host="0.0.0.0", listen_port=1), "127.0.0.1:1", id="all"),
        pytest.param(GatewayOptions(listen_host="::1", listen_port=1), "[::1]:1", id="v6"),
        pytest.param(
            GatewayOptions(advertised_address="ns1", listen_port=1), "ns1:1", id="advertised"
        ),
        pytest.param(
            GatewayOptions(advertised_address="ns1:2", listen_port=1), "ns1:2", id="with-port"
        ),
    ],
)
def test_a_node_is_called_by_its_gateway(options: GatewayOptions, name: str) -> None:
    assert str(own_address(options)) == name
