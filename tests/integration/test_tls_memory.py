"""What a TLS connection takes is charged, and there are no more than there is memory for."""

import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from routebook.server.descriptors import CONNECTION_BYTES, TLS_BYTES
from routebook.state.account import MIB, shared_out
from support import raw
from support.certificates import Identity, authority, identity
from support.memories import health
from support.nodes import NodeProcess

CONNECTIONS = 1000
FIRST = 50  # what these allocate is shared by all that follow


class Keys:
    def __init__(self, folder: Path) -> None:
        self.authority = authority(folder, "authority")
        self.server: Identity = identity(folder, "server", self.authority)
        self.words = ["--tls-server-cert-path", str(self.server.cert)]
        self.words += ["--tls-server-key-path", str(self.server.key)]
        self.context = ssl.create_default_context(cafile=str(self.authority.cert))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def greeted(node: NodeProcess, keys: Keys, stack: ExitStack) -> None:
    """A connection that has shaken hands and asked something."""
    plain = socket.create_connection(("127.0.0.1", node.port), timeout=60)
    peer = stack.enter_context(keys.context.wrap_socket(plain, server_hostname="localhost"))
    peer.sendall(raw.request(raw.ROUTE, {"topic": "nobody"}))
    assert peer.recv(4096)


def begun(node: NodeProcess, keys: Keys, stack: ExitStack) -> None:
    """A connection that says hello, hears the answer and says no more."""
    peer = stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=60))
    peer.sendall(hello(keys))
    assert peer.recv(16 * 1024)


def hello(keys: Keys) -> bytes:
    said = ssl.MemoryBIO()
    session = keys.context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        session.do_handshake()
    return said.read()


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("connect", [greeted, begun])
def test_a_tls_connection_takes_what_is_charged_for_it_at_most(
    tmp_path: Path, keys: Keys, connect: Callable[[NodeProcess, Keys, ExitStack], None]
) -> None:
    with ExitStack() as stack:
        node = stack.enter_context(NodeProcess(tmp_path, *keys.words))
        for _ in range(FIRST):
            connect(node, keys, stack)
        before = node.memory()
        for _ in range(CONNECTIONS):
            connect(node, keys, stack)
        each = (node.memory() - before) // CONNECTIONS
        with node.connect() as bystander:
            charged = health(bystander)["memory"]["kinds"]["connections"]
    assert charged == (FIRST + CONNECTIONS) * (CONNECTION_BYTES + TLS_BYTES) + CONNECTION_BYTES
    assert (CONNECTION_BYTES + TLS_BYTES) // 5 < each < CONNECTION_BYTES + TLS_BYTES


def test_there_are_no_more_tls_sessions_than_memory_and_plain_peers_are_served(
    tmp_path: Path, keys: Keys
) -> None:
    share = shared_out(192 * MIB).answers
    with ExitStack() as stack:
        node = stack.enter_context(NodeProcess(tmp_path, "--memory-limit", "192m", *keys.words))
        said = hello(keys)
        answers = []
        for _ in range(share // TLS_BYTES + 50):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", node.port)))
            peer.settimeout(60)
            peer.sendall(said)
            answers.append(_answer(peer))
        with node.connect() as bystander:
            assert bystander.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST
            charged = health(bystander)["memory"]["kinds"]["connections"]
        assert charged <= share
        assert 0 < answers.count(b"") < len(answers) // 2
        assert node.lines_with("there is no memory for another TLS session (memoryLimit)")


def _answer(peer: socket.socket) -> bytes:
    try:
        return peer.recv(16 * 1024)
    except ConnectionResetError:
        return b""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for thousands of connections, for the nodes started here too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 12_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
