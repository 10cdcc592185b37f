"""``routebook gateway``: HTTP for nodes: page, API, probes, metrics, address service."""

from typing import Any

import click

from routebook.cli.errors import CannotStart
from routebook.cli.loops import run_loop, say_now, stop_signals
from routebook.cli.nameservers import Asking, asking_options
from routebook.client.errors import NoNameServers
from routebook.client.node import Node
from routebook.client.sources import find_source
from routebook.gateway.logs import gateway_log
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions
from routebook.gateway.program import child_options, run_child, run_gateway
from routebook.settings import KEYS, SettingsError, public_without_token
from routebook.version import __version__

DEFAULT_PORT = 19876


@click.command()
@click.option(
    "--nodes",
    metavar="HOST:PORT;...",
    help="The nodes to speak for; else as -n says. A gateway asks no others.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="HOST")
@click.option(
    "--http-read-token",
    envvar="ROUTEBOOK_HTTP_READ_TOKEN",
    metavar="TOKEN",
    help="Token to read with. Better given as ROUTEBOOK_HTTP_READ_TOKEN.",
)
@click.option(
    "--http-admin-token",
    envvar="ROUTEBOOK_HTTP_ADMIN_TOKEN",
    metavar="TOKEN",
    help="Token to change something with. Better given as ROUTEBOOK_HTTP_ADMIN_TOKEN.",
)
@click.option("--http-open", is_flag=True, help="Let everybody read, also from other machines.")
@click.option(
    "--http-hosts", default="", metavar="NAME;...", help="Further names browsers may call it by."
)
@click.option(
    "--name-servers",
    default="",
    metavar="HOST:PORT;...",
    help="What the address service tells; else the nodes.",
)
@click.option(
    "--address-service-port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Another port, for the address service alone.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="ROUTEBOOK_LOG_FORMAT",
    show_default=True,
    help="Lines of the log.",
)
@click.option("--node-socket", type=int, hidden=True)
@asking_options
def gateway(
    asking: Asking,
    nodes: str | None,
    port: int,
    bind: str,
    http_read_token: str | None,
    http_admin_token: str | None,
    http_open: bool,
    http_hosts: str,
    name_servers: str,
    address_service_port: int,
    log_format: str,
    node_socket: int | None,
) -> None:
    """Serve the page, the HTTP API, probes and metrics of nodes until told to stop.

    A node has a gateway of its own (gatewayPort). This one is for several nodes, and needs none of
    their files.
    """
    if node_socket is not None:
        _serve_own_node(node_socket)
        return
    try:
        options = GatewayOptions(
            port=port,
            bind=bind,
            address_service_port=address_service_port,
            address_service_bind=bind,
            name_servers=dict(_read("nameServers", name_servers)),
            read_token=http_read_token or None,
            admin_token=http_admin_token or None,
            open=http_open,
            hosts=_read("httpHosts", http_hosts),
        )
        refusal = public_without_token(bind, read_token=http_read_token, everybody=http_open)
        if refusal is not None:
            raise SettingsError(refusal)
        with gateway_log(log_format):
            run_loop(_run(asking, nodes, options))
    except (SettingsError, NoNameServers) as error:
        raise CannotStart(str(error)) from error


def _read(key: str, text: str) -> Any:
    """As the settings of a node are read."""
    try:
        return KEYS[key].read(text)
    except ValueError as error:
        raise SettingsError(str(error)) from error


async def _run(asking: Asking, nodes: str | None, options: GatewayOptions) -> None:
    stop = stop_signals()
    source = asking.source if nodes is None else find_source(nodes)
    addresses = await source.find()
    links = [Node(address, asking.dialing) for address in addresses]
    named = ", ".join(map(str, addresses))

    def listening(url: str) -> None:
        say_now(f"routebook {__version__} gateway ready on {url} (nodes: {named})")

    fleet = Fleet(links, dialing=asking.dialing)
    await run_gateway(fleet, options, stop, listening=listening)
    say_now("stopped")


def _serve_own_node(node_socket: int) -> None:
    options = child_options()
    with gateway_log(options.log_format):
        run_loop(run_child(node_socket, options))
