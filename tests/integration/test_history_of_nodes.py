"""``routebook history -n``: the latest records of running nodes."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from routebook.cli.main import cli
from routebook.journal.before import ASK_AGAIN
from routebook.journal.record import encode
from routebook.testing import Workbench
from support.misbehaving import Behaviour, Caller, Server, answer
from support.raw import SYSTEM_ERROR
from support.stories import Story
from support.waiting import wait_for


def ask(*words: str) -> tuple[int, str, str]:
    ran = CliRunner().invoke(cli, ["history", *words])
    return ran.exit_code, ran.stdout, ran.stderr


def test_running_nodes_tell_what_happened(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        broker = bench.broker("broker-a", topics=["orders"], nameservers=nodes.addresses)
        broker.kill()
        code, told, _ = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 0
        assert told.count("broker-a (") >= 1
        assert told.count("left: its connection was closed by the peer; it had 1 topic.") == 2
        code, told, _ = ask("topic", "orders", "--json", "-n", nodes[0].address)
        assert code == 0
        assert json.loads(told)["topic"] == "orders"
        code, _, said = ask("explain", "nobody", "-n", nodes.addresses)
        assert code == 1
        assert "nothing about nobody is known" in said


def test_a_broker_that_is_there_has_lasted_until_the_node_was_asked(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        node = bench.nodes(1, journal_window_seconds=3600)[0]
        bench.broker("broker-a", topics=["orders"], nameservers=node.address)

        def lasted_ms() -> int:
            code, told, _ = ask("broker", "broker-a", "--json", "-n", node.address)
            assert code == 0
            [session] = json.loads(told)["nodes"][0]["sessions"]
            assert session["to"] is None
            return int(session["lasted_ms"])

        # No record comes meanwhile: windows of heartbeats are an hour long.
        wait_for("the session to last", lasted_ms, until=lambda ms: ms > 500, timeout_s=10)


def test_a_node_that_cannot_be_asked_is_said_so(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        bench.broker("broker-a", topics=["orders"], nameservers=nodes[0].address)
        nodes[1].stop()
        code, told, said = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 0
        assert "broker-a" in told
        assert f"Warning: {nodes[1].address}: connection refused" in said
        nodes[0].stop()
        code, _, said = ask("explain", "broker-a", "-n", nodes.addresses)
        assert code == 3
        assert nodes[0].address in said


def test_folders_and_nodes_are_not_asked_together(tmp_path: Path) -> None:
    code, _, said = ask("explain", "x", "-n", "127.0.0.1:1", "--journal", str(tmp_path))
    assert code == 2
    assert "--journal or -n, not both" in said


# -- nodes that do not say what they believed before


def sending(story: Story, after: str, fields: dict[str, str]) -> Behaviour:
    """A node that sends what was recorded after a time, without a state, and has no health."""
    known = Story().at(after).now_ms
    body = b"".join(encode(record) for record in story.records if record.wall_ms > known)

    async def behave(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == 19_002:
                await caller.send(answer(request.opaque, body=body, ext_fields=fields))
            else:
                await caller.send(answer(request.opaque, SYSTEM_ERROR, remark="what is that?"))

    return behave


def old(number: int) -> Story:
    """Three brokers register, change, and one of them leaves ns-2 for a while."""
    story = Story(node=f"ns-{number}", awake=True).at("03:00:00").start()
    for broker in ("broker-a", "broker-b", "broker-c"):
        story.at("03:01:00").register(broker, version=1)
    for version in (2, 3, 4):
        story.at(f"03:0{version}:00").register(version=version, same_connection=True)
    if number == 2:
        story.at("03:05:00").lose().at("03:05:30").register(version=4)
    return story.at("03:06:00").heartbeats()


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"dropped": "0"}, "the node did not say what it believed before its records"),
        ({"dropped": "7"}, "7 older records did not fit into the answer of the node"),
        (
            {"dropped": "0", "from_seq": "5", "state": "no", "why": "It is too large."},
            "the node did not say what it believed before its records: It is too large",
        ),
    ],
    ids=["older-version", "dropped", "too-large"],
)
async def test_an_answer_that_begins_with_no_state_says_so_and_finds_nothing(
    fields: dict[str, str], why: str
) -> None:
    async with (
        Server(sending(old(1), "00:00:00", {"dropped": "0"})) as whole,
        Server(sending(old(2), "03:01:30", fields)) as part,
    ):

        async def told(*words: str) -> tuple[int, str, str]:
            return await asyncio.to_thread(ask, *words)

        code, text, _ = await told("explain", "broker-a", "-n", part.address)
        assert (code, text.splitlines()[:2]) == (
            0,
            [f"ns-2, asked at {part.address}", f"ns-2: what was before is not known, {why}"],
        )
        _, text, _ = await told("explain", "broker-a", "-n", part.address, "--json")
        document = json.loads(text)
        assert (document["partial"], document["sources"][0]["partial"]) == (True, why)
        _, text, _ = await told("route", "orders", "-n", part.address, "--json")
        assert json.loads(text)["nodes"][0]["partial"] is True
        both = f"{whole.address};{part.address}"
        code, text, _ = await told("compare", "-n", both)
        assert code == 1
        assert f"ns-2: what was before its records is not known, {why}" in text.splitlines()
        assert text.splitlines()[-1].startswith("nothing can be compared: at no time is it known")
        _, text, _ = await told("compare", "-n", both, "--json")
        assert (json.loads(text)["partial"], json.loads(text)["brokers"]) == (True, [])


async def test_a_node_that_is_still_reading_what_it_believed_is_asked_again() -> None:
    story = old(1)
    reading = {"dropped": "0", "from_seq": "1", "state": "no", "why": f"Not yet: {ASK_AGAIN}"}
    answers = [reading, reading, {"dropped": "0", "from_seq": "1", "state": "yes"}]
    body = b"".join(encode(record) for record in story.records)

    async def behave(caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == 19_002:
                await caller.send(answer(request.opaque, body=body, ext_fields=answers.pop(0)))
            else:
                await caller.send(answer(request.opaque, SYSTEM_ERROR, remark="what is that?"))

    async with Server(behave) as server:
        words = ("explain", "broker-a", "-n", server.address, "--json")
        code, text, said = await asyncio.to_thread(ask, *words)
    assert (code, said, answers) == (0, "", [])
    assert json.loads(text)["partial"] is False


async def test_a_node_that_has_no_past_to_tell_is_said_so() -> None:
    async with Server(sending(Story(), "00:00:00", {"dropped": "0"})) as server:
        code, _, said = await asyncio.to_thread(ask, "explain", "x", "-n", server.address)
    assert (code, said) == (3, f"Error: {server.address}: remembers nothing yet\n")


async def test_what_cannot_be_read_of_an_answer_is_said() -> None:
    fields = {"dropped": "0", "from_seq": "soon", "state": "yes"}
    async with Server(sending(old(1), "00:00:00", fields)) as server:
        code, _, said = await asyncio.to_thread(ask, "explain", "x", "-n", server.address)
    assert code == 3
    assert said == (
        f"Error: {server.address}: what it sent cannot be read: from_seq is 'soon', not a number\n"
    )
