"""``routebook gateway``, and the ports and settings of a node's own."""

import socket
from pathlib import Path

import pytest

from routebook.client.sync import SyncNameServerClient
from routebook.gateway.options import GatewayOptions, decode_options
from routebook.server.gateway_process import options_of
from routebook.settings import make_settings
from support.fleet import run_program
from support.gateways import fetch
from support.nodes import NodeProcess
from support.ports import free_port
from support.programs import Program
from support.waiting import wait_for


def test_it_speaks_for_the_nodes_it_is_told_of(tmp_path: Path) -> None:
    port, service_port = free_port(), free_port()
    with NodeProcess(tmp_path / "a") as first, NodeProcess(tmp_path / "b") as second:
        nodes = [f"127.0.0.1:{first.port}", f"127.0.0.1:{second.port}"]
        gateway = Program(
            tmp_path / "gateway",
            *("gateway", "--nodes", ";".join(nodes), "--port", str(port)),
            *("--address-service-port", str(service_port)),
            ready="gateway ready on",
        )
        with gateway:
            url = f"http://127.0.0.1:{port}/"
            assert f"gateway ready on {url} (nodes: {', '.join(nodes)})" in gateway.stdout
            ready = wait_for(
                "both",
                lambda: fetch(url, "/readyz?verbose"),
                until=lambda page: page.text.count(": ready\n") == 2,
            )
            assert ready.status == 200
            assert fetch(url, "/rocketmq/nsaddr").text == f"{';'.join(nodes)}\n"
            service = f"http://127.0.0.1:{service_port}/"
            wait_for("the other port", lambda: listens(service_port))
            assert fetch(service, "/rocketmq/nsaddr").status == 200
            assert fetch(service, "/metrics").status == 404  # addresses and nothing else
            assert gateway.stop() == 0
        assert gateway.stdout.endswith("stopped\n")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param(
            ("--bind", "0.0.0.0"), "set httpReadToken, or httpOpen=true", id="public-bind"
        ),
        pytest.param(
            ("--name-servers", "no-port"), "nameServers must be addresses such as", id="list"
        ),
        pytest.param(("--http-hosts", "a b"), "httpHosts must be host names", id="hosts"),
    ],
)
def test_what_it_does_not_start_with(options: tuple[str, ...], sentence: str) -> None:
    ran = run_program("gateway", "--nodes", "127.0.0.1:1", "--port", "0", *options)
    assert ran.exit_code == 2
    assert sentence in ran.stderr


def test_a_port_that_is_taken_ends_it(tmp_path: Path) -> None:
    """Nobody would start it again, or wait for it: it is not the child of a node."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        gateway = Program(
            tmp_path, "gateway", "--nodes", "127.0.0.1:1", "--port", port, ready="ready on"
        )
        assert gateway.run() == 2
    assert "which is in use" in gateway.stderr


def test_a_node_has_a_port_for_addresses_alone_and_tells_how_it_was_reached(
    tmp_path: Path,
) -> None:
    port, service_port = free_port(), free_port()
    options = ("--gateway-port", str(port), "--address-service-port", str(service_port))
    with NodeProcess(tmp_path, *options) as node:
        wait_for("the service", lambda: listens(service_port) and listens(port))
        own = f"127.0.0.1:{node.port}\n"
        assert fetch(f"http://127.0.0.1:{service_port}/", "/rocketmq/nsaddr").text == own
        assert fetch(f"http://127.0.0.1:{port}/", "/rocketmq/nsaddr-unit?nofix=1").text == own
        assert fetch(f"http://127.0.0.1:{service_port}/", "/livez").status == 404


def test_tokens_reach_the_gateway_and_nobody_else(tmp_path: Path) -> None:
    port = free_port()
    node = NodeProcess(
        tmp_path,
        *("--gateway-port", str(port)),
        environment={"ROUTEBOOK_HTTP_READ_TOKEN": "a-very-secret-token"},
    )
    with node:
        node.wait_for_output("page, HTTP API and metrics on")
        assert fetch(f"http://127.0.0.1:{port}/", "/livez").status == 200  # open to all
        with SyncNameServerClient(f"127.0.0.1:{node.port}") as client:
            child = client.health()["gateway"]["pid"]
        assert b"a-very-secret" not in Path(f"/proc/{child}/cmdline").read_bytes()
        shown = run_program("config", "show", "-n", f"127.0.0.1:{node.port}", "--json")
        assert "a-very-secret" not in shown.stdout + node.log


def test_a_node_tells_its_child_every_option(tmp_path: Path) -> None:
    settings = make_settings(
        tmp_path,
        gateway_port=1,
        gateway_bind="10.0.0.1",
        address_service_port=2,
        bind_address="10.0.0.2",
        advertised_address="ns1.example.com:9876",
        name_servers="a:1;b:2,east=c:3",
        http_read_token="r",
        http_admin_token="a",
        http_open=True,
        http_hosts="x.example.com;y.example.com",
        log_format="json",
    )
    told = decode_options(options_of(settings, "0.0.0.0", 9876))
    assert told == GatewayOptions(
        port=1,
        bind="10.0.0.1",
        address_service_port=2,
        address_service_bind="10.0.0.2",
        advertised_address="ns1.example.com:9876",
        listen_host="0.0.0.0",
        listen_port=9876,
        name_servers={"": ("a:1", "b:2"), "east": ("c:3",)},
        read_token="r",
        admin_token="a",
        open=True,
        hosts=("x.example.com", "y.example.com"),
        log_format="json",
        data_dir=str(settings.data_dir),
    )
