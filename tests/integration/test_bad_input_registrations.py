"""A registration that is refused leaves no trace, and is logged once with the peer."""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.builders import compressed_body, registration_body
from support.nodes import local_node
from support.raw import Answer, Peer


def without(field: str) -> dict[str, str]:
    return {key: value for key, value in Broker().fields.items() if key != field}


REFUSED = [
    pytest.param({**Broker().fields, "bodyCrc32": "12345"}, registration_body(), 513, id="bad-crc"),
    pytest.param(without("clusterName"), registration_body(), 513, id="no-cluster"),
    pytest.param(without("brokerName"), registration_body(), 513, id="no-name"),
    pytest.param(without("brokerAddr"), registration_body(), 513, id="no-address"),
    pytest.param(without("brokerId"), registration_body(), 513, id="no-id"),
    pytest.param({**Broker().fields, "brokerId": "x"}, registration_body(), 513, id="id-no-number"),
    pytest.param({**Broker().fields, "brokerId": "-1"}, registration_body(), 513, id="negative-id"),
    pytest.param(
        {**Broker().fields, "brokerId": "9" * 19}, registration_body(), 513, id="id-beyond-64-bits"
    ),
    pytest.param(
        {**Broker().fields, "heartbeatTimeoutMillis": "soon"},
        registration_body(),
        513,
        id="timeout-no-number",
    ),
    pytest.param(Broker().fields, registration_body(["one"]), 513, id="one-topic-first"),
    pytest.param(Broker().fields, b"not JSON", 513, id="not-json"),
    pytest.param(Broker().fields, b"[1,2]", 513, id="list"),
    pytest.param(
        Broker().fields,
        b'{"filterServerList":[],"topicConfigSerializeWrapper":null}',
        513,
        id="null-wrapper",
    ),
    pytest.param(
        Broker().fields,
        b'{"topicConfigSerializeWrapper":{"dataVersion":{},"topicConfigTable":null}}',
        513,
        id="null-topic-table",
    ),
    pytest.param(
        Broker().fields, registration_body({"A": {"perm": "rw"}, "B": {}}), 513, id="perm-no-number"
    ),
    pytest.param(
        Broker().fields, registration_body({"A": {"perm": 2**40}, "B": {}}), 513, id="perm-64-bits"
    ),
    pytest.param(
        Broker().fields,
        registration_body({"A": {"readQueueNums": 2**70}, "B": {}}),
        513,
        id="queues-beyond-64-bits",
    ),
    pytest.param(
        Broker().fields, compressed_body({"A": {"perm": 2**40}, "B": {}}), 513, id="packed-64-bits"
    ),
    pytest.param(
        Broker().fields,
        registration_body(mappings={"A": {"totalQueues": 4}}),
        513,
        id="mapping-without-names",
    ),
    pytest.param(
        {**Broker().fields, "compressed": "true"}, b"not zlib", 513, id="compressed-no-zlib"
    ),
    pytest.param(Broker().fields, compressed_body()[:-9], 513, id="zlib-cut-short"),
    pytest.param(Broker().fields, compressed_body(mappings=None), 513, id="no-mapping-section"),
    pytest.param(Broker().fields, compressed_body(["a b", "c d"]), 513, id="packed-odd-name"),
    pytest.param(Broker().fields, compressed_body(mappings=[b"{"]), 513, id="mapping-not-json"),
    pytest.param(Broker().fields, registration_body(), -1, id="negative-version"),
    pytest.param(
        Broker().fields, registration_body([f"T{n}" for n in range(51)]), 513, id="too-many-topics"
    ),
    pytest.param(
        Broker().fields,
        compressed_body([f"T{n}" for n in range(51)]),
        513,
        id="too-many-packed-topics",
    ),
]  # fmt: skip


async def view(peer: Peer) -> list[Answer]:
    """All a node tells about brokers and topics."""
    return [
        await peer.call(raw.CLUSTER_INFO),
        await peer.call(raw.ALL_TOPICS),
        await peer.call(raw.SYSTEM_TOPICS),
        await peer.call(raw.TOPICS_OF_CLUSTER, cluster="DefaultCluster"),
        await peer.call(raw.MEMBER_GROUP, clusterName="DefaultCluster", brokerName="broker-a"),
        *[
            await peer.call(raw.ROUTE, topic=topic)
            for topic in ("T1", "orders", "payments", "one", "A", "B")
        ],
    ]


def comparable(answers: Sequence[Answer]) -> list[tuple[int, bytes]]:
    return [(answer.code, answer.body) for answer in answers]


@pytest.mark.parametrize(("fields", "body", "version"), REFUSED)
async def test_a_refused_first_registration_leaves_no_trace(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fields: dict[str, str],
    body: bytes,
    version: int,
) -> None:
    caplog.set_level(logging.INFO, "routebook.events")
    async with local_node(tmp_path, max_topics_per_broker=50) as node, Peer(node.port) as peer:
        before = comparable(await view(peer))
        caplog.clear()

        answer = await peer.ask(raw.REGISTER, fields, body, version=version)

        assert answer.code == raw.SYSTEM_ERROR
        assert answer.remark
        assert answer.remark != "internal error"
        told = [r.getMessage() for r in caplog.records]
        assert len(told) == 1, told  # the refusal, and no event of anything that changed
        assert peer.address in told[0]
        assert comparable(await view(peer)) == before


@pytest.mark.parametrize(
    ("fields", "body", "version"), [case for case in REFUSED if case.id != "one-topic-first"]
)
async def test_a_refused_registration_changes_nothing_of_an_earlier_one(
    tmp_path: Path, fields: dict[str, str], body: bytes, version: int
) -> None:
    async with local_node(tmp_path, max_topics_per_broker=50) as node, Peer(node.port) as peer:
        await Broker().register(peer, ["T1", "T2"])
        before = comparable(await view(peer))

        answer = await peer.ask(raw.REGISTER, fields, body, version=version)

        assert answer.code == raw.SYSTEM_ERROR
        assert comparable(await view(peer)) == before


async def test_route_entries_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async with local_node(tmp_path, max_route_entries=5) as node, Peer(node.port) as peer:
        await Broker().register(peer, ["a", "b", "c"])
        second = Broker("broker-b", addr="10.0.0.2:10911")

        answer = await peer.ask(raw.REGISTER, second.fields, registration_body(["a", "b", "d"]))

        assert answer.code == raw.SYSTEM_ERROR
        assert "maxRouteEntries" in (answer.remark or "")
        assert list((await peer.call(raw.CLUSTER_INFO)).value["brokerAddrTable"]) == ["broker-a"]
