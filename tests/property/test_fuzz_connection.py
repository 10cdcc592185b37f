"""Whatever one peer sends, a node answers in whole frames or hangs up, and serves the others."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support import raw
from support.brokers import Broker
from support.builders import broker_fields, compressed_body, registration_body
from support.fuzzing import cut, examples, overwritten
from support.nodes import NodeProcess
from support.raw import BlockingPeer

NODE_ARGS = ("--max-kv-bytes", "100000", "--allow-remote-config", "true")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all examples; at the end it must not have met a bug of its own."""
    folder: Path = tmp_path_factory.mktemp("node")
    with NodeProcess(folder, *NODE_ARGS) as node:
        yield node
        assert node.stop() == 0
    assert "Traceback" not in node.stderr
    assert node.lines_with(" ERROR ") == []


@pytest.fixture(scope="module")
def bystander(node: NodeProcess) -> Iterator[BlockingPeer]:
    """A connection that behaves and must never notice the others."""
    with node.connect() as peer:
        yield peer


def check_served(bystander: BlockingPeer) -> None:
    answer = bystander.call(raw.ROUTE, topic="nobody has this topic")
    assert answer.code == raw.TOPIC_NOT_EXIST


def exchange_pieces(port: int, pieces: list[bytes]) -> bytes:
    """``raw.exchange`` in several segments."""
    with BlockingPeer(port) as peer:
        try:
            for piece in pieces:
                peer.send(piece)
            peer.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the node has seen enough
        return peer.hung_up()


KNOWN_CODES = (*range(100, 107), 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322)
codes = st.sampled_from([*KNOWN_CODES, 327, 901, 904, 905, 0, -1, 99_999])
texts = st.text(max_size=12) | st.sampled_from(
    ["", "0", "-1", "true", "T1", "broker-a", "DefaultCluster", "9" * 30, "1e3", "\x00\x7f\u2028😀"]
)
NAMES_OF_BROKERS = ("clusterName", "brokerName", "brokerAddr", "brokerId", "haServerAddr")
NAMES_OF_REGISTRATIONS = ("bodyCrc32", "compressed", "enableActingMaster", "heartbeatTimeoutMillis")
NAMES_OF_QUERIES = ("namespace", "key", "value", "topic", "cluster", "acceptStandardJsonOnly")
names = st.sampled_from([*NAMES_OF_BROKERS, *NAMES_OF_REGISTRATIONS, *NAMES_OF_QUERIES])
zones = st.sampled_from(["__ZONE_NAME", "__ZONE_MODE"])
odd_values: list[object] = [4.0, 1e300, "7", None, True, {}, []]
odd_numbers = st.integers(-(2**70), 2**70) | st.sampled_from(odd_values)
tables = st.dictionaries(
    texts,
    st.dictionaries(st.sampled_from(["perm", "readQueueNums", "topicName"]), odd_numbers | texts),
    max_size=3,
)
registration_bodies = st.builds(
    registration_body, tables, counter=st.integers(-(2**70), 2**70)
) | st.builds(compressed_body, st.lists(texts, max_size=3))
queue_datas = st.lists(
    st.dictionaries(st.sampled_from(["brokerName", "perm", "readQueueNums"]), odd_numbers | texts),
    max_size=3,
).map(lambda items: json.dumps({"queueDatas": items}).encode())
bodies = (
    st.just(b"")
    | st.binary(max_size=60)
    | registration_bodies
    | overwritten(registration_bodies)
    | queue_datas
    | st.sampled_from([b"enableTopicList=false", b"a=\\u12", b'{"counter":1}', b"{0:1}"])
)
fields = st.dictionaries(names, texts, max_size=8) | st.builds(
    lambda some, others: {**some, **others},
    st.builds(broker_fields, texts, st.integers(0, 3), addr=texts, cluster=texts),
    st.dictionaries(names | zones, texts, max_size=2),
)
flags = st.sampled_from([0, 0, 0, raw.ONEWAY, raw.RESPONSE, 3, 1 << 20, -4])
versions = st.sampled_from([-1, 0, 36, 317, 407, 413, 513, 2**31 - 1])
requests = st.builds(raw.request, codes, fields, bodies, flag=flags, version=versions) | st.builds(
    raw.binary_request,
    codes.filter(lambda code: code < 2**15),
    fields,
    bodies,
    flag=flags,
    version=versions.filter(lambda version: version < 2**15),
)


