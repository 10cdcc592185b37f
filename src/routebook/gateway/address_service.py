"""The address service: where the NameServers are, for RocketMQ's clients and brokers.

They ask for ``/rocketmq/nsaddr``, or ``/rocketmq/nsaddr-<unit>?nofix=1``, and take the first line
of the answer as addresses with ``;`` between. They cannot show a token. An answer without a body
makes Java's throw, so errors have one too; an empty list is never told.
"""

from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.access import Access
from routebook.gateway.answers import text_answer
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.nodes import FollowedNode
from routebook.gateway.probes import NO_STORE
from routebook.wire.address import Address

SUBGROUP = "nsaddr"


async def addresses(request: Request, gateway: Gateway) -> Response:
    name: str = request.path_params["name"]
    if name != SUBGROUP and not name.startswith(f"{SUBGROUP}-"):
        return text_answer(
            f"ask for /rocketmq/{SUBGROUP} or /rocketmq/{SUBGROUP}-<unit>\n", status=404
        )
    unit = name.removeprefix(SUBGROUP).removeprefix("-")
    return text_answer(f"{';'.join(_told(request, gateway, unit))}\n", headers=NO_STORE)


def _told(request: Request, gateway: Gateway, unit: str) -> list[str]:
    """In an order that stays: clients log another text as a change."""
    lists = gateway.options.name_servers
    leaving = _leaving(request, gateway)
    listed = lists.get(unit) or lists.get("")
    if listed is None:
        listed = tuple(_shown(request, gateway, node) for node in gateway.fleet.nodes)
    return [address for address in listed if address not in leaving] or list(listed)


def _leaving(request: Request, gateway: Gateway) -> set[str]:
    """Nodes that stop, by all names they may be listed under."""
    found: set[str] = set()
    for node in gateway.fleet.nodes:
        view = None if node.view is None else node.view.value
        if node.leaving or node.following.leaving or (view and view.condition.draining):
            found |= {node.name, _shown(request, gateway, node)}
    return found


def _shown(request: Request, gateway: Gateway, node: FollowedNode) -> str:
    """How clients reach ``node``: never an address that stands for all there are."""
    if not node.own:
        return node.name
    advertised, port = gateway.options.advertised_address, gateway.options.listen_port
    if advertised:
        bare = advertised.endswith("]") or ":" not in advertised
        return f"{advertised}:{port}" if bare else advertised
    server = request.scope.get("server")
    host = str(server[0]) if server else node.address.host
    return str(Address(host.removeprefix("::ffff:"), port))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/rocketmq/{name}",
        Access.OPEN,
        addresses,
        "Where the NameServers are, for RocketMQ's clients.",
    ),
)
