"""``routebook bench``: what it measures, and what it says when there is nothing to measure."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from routebook.cli.bench import Load, Measured, measure
from routebook.cli.main import cli
from routebook.client import Dialing
from routebook.client.requests import route_question
from routebook.testing import Workbench
from routebook.wire.address import Address
from support.misbehaving import ROUTE_BODY, Caller, Server, answer

NODE = Address("10.0.0.1", 9876)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench(tmp_path) as bench:
        yield bench


def run(nameservers: str, *options: str) -> Result:
    arguments = ["bench", "-n", nameservers, "--connections", "2", "--depth", "4", *options]
    return CliRunner().invoke(cli, arguments)


# -- numbers


@pytest.mark.parametrize(
    ("count", "percent", "expected_ms"),
    [
        pytest.param(100, 50, 50.0, id="half"),
        pytest.param(100, 99, 99.0, id="all-but-one"),
        pytest.param(100, 100, 100.0, id="largest"),
        pytest.param(1, 50, 1.0, id="only-one"),
        pytest.param(3, 50, 2.0, id="between-two"),
        pytest.param(0, 50, None, id="none"),
    ],
)
def test_a_percentile_is_the_latency_that_many_answers_did_not_exceed(
    count: int, percent: float, expected_ms: float | None
) -> None:
    latencies_s = [number / 1000 for number in range(1, count + 1)]
    assert Measured(NODE, 1.0, 0.5, latencies_s).latency_ms(percent) == expected_ms


def test_refusals_and_failures_are_errors() -> None:
    measured = Measured(NODE, 2.0, 0.5, [0.1, 0.2], Counter(a=2), Counter(b=1))
    assert measured.per_second == 1.0
    assert measured.errors == {"a": 2, "b": 1}


# -- with nodes


def test_every_node_is_measured_and_the_first_topic_is_asked_for(bench: Workbench) -> None:
    nodes = bench.nodes(2)
    bench.broker(topics=["b", "a", "c"], nameservers=nodes.addresses)

    result = run(nodes.addresses, "--seconds", "0.2", "--json")

    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["topic"] == "a"
    assert (document["connections"], document["depth"]) == (2, 4)
    assert [row["node"] for row in document["nodes"]] == sorted(node.address for node in nodes)
    for row in document["nodes"]:
        assert row["answers"] > 0
        assert row["per_second"] == pytest.approx(row["answers"] / row["seconds"], rel=0.01)
        assert 0 < row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["errors"] == {}
        assert 0 < row["generator_busy"] < 1.1


def test_the_table_has_a_row_for_each_node_and_a_warning_beside_it(bench: Workbench) -> None:
    node = bench.nodes(1)[0]
    bench.broker(topics=["orders"], nameservers=node.address)

    result = run(node.address, "--seconds", "0.2", "--topic", "orders")

    assert result.exit_code == 0, result.output
    title, heads, _, row = [line for line in result.stdout.splitlines() if line.strip()]
    assert title.strip() == "topic orders"
    assert " ".join(heads.split()) == "node routes/s p50 ms p90 ms p99 ms max ms errors"
    assert row.split()[0] == node.address
    assert int(row.split()[1]) > 0
    assert row.split()[-1] == "0"
    assert "it is the limit and not the nodes" in result.stderr


def test_a_topic_nobody_has_is_counted_as_refused(bench: Workbench) -> None:
    node = bench.nodes(1)[0]

    result = run(node.address, "--seconds", "0.1", "--topic", "nosuch", "--json")

    assert result.exit_code == 1
    [row] = json.loads(result.stdout)["nodes"]
    assert row["answers"] == 0
    assert row["p50_ms"] is None
    [(error, count)] = row["errors"].items()
    assert "TOPIC_NOT_EXIST (17)" in error
    assert count > 0


def test_without_any_topic_there_is_nothing_to_ask_for(bench: Workbench) -> None:
    result = run(bench.nodes(1)[0].address)

    assert result.exit_code == 1
    assert "know no topic to ask for; name one with --topic" in result.output


def test_a_dead_node_is_told_apart_from_those_that_answer(bench: Workbench) -> None:
    nodes = bench.nodes(2)
    bench.broker(topics=["t"], nameservers=nodes.addresses)
    nodes[0].stop()

    result = run(nodes.addresses, "--seconds", "0.3", "--json")

    assert result.exit_code == 1
    rows = {row["node"]: row for row in json.loads(result.stdout)["nodes"]}
    assert rows[nodes[0].address]["answers"] == 0
    assert any("no connection" in error for error in rows[nodes[0].address]["errors"])
    assert rows[nodes[1].address]["answers"] > 0
    assert rows[nodes[1].address]["errors"] == {}


def test_nobody_at_all_cannot_be_asked() -> None:
    result = run("127.0.0.1:1", "--topic", "t", "--seconds", "0.1")

    assert result.exit_code == 3
    assert "no question was answered" in result.output


def test_a_node_that_never_answers_is_given_up_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = run(address, "--topic", "t", "--seconds", "0.1", "--timeout", "0.2", "--json")

    assert result.exit_code == 3
    [row] = json.loads(result.stdout)["nodes"]
    assert row["errors"] == {"no answer in time": 8}


async def test_a_node_that_hangs_up_is_asked_again_over_new_connections() -> None:
    async def answer_three(caller: Caller) -> None:
        for _ in range(3):
            await caller.send(answer((await caller.request()).opaque, body=ROUTE_BODY))
        caller.close()

    async with Server(answer_three) as server:
        load = Load(route_question("t"), connections=1, depth=4, seconds=0.5, timeout_s=1.0)
        measured = await measure(Address.parse(server.address), load, Dialing())

    assert server.accepted > 1
    assert len(measured.latencies_s) > 3
    assert measured.failures.total() > 0
    assert all("connection" in reason for reason in measured.failures)
