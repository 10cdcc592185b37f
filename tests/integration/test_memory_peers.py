"""One peer, however many connections it has, does not use up what all have."""

import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from support import raw
from support.brokers import Broker
from support.builders import compressed_body
from support.memories import health
from support.nodes import NodeProcess
from support.raw import BlockingPeer
from support.waiting import wait_for

MIB = 1024 * 1024


def test_connections_of_one_host_that_do_not_read_cost_another_host_nothing(
    tmp_path: Path,
) -> None:
    words = ["--memory-limit", "192m", "--com-rocketmq-remoting-frame-max-length", str(2 * MIB)]
    topics = [f"{'a-rather-long-topic-name-' * 4}{number}" for number in range(10_000)]
    with ExitStack() as stack:
        little = ("--server-socket-snd-buf-size", "16384")
        node = stack.enter_context(NodeProcess(tmp_path, *words, *little))

        def asking(source: str, lists: int) -> BlockingPeer:
            peer = stack.enter_context(BlockingPeer(node.port, timeout_s=60, source=source))
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            with suppress(OSError):
                peer.send(raw.request(raw.ALL_TOPICS) * lists)
            return peer

        bystander = stack.enter_context(node.connect())
        bystander.ask(raw.REGISTER, Broker().fields, compressed_body(topics))
        slow = asking("127.0.0.2", 1)  # has not read for longer than any of the others
        for _ in range(60):
            asking("127.0.0.3", 1)
        wait_for(
            "most of them to be given up",
            lambda: node.lines_with("are not read"),
            until=lambda lines: len(lines) > 50,
        )
        told = health(bystander)["memory"]
        held = {peer["peer"]: peer["kinds"].get("answers", 0) for peer in told["peers"]}

        assert MIB // 2 < held["127.0.0.2"] < 2 * MIB
        assert 4 * MIB < held["127.0.0.3"] <= (192 - 96) * MIB * 12 // 100 // 2
        assert len(slow.read().value["topicList"]) == 10_000
    assert all("127.0.0.3" in line for line in node.lines_with("are not read"))


def test_pairs_of_one_host_leave_room_for_those_of_others(tmp_path: Path) -> None:
    with (
        NodeProcess(tmp_path, "--max-kv-bytes", "100000") as node,
        BlockingPeer(node.port, timeout_s=60, source="127.0.0.2") as first,
        BlockingPeer(node.port, timeout_s=60, source="127.0.0.2") as again,
        BlockingPeer(node.port, timeout_s=60, source="127.0.0.3") as other,
    ):

        def put(peer: BlockingPeer, key: str) -> raw.Answer:
            return peer.call(raw.PUT_KV, namespace="n", key=key, value="v" * 1000)

        answers = [put((first, again)[n % 2], f"{n:02}") for n in range(60)]
        assert [answer.code for answer in answers] == [raw.SUCCESS] * 49 + [raw.SYSTEM_ERROR] * 11
        assert answers[-1].remark == (
            "key-value pairs of 127.0.0.2 exceed the limit of 50000 (maxKvBytes, memoryPeerPercent)"
        )
        assert put(other, "mine").code == raw.SUCCESS
        assert len(first.call(raw.LIST_KV, namespace="n").value["table"]) == 50
        told = {peer["peer"]: peer["kinds"] for peer in health(other)["memory"]["peers"]}
        assert told["127.0.0.2"]["tables"] > 49 * 1000 > told["127.0.0.3"]["tables"] > 1000
        assert told["127.0.0.2"]["records"] > 49 * 1000
