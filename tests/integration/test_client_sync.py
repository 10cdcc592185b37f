"""The synchronous face: same names, any thread, any process."""

import asyncio
import inspect
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from routebook.client import client as aio
from routebook.client import sync
from routebook.client.dialing import Dialing, Tls
from routebook.client.errors import (
    AllNodesFailed,
    NameServerError,
    NoNameServers,
    Refused,
    TopicNotFound,
)
from routebook.client.requests import route_question
from routebook.client.sync import SyncNameServerClient
from routebook.wire.address import Address
from routebook.wire.answers import TopicQueues
from routebook.wire.signature import Credentials
from support.brokers import Broker
from support.builders import registration_body
from support.leaks import open_sockets
from support.misbehaving import Behaviour, Server, for_ever, routes, silence, unused_port
from support.nodes import NodeProcess
from support.raw import REGISTER, SUCCESS
from support.waiting import wait_for


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that knows the topics ``orders`` and ``payments`` of broker-a."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node, node.connect() as broker:
        registered = broker.ask(REGISTER, Broker("broker-a").fields, registration_body())
        assert registered.code == SUCCESS
        yield node


@pytest.fixture
def address(node: NodeProcess) -> str:
    return f"127.0.0.1:{node.port}"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """No thread and no socket of a client outlives its test."""
    sockets = open_sockets()
    yield
    assert client_threads() == []
    wait_for("sockets to be closed", open_sockets, until=lambda now: now == sockets)


def client_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "routebook" in thread.name]