@examples(300)
@given(
    st.data(), st.binary(max_size=400) | st.lists(overwritten(requests), max_size=4).map(b"".join)
)
@example(None, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
@example(None, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
@example(None, b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n")
@example(None, raw.u32(2**32 - 1) * 4)
def test_any_stream_is_answered_in_whole_frames_or_closed(
    node: NodeProcess, bystander: BlockingPeer, data: st.DataObject | None, stream: bytes
) -> None:
    pieces = [stream] if data is None else data.draw(cut(stream))

    for answer in raw.answers_in(exchange_pieces(node.port, pieces)):
        assert answer.flag == raw.RESPONSE
        assert answer.remark != "internal error"

    check_served(bystander)


@examples(600)
@given(codes, fields, bodies, versions, st.booleans())
@example(
    raw.REGISTER, Broker().fields, registration_body({"a": {"perm": 2**70}, "b": {}}), 513, True
)
@example(raw.REGISTER, Broker().fields, registration_body(("a", "b"), counter=2**70), 513, True)
@example(raw.REGISTER, Broker().fields, compressed_body({"a": {"perm": 2**70}, "b": {}}), 513, True)
def test_any_request_gets_one_answer_that_admits_no_bug(
    node: NodeProcess,
    bystander: BlockingPeer,
    code: int,
    ext_fields: dict[str, str],
    body: bytes,
    version: int,
    as_json: bool,
) -> None:
    check_answered(node, code, ext_fields, body, version, as_json=as_json)
    check_served(bystander)


HALVES = ["\ud800", "a\udc00b", "\ud83d\ud83d\ude00", "'\ud800"]
halves = st.sampled_from(HALVES) | st.text(st.characters(categories=["Cs", "L"]), max_size=4)
halved_fields = st.dictionaries(names | zones | halves, halves | texts, max_size=8) | st.builds(
    broker_fields, halves, st.integers(0, 3), addr=halves, cluster=halves
)
halved_bodies = (
    st.builds(registration_body, st.dictionaries(halves, st.just({}), max_size=3))
    | st.builds(lambda text: json.dumps({"queueDatas": [{"brokerName": text}]}).encode(), halves)
    | st.sampled_from([b"\\ud800=1", b"enableTopicList=\\udfff", b"\\ud800\\udc00=\\ud800"])
)


@examples(300)
@given(codes, halved_fields, halved_bodies | bodies, st.booleans())
@example(raw.PUT_KV, {"namespace": "n", "key": "\ud800", "value": "v"}, b"", True)
@example(raw.UPDATE_CONFIG, {}, b"\\ud800=1", True)
def test_halves_of_surrogate_pairs_are_answered_like_anything_else(
    node: NodeProcess,
    bystander: BlockingPeer,
    code: int,
    ext_fields: dict[str, str],
    body: bytes,
    as_json: bool,
) -> None:
    check_answered(node, code, ext_fields, body, raw.V5_5_0, as_json=as_json)
    check_served(bystander)


def check_answered(
    node: NodeProcess,
    code: int,
    ext_fields: dict[str, str],
    body: bytes,
    version: int,
    *,
    as_json: bool,
) -> None:
    with node.connect() as peer:
        if as_json or code >= 2**15 or version >= 2**15:
            peer.send(raw.request(code, ext_fields, body, opaque=7, version=version))
        else:
            peer.send(raw.binary_request(code, ext_fields, body, opaque=7, version=version))
        answer = peer.read()

        assert (answer.opaque, answer.flag) == (7, raw.RESPONSE)
        assert answer.remark != "internal error"
        # The connection is still good for the next request.
        assert peer.call(raw.ROUTE, topic="nobody has this topic").code == raw.TOPIC_NOT_EXIST


@examples(200)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=100))
def test_any_length_and_header_word_leave_the_others_alone(
    node: NodeProcess, bystander: BlockingPeer, length: int, word: int, content: bytes
) -> None:
    answers = raw.answers_in(raw.exchange(node.port, raw.u32(length) + raw.u32(word) + content))

    assert len(answers) <= 1
    check_served(bystander)


@pytest.mark.parametrize("depth", [500, 995, 60_000])
@pytest.mark.parametrize(
    "wrap",
    [b'{"code":105,"extFields":{"topic":%b}}', b"{code:105,x:%b}", b"%b"],
    ids=["ext-field", "odd", "bare"],
)
def test_a_deep_header_leaves_the_others_alone(
    node: NodeProcess, bystander: BlockingPeer, wrap: bytes, depth: int
) -> None:
    deep = wrap % (b"[" * depth + b"]" * depth)

    raw.answers_in(raw.exchange(node.port, raw.frame(deep)))

    check_served(bystander)


@pytest.mark.parametrize("code", [raw.REGISTER, raw.REGISTER_TOPIC, raw.QUERY_DATA_VERSION])
@pytest.mark.parametrize("depth", [500, 995, 2_000_000])
@pytest.mark.parametrize(
    "wrap",
    [b'{"topicConfigSerializeWrapper":%b}', b"{x:%b}", b'{"queueDatas":[%b]}'],
    ids=["typed", "odd", "list"],
)
def test_a_deep_body_is_answered_and_leaves_the_others_alone(
    node: NodeProcess, bystander: BlockingPeer, code: int, wrap: bytes, depth: int
) -> None:
    deep = wrap % (b"[" * depth + b"]" * depth)

    with node.connect() as peer:
        answer = peer.ask(code, {**Broker().fields, "topic": "T"}, deep)

    assert answer.remark != "internal error"
    check_served(bystander)
