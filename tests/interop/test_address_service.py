"""Real brokers and clients find three nodes through the address service of a gateway."""

import os
import pwd
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.cluster import QUEUES, create_topic
from interop.support.launcher import Launcher
from interop.support.peers import NEW
from interop.support.remoting import broker_addrs, stored_messages
from interop.support.servers import NameServerProcess
from routebook.wire.codes import RequestCode
from support import raw
from support.gateways import fetch, gateway_of
from support.ports import free_port
from support.raw import BlockingPeer
from support.waiting import wait_for

TOPIC, UNIT = "found", "east"
SNAPSHOT = f"routebook-test-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Found:
    """Three nodes; one of them has a gateway that tells of all."""

    nodes: list[NameServerProcess]
    http_port: int
    broker: Broker

    @property
    def domain(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    def url(self, name: str) -> str:
        return f"http://{self.domain}/rocketmq/{name}"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, admin: Admin) -> Iterator[Found]:
    launcher = Launcher(tmp_path_factory.mktemp("found"))
    ports, http_port = [free_port() for _ in range(3)], free_port()
    addresses = [f"127.0.0.1:{port}" for port in ports]
    # In the unit the order is another, so that it can be told who asked for which list.
    lists = f"{';'.join(addresses)},{UNIT}={';'.join(reversed(addresses))}"
    properties = {"gatewayPort": str(http_port), "nameServers": lists}
    try:
        nodes = [launcher.node(properties if n == 0 else {}, port=ports[n]) for n in range(3)]
        wait_for("the gateway", lambda: is_up(http_port))
        broker = launcher.broker(
            NEW,
            nodes[2].address,
            settings={
                "namesrvAddr": "",
                "fetchNamesrvAddrByAddressServer": "true",
                "rmqAddressServerDomain": f"127.0.0.1:{http_port}",
                "rmqAddressServerSubGroup": "nsaddr",
                "registerNameServerPeriod": "10000",  # it asks for addresses after ten seconds
            },
            jvm_properties={"rocketmq.namesrv.domain": f"127.0.0.1:{http_port}"},
        )
        create_topic(admin, nodes[0].address, broker, TOPIC)
        yield Found(nodes, http_port, broker)
    finally:
        launcher.close()
        _snapshot().unlink(missing_ok=True)


def is_up(http_port: int) -> bool:
    try:
        return fetch(f"http://127.0.0.1:{http_port}/", "/readyz").status == 200
    except OSError:
        return False


def _snapshot() -> Path:
    """Where the Go client keeps what it found, whatever HOME says."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return home / "logs" / "rocketmq-go" / "snapshot" / f"nameserver_addr-{SNAPSHOT}"


def test_a_broker_registers_with_all_nodes_it_was_told_of(found: Found) -> None:
    wait_for(
        "the broker at all nodes",
        lambda: [broker_addrs(node.address, found.broker.name) for node in found.nodes],
        until=lambda seen: all(addrs.get("0") == found.broker.address for addrs in seen),
    )


def test_clients_find_the_nodes_with_and_without_a_unit(found: Found, launcher: Launcher) -> None:
    domain = {"rocketmq.namesrv.domain": found.domain}
    assert "sent 3" in launcher.driver("Produce", "-", TOPIC, "3", properties=domain)
    in_unit = {**domain, "unit": UNIT}
    assert "sent 3" in launcher.driver("Produce", "-", TOPIC, "3", properties=in_unit)
    for name in ("nsaddr", f"nsaddr-{UNIT}?nofix=1"):
        sent = launcher.go_probe(found.url(name), TOPIC, 3, "-instance", SNAPSHOT)
        assert "sent 3" in sent
    listed = ";".join(node.address for node in reversed(found.nodes))
    assert _snapshot().read_text() == listed  # what it was told last, in the unit


def test_clients_go_on_when_a_node_of_the_list_is_gone(found: Found, launcher: Launcher) -> None:
    """Java's fails where its very first question meets that node, so it runs already."""
    properties = {"rocketmq.namesrv.domain": found.domain, "pause": "100"}

    def stored() -> int:
        return stored_messages(found.broker.address, TOPIC, queues=QUEUES)

    before = stored()
    with ThreadPoolExecutor() as others:
        sending = others.submit(launcher.driver, "Produce", "-", TOPIC, "30", properties=properties)
        wait_for("its first message", stored, until=lambda count: count > before)
        found.nodes[1].kill()
        assert "sent 30" in sending.result()
    sent = launcher.go_probe(found.url("nsaddr"), TOPIC, 3, "-instance", SNAPSHOT)
    assert "sent 3" in sent


def test_an_offer_to_speak_http_2_is_answered_in_http_1(found: Found, launcher: Launcher) -> None:
    printed = launcher.driver("Http", f"http://{found.domain}/livez")
    assert printed.startswith("200 HTTP_1_1 ok")


async def test_of_rocketmqs_nameserver_a_gateway_knows_whether_it_answers(
    launcher: Launcher,
) -> None:
    java = launcher.java_name_server()
    with BlockingPeer(java.port) as peer:
        for code in (RequestCode.ROUTEBOOK_STATISTICS, RequestCode.ROUTEBOOK_SUMMARY):
            assert peer.call(code).code == raw.NOT_SUPPORTED
    async with gateway_of(java.address) as gateway:
        await gateway.settled()
        ready = await gateway.get("/readyz?verbose")
        metrics = await gateway.get("/metrics")
    assert ready.text == f"{java.address}: ready\nready\n"
    assert f'rocketmq_namesrv_up{{node="{java.address}"}} 1.0' in metrics.text
    assert "rocketmq_namesrv_topics" not in metrics.text