class ServerThread:
    """A misbehaving server with a loop and a thread of its own."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._thread = sync.LoopThread()
        self.server = Server(behaviour)

    def __enter__(self) -> Server:
        return self._thread.run(self.server.__aenter__())

    def __exit__(self, *_: object) -> None:
        self._thread.run(self.server.__aexit__(None, None, None))
        self._thread.stop()


# -- the same names


def public(kind: type) -> dict[str, list[tuple[str, object, object]]]:
    """Names and parameters of what a class offers; properties have none."""
    return {
        name: [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(member).parameters.values()
        ]
        if callable(member)
        else []
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("name", ["NameServerClient", "NodeClient"])
def test_both_faces_have_the_same_names_and_parameters(name: str) -> None:
    offered = public(getattr(sync, f"Sync{name}"))

    assert offered == public(getattr(aio, name))
    assert "route" in offered


@pytest.mark.parametrize("name", ["NameServerClient", "NodeClient"])
def test_both_faces_return_the_same(name: str) -> None:
    ours, theirs = getattr(sync, f"Sync{name}"), getattr(aio, name)
    for method in public(ours):
        one, other = getattr(ours, method), getattr(theirs, method)
        if callable(one):
            returned = str(inspect.signature(one).return_annotation)
            awaited = str(inspect.signature(other).return_annotation)
            assert returned == awaited.replace("client.NodeClient", "sync.SyncNodeClient")


def test_every_call_reaches_a_node(address: str) -> None:
    with SyncNameServerClient(address) as client:
        route = client.route("orders")
        assert route.queues == (TopicQueues("broker-a", 8, 8, 6),)
        assert client.find_route("orders") == route
        assert client.find_route("nowhere") is None
        assert list(client.cluster_view().brokers) == ["broker-a"]
        assert client.broker_group("DefaultCluster", "broker-a") == route.brokers[0]
        assert client.topics() == ("orders", "payments")
        assert client.topics_of_cluster("DefaultCluster") == ("orders", "payments")
        assert client.system_topics().topics == ("DefaultCluster", "broker-a")
        assert client.unit_topics() == ()
        assert client.unit_sub_topics() == ()
        assert client.unit_sub_ununit_topics() == ()
        client.register_topic("new", [TopicQueues("broker-a", 1, 1, 6)])
        client.delete_topic("new")
        assert client.wipe_write_permission("broker-a") == 2
        assert client.add_write_permission("broker-a") == 2
        client.put_kv("ns", "key", "value")
        assert client.find_kv("ns", "key") == "value"
        assert client.kv_table("ns") == {"key": "value"}
        client.delete_kv("ns", "key")
        assert client.config()["listenPort"] == address.partition(":")[2]
        with pytest.raises(Refused):
            client.update_config({"enableTopicList": "false"})
        node = Address.parse(address)
        assert client.nodes() == (node,)
        assert client.chosen == node
        assert client.source.description == "the program"
        assert client.on_every_node(lambda one: one.topics()) == {node: ("orders", "payments")}
        assert client.ask(route_question("orders")).node == node
        known, unknown = client.ask_many([route_question("orders"), route_question("nowhere")])
        assert not isinstance(known, Exception)
        assert isinstance(unknown, TopicNotFound)


def test_one_node_is_asked_by_its_address(address: str) -> None:
    with SyncNameServerClient(address) as client:
        one = client.on(address)

        assert one.address == Address.parse(address)
        assert one.topics() == ("orders", "payments")
        assert len(one.ask_many([route_question("orders")])) == 1
        with pytest.raises(TopicNotFound):
            one.route("nowhere")
        with pytest.raises(NoNameServers):
            client.on("127.0.0.9:1")


# -- errors


def test_a_malformed_address_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="not a NameServer address"):
        SyncNameServerClient("nonsense")


def test_nobody_there_is_a_typed_error() -> None:
    with (
        SyncNameServerClient(f"127.0.0.1:{unused_port()}") as client,
        pytest.raises(AllNodesFailed, match="connection refused"),
    ):
        client.route("T")


def test_the_deadline_of_a_call_is_kept() -> None:
    with (
        ServerThread(silence) as server,
        SyncNameServerClient(server.address) as client,
        pytest.raises(AllNodesFailed, match=r"no answer within 0\.[23]\d* s"),
    ):
        client.route("T", timeout_s=0.3)


# -- threads


def test_many_threads_share_one_connection() -> None:
    with ServerThread(routes) as server, SyncNameServerClient(server.address) as client:
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda n: client.route(f"T{n}").topic, range(400)))

        assert found == [f"T{n}" for n in range(400)]
        assert server.accepted == 1
        assert len(client_threads()) == 2  # the client's and the server's


@pytest.mark.parametrize("behaviour", [silence, routes], ids=["in-flight", "busy"])
def test_closing_ends_the_calls_of_other_threads(behaviour: Behaviour) -> None:
    outcomes: list[object] = []

    def ask_until_closed(client: SyncNameServerClient) -> None:
        try:
            while True:
                client.route("T", timeout_s=60.0)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is looked at below
            outcomes.append(error)

    for _ in range(5):
        with ServerThread(behaviour) as server:
            client = SyncNameServerClient(server.address)
            threads = [
                threading.Thread(target=ask_until_closed, args=(client,), daemon=True)
                for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            wait_for("questions", lambda: len(server.requests), until=lambda count: count >= 8)

            client.close()

            for thread in threads:
                thread.join(20.0)
                assert not thread.is_alive()

    assert len(outcomes) == 40
    assert all(isinstance(outcome, NameServerError) for outcome in outcomes), outcomes


def test_closing_ends_a_call_that_would_never_end(address: str) -> None:
    client = SyncNameServerClient(address)
    begun = threading.Event()

    async def never_end(_: aio.NodeClient) -> None:
        begun.set()
        await for_ever()

    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(client.on_every_node, never_end)
        assert begun.wait(20.0)

        client.close()

        with pytest.raises(NameServerError, match="this client is closed"):
            call.result(20.0)


def test_a_closed_client_says_so_and_can_be_closed_again(address: str) -> None:
    client = SyncNameServerClient(address)
    client.topics()
    client.close()

    with pytest.raises(NameServerError, match="this client is closed"):
        client.topics()
    client.close()


def test_a_client_that_was_never_used_starts_no_thread(address: str) -> None:
    with SyncNameServerClient(address):
        assert client_threads() == []


async def test_it_can_be_used_from_within_a_running_loop(address: str) -> None:
    client = SyncNameServerClient(address)
    assert await asyncio.to_thread(client.topics) == ("orders", "payments")
    assert client.topics() == ("orders", "payments")  # not wise, but possible
    client.close()


# -- processes


def test_a_pickled_client_connects_anew_where_it_arrives(address: str) -> None:
    dialing = Dialing(tls=Tls(trust=Path("ca.pem")), credentials=Credentials("key", "secret"))
    with SyncNameServerClient([address], timeout_s=1.5) as client:
        client.topics()
        with pickle.loads(pickle.dumps(client)) as arrived:
            assert arrived.topics() == ("orders", "payments")
        assert client.topics() == ("orders", "payments")
    pickle.loads(pickle.dumps(SyncNameServerClient(address, dialing=dialing)))


def run_script(text: str, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(text), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check_clean(done: "subprocess.CompletedProcess[str]", expected: str) -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_a_child_of_a_fork_has_connections_of_its_own(address: str) -> None:
    done = run_script(
        """
        import os, sys, threading
        from routebook.client.sync import SyncNameServerClient

        client = SyncNameServerClient(sys.argv[1])
        print(client.topics(), flush=True)
        asking = threading.Event()
        def ask():
            while not asking.wait(0.0001):
                client.topics()
        busy = threading.Thread(target=ask)  # so that a fork may come at any moment of a call
        busy.start()
        for _ in range(20):
            child = os.fork()
            if not child:
                assert client.topics() == ("orders", "payments")
                client.close()
                os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        asking.set()
        busy.join()
        print(client.topics())  # the parent's connection is as it was
        client.close()
        """,
        address,
    )

    check_clean(done, "('orders', 'payments')\n" * 2)


def test_the_interpreter_ends_without_close(address: str) -> None:
    done = run_script(
        """
        import sys
        from routebook.client.sync import SyncNameServerClient

        print(SyncNameServerClient(sys.argv[1]).topics())
        """,
        address,
    )

    check_clean(done, "('orders', 'payments')\n")


def test_ctrl_c_ends_a_call_and_the_client_can_be_closed() -> None:
    with ServerThread(silence) as server:
        script = """
        import sys
        from routebook.client.sync import SyncNameServerClient

        with SyncNameServerClient(sys.argv[1], timeout_s=60.0) as client:
            try:
                client.route("T")
            except KeyboardInterrupt:
                print("interrupted")
        """
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), server.address],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            wait_for("the question", lambda: server.requests)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=60)

    assert (process.returncode, said) == (0, "interrupted\n")
