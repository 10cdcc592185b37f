"""What peers can make a node hold in memory is bounded; the bounds are the constants below.

Measured on nodes in processes of their own, as the highest resident size above that of the node
before. A bystander is answered all the while.
"""

import asyncio
import resource
import socket
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from functools import cache
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import NodeProcess
from support.raw import BlockingPeer, Peer
from support.waiting import eventually, wait_for

MIB = 1024 * 1024

IDLE_NODE = 80 * MIB
ONE_LARGE_REQUEST = 256 * MIB  # its frame, what it inflates or decodes to, its answer
MANY_LARGE_REQUESTS = 320 * MIB  # whatever their number
IDLE_CONNECTION = 8 * 1024
BEYOND_THE_BUDGET = 64 * MIB  # the oldest frame is completed whatever the budget says
UNREAD_ANSWERS = 24 * MIB
# Processor time between a bystander's question and its answer. It is 0.03 s at most here; the
# larger requests below take 0.3 to 1.4 s altogether: so long would be who did one at a stretch.
LONGEST_TURN_S = 0.15

StartNode = Callable[..., NodeProcess]


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[StartNode]:
    with ExitStack() as stack:

        def start(*args: str) -> NodeProcess:
            node = stack.enter_context(NodeProcess(tmp_path, *args))
            with node.connect() as peer:
                check_serves(peer)  # what the very first request allocates is no growth
            node.forget_peak()
            return node

        yield start


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Iterator[None]:
    """Room for thousands of connections, for the nodes started here too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 12_000), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def turn_s(node: NodeProcess, bystander: BlockingPeer) -> float:
    """How long the node works on other things before it answers a bystander."""
    started = node.work_s()
    check_serves(bystander)
    return node.work_s() - started


def check_serves(peer: BlockingPeer) -> None:
    assert peer.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST


def test_an_idle_node_is_small(start_node: StartNode) -> None:
    assert start_node().memory() < IDLE_NODE


# -- requests that are more than they seem


@cache
def bomb() -> bytes:
    return zlib.compress(bytes(100 * MIB), 1)


def topics_of_nothing() -> bytes:
    topics = b",".join(b'"%d":{}' % number for number in range(1_000_000))
    return b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + topics + b"}}}"


def lists() -> bytes:
    return b'{"x":[' + b"[]," * 5_500_000 + b"[]]}"


def odd_lists() -> bytes:
    return b"{x:[" + b"[]," * 5_500_000 + b"[]]}"


def odd_keys() -> bytes:
    return b"{x:{" + b"0:0," * 4_100_000 + b"0:0}}"


def quotes() -> bytes:
    return b"{'x':[" + b"''," * 5_500_000 + b"'']}"


def references() -> bytes:
    return b'{"x":[' + b"0," * 20_000 + b'0],"y":[' + b'{"$ref":"$.x"},' * 2_000 + b"0]}"


@cache
def packed_million() -> bytes:
    topics = (f"topic-{number:07} 8 8 6 SINGLE_TAG" for number in range(1_000_000))
    text = "".join(f"\0\0\0\x1e{topic}" for topic in topics)  # each is 30 bytes long
    pieces = [raw.i32(2), b"{}", raw.i32(1_000_000), text.encode(), raw.i32(2), b"[]", raw.i32(0)]
    return zlib.compress(b"".join(pieces), 1)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        pytest.param(raw.REGISTER, bomb, id="zlib-bomb"),
        pytest.param(raw.REGISTER, packed_million, id="million-packed-topics"),
        pytest.param(raw.REGISTER, topics_of_nothing, id="million-topics-of-nothing"),
        pytest.param(raw.REGISTER, lists, id="lists"),
        pytest.param(raw.REGISTER, odd_lists, id="odd-lists"),
        pytest.param(raw.REGISTER, odd_keys, id="odd-keys"),
        pytest.param(raw.REGISTER, quotes, id="single-quotes"),
        pytest.param(raw.REGISTER, references, id="references"),
        pytest.param(raw.REGISTER_TOPIC, odd_lists, id="topic-route-of-odd-lists"),
        pytest.param(raw.QUERY_DATA_VERSION, odd_lists, id="data-version-of-odd-lists"),
    ],
)
def test_one_large_request_takes_bounded_memory_and_keeps_nobody_waiting(
    start_node: StartNode, code: int, body: Callable[[], bytes]
) -> None:
    node, content = start_node(), body()
    before = node.memory()
    with node.connect() as peer, node.connect() as bystander, ThreadPoolExecutor(1) as pool:
        peer.ask(raw.REGISTER, Broker().fields, registration_body())
        answering = pool.submit(peer.ask, code, {**Broker().fields, "topic": "T"}, content)
        longest_s = turn_s(node, bystander)
        while not answering.done():
            longest_s = max(longest_s, turn_s(node, bystander))
        answer = answering.result()

    assert answer.remark != "internal error"
    assert node.peak_memory() - before < ONE_LARGE_REQUEST
    assert longest_s < LONGEST_TURN_S


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(bomb, "the inflated registration exceeds the limit", id="zlib-bomb"),
        pytest.param(packed_million, "1000000 topics exceeds the limit of 300000", id="packed"),
        pytest.param(topics_of_nothing, "topics exceeds the limit of 300000", id="plain"),
    ],
)
def test_a_registration_beyond_all_measure_is_refused_with_a_sentence_and_leaves_no_trace(
    start_node: StartNode, body: Callable[[], bytes], reason: str
) -> None:
    node = start_node()
    with node.connect() as peer:
        answer = peer.ask(raw.REGISTER, Broker().fields, body())

        assert answer.code == raw.SYSTEM_ERROR
        assert reason in (answer.remark or "")
        info = peer.call(raw.CLUSTER_INFO)
        assert info.value == {"brokerAddrTable": {}, "clusterAddrTable": {}}
        assert peer.call(raw.ALL_TOPICS).value == {"topicList": []}
        lines = wait_for("the log", lambda: node.lines_with(peer.address, reason))  # by a thread
        assert len(lines) == 1


@pytest.mark.parametrize("body", [bomb, packed_million, odd_keys], ids=lambda body: body.__name__)
def test_many_large_requests_at_once_take_no_more_memory_than_a_few(
    start_node: StartNode, body: Callable[[], bytes]
) -> None:
    node, content = start_node(), body()
    before = node.memory()

    def register(number: int) -> raw.Answer:
        broker = Broker(f"broker-{number}", addr=f"10.0.0.{number}:10911")
        with node.connect() as peer:
            return peer.ask(raw.REGISTER, broker.fields, content)

    with ThreadPoolExecutor(12) as pool, node.connect() as bystander:
        answers = pool.map(register, range(12))
        refused = [answer for answer in answers if answer.code == raw.SYSTEM_ERROR]
        check_serves(bystander)

    assert len(refused) == 12
    assert node.peak_memory() - before < MANY_LARGE_REQUESTS


# -- peers that are many, slow or deaf


def test_five_thousand_idle_connections_are_cheap_and_leave_the_rest_served(
    start_node: StartNode,
) -> None:
    node = start_node()
    before = node.memory()
    with ExitStack() as stack, node.connect() as bystander:
        for _ in range(5_000):
            stack.enter_context(node.connect())
            # Keeps the backlog short: an answer shows that the loop has come round.
            check_serves(bystander)

        with node.connect() as late:
            check_serves(late)
        assert node.memory() - before < 5_000 * IDLE_CONNECTION
    assert node.lines_with("WARNING") == []


async def test_unfinished_frames_hold_no_more_than_their_budget(start_node: StartNode) -> None:
    budget, size = 32 * MIB, 12 * MIB
    node = start_node("--max-buffered-bytes", str(budget))
    before = node.memory()
    large = raw.request(raw.ROUTE, {"topic": "nobody"}, b" " * size)
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(Peer(node.port)) for _ in range(24)]
        for peer in peers:
            peer.send_soon(large[:-1])

        still: list[tuple[int, ...]] = []

        async def unsent() -> tuple[int, ...]:
            still.append(tuple(peer.unsent for peer in peers))
            return still[-1]

        # A good part is not even in the buffers of the network, and nothing moves any more.
        await eventually(
            "the node to stop reading",
            unsent,
            until=lambda seen: sum(seen) > 4 * size and still[-10:] == [seen] * 10,
        )
        with node.connect() as bystander:
            assert turn_s(node, bystander) < LONGEST_TURN_S

        for peer in peers:
            peer.send_soon(large[-1:])
        answers = await asyncio.gather(*(peer.read(timeout_s=60) for peer in peers))

        assert [answer.code for answer in answers] == [raw.TOPIC_NOT_EXIST] * 24
        assert node.peak_memory() - before < budget + BEYOND_THE_BUDGET
    assert node.lines_with("WARNING") == []


def test_a_peer_that_never_reads_its_answers_does_not_grow_the_node(
    start_node: StartNode,
) -> None:
    node = start_node()
    topics = [f"{'a-rather-long-topic-name-' * 4}{number}" for number in range(10_000)]
    with node.connect() as broker, node.connect() as bystander, node.connect() as deaf:
        broker.ask(raw.REGISTER, Broker().fields, registration_body(topics))
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        deaf.call(raw.ALL_TOPICS)  # the list is put together once
        node.forget_peak()
        before = node.memory()

        # A gigabyte and more of answers.
        deaf.send(raw.request(raw.ALL_TOPICS, opaque=5) * 1_500)
        for _ in range(300):
            assert turn_s(node, bystander) < LONGEST_TURN_S

        assert node.peak_memory() - before < UNREAD_ANSWERS
        # It is served again as soon as it reads.
        for _ in range(40):
            answer = deaf.read()
            assert (answer.opaque, len(answer.value["topicList"])) == (5, 10_000)
        assert node.peak_memory() - before < UNREAD_ANSWERS
