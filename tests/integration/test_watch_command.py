"""``routebook watch``: what it prints, and how it ends."""

import asyncio
import json
import re
import signal
from pathlib import Path

from support import raw
from support.brokers import Broker
from support.documents import ROOT, blocks_of, looks_like
from support.fleet import run_program
from support.misbehaving import Caller, Server, answer
from support.nodes import NodeProcess
from support.programs import Program

OTHER = Broker("broker-b", addr="10.0.0.2:10911")


def watching(folder: Path, node: NodeProcess, *args: str) -> Program:
    address = f"127.0.0.1:{node.port}"
    return Program(folder / "watch", "watch", "orders", *args, "-n", address, ready="orders")


def lines(program: Program) -> list[str]:
    """Without their times."""
    return [re.sub(r"^\d{4}-\d\d-\d\dT\S+Z ", "", line) for line in program.stdout.splitlines()]


def test_it_prints_routes_and_what_changes_until_ctrl_c(tmp_path: Path) -> None:
    """What docs/watch.md shows."""
    with NodeProcess(tmp_path / "node") as node, node.connect() as a, node.connect() as b:
        a.send(Broker().registration(["orders", "stock"]))
        a.read()
        with watching(tmp_path, node, "refunds") as program:
            program.wait_for_output("refunds: no route yet")
            b.send(OTHER.registration(["orders", "stock"]))
            b.read()
            program.wait_for_output("broker-b joined")
            b.socket.close()
            program.wait_for_output("broker-b left")
            a.socket.close()
            program.wait_for_output("no route: known")
            program.process.send_signal(signal.SIGINT)
            assert program.process.wait(30) == 0
        [block] = [b for b in blocks_of(ROOT / "docs/watch.md") if b.language == "console"]
        [(_, shown)] = block.sessions
        assert looks_like(program.stdout, shown)
        assert program.stderr == ""


def test_each_line_of_json_is_one_thing_that_happened(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node, node.connect() as a:
        with watching(tmp_path, node, "--json") as program:
            a.send(Broker().registration(["orders", "stock"]))
            a.read()
            program.wait_for_output("broker-a joined")
            program.process.send_signal(signal.SIGINT)
            assert program.process.wait(30) == 0
        told = [json.loads(line) for line in program.stdout.splitlines()]
        assert [each["kind"] for each in told] == ["absent", "route"]
        assert told[1]["route"]["queues"][0]["broker"] == "broker-a"
        assert told[1]["changes"][0] == "broker-a joined"


def test_a_node_that_goes_and_comes_back_is_told_of_once(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node, watching(tmp_path, node) as program:
        port = node.port
        node.kill()
        program.wait_for_output("not told of changes, trying again")
        again = NodeProcess(tmp_path / "node", "--listen-port", str(port))
        with again:
            program.wait_for_output("tells of changes now")
        assert sum("trying again" in line for line in lines(program)) <= 2


async def test_nameservers_of_rocketmq_do_not_offer_it_and_it_says_what_to_do() -> None:
    async def java(caller: Caller) -> None:
        while True:
            request = await caller.request()
            remark = f" request type {request.code} not supported"
            await caller.send(answer(request.opaque, raw.NOT_SUPPORTED, remark=remark))

    async with Server(java) as server:
        ran = await asyncio.to_thread(run_program, "watch", "orders", "-n", server.address)
    assert ran.exit_code == 1
    assert "does not offer watch" in ran.stderr
    assert "routebook route TOPIC --watch" in ran.stderr


def test_without_a_nameserver_it_ends_with_code_3() -> None:
    ran = run_program("watch", "orders", "-n", "127.0.0.1:1")
    assert ran.exit_code == 3
    assert "127.0.0.1:1" in ran.stderr


def test_more_topics_than_can_be_watched_are_wrong_usage() -> None:
    ran = run_program("watch", *(f"t{n}" for n in range(10_001)), "-n", "127.0.0.1:1")
    assert ran.exit_code == 2
    assert "at most 10000 topics" in ran.stderr
