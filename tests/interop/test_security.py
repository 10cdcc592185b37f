"""TLS and signed requests, with real Java clients and brokers."""

import subprocess
from pathlib import Path

import pytest

from interop.support.cluster import Cluster
from interop.support.launcher import Launcher
from interop.support.peers import BROKER_VERSIONS, NEW, OLD, tool_path
from interop.support.remoting import GET_BROKER_CLUSTER_INFO, Connection, broker_addrs
from interop.support.servers import NameServerProcess


@pytest.fixture
def tls_node(launcher: Launcher, tmp_path: Path) -> NameServerProcess:
    certificate, key = self_signed(tmp_path)
    return launcher.node(
        {
            "tls.server.mode": "enforcing",
            "tls.test.mode.enable": "false",
            "tls.server.certPath": str(certificate),
            "tls.server.keyPath": str(key),
        }
    )


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Paths of a PEM certificate for localhost and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([tool_path("openssl"), *request, *names], check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize("version", BROKER_VERSIONS)
def test_a_broker_and_a_client_work_over_tls(
    launcher: Launcher, tls_node: NameServerProcess, version: str
) -> None:
    broker = launcher.broker(version, tls_node.address, tls=True)
    assert broker_addrs(tls_node.address, broker.name, tls=True) == {"0": broker.address}
    sent = launcher.driver("Produce", tls_node.address, "new", "3", client=version, tls=True)
    assert "sent 3" in sent


def test_a_client_without_tls_is_not_answered(tls_node: NameServerProcess) -> None:
    with Connection(tls_node.address) as plain, pytest.raises((EOFError, ConnectionError)):
        plain.call(GET_BROKER_CLUSTER_INFO)


@pytest.mark.parametrize("client", [NEW, OLD])
def test_signed_requests_are_accepted(cluster: Cluster, launcher: Launcher, client: str) -> None:
    signed = {"acl.accessKey": "interop", "acl.secretKey": "not-so-secret"}
    topic = cluster.new_topic(NEW)
    route = launcher.driver("Route", cluster.namesrv, topic, client=client, properties=signed)
    assert cluster.master(NEW).address in route
    sent = launcher.driver("Produce", cluster.namesrv, topic, "3", client=client, properties=signed)
    assert "sent 3" in sent
