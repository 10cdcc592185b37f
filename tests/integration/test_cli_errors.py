"""Errors: in words, in JSON for who asked for JSON, and with what may have been meant."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.documents.suggestions import FEW, MOST_NAMES, close_names, known_names
from support.brokers import Broker
from support.fleet import Fleet, run_program
from support.health import not_ours, report, reporting, run_at
from support.misbehaving import unused_port


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 1) as fleet:
        topics = ["orders", "payments", "%RETRY%group", "broker-a", "DefaultCluster", "TBW102"]
        fleet.register(Broker(), topics)
        yield fleet


# -- connections


def test_a_connection_that_is_refused_is_called_so_once() -> None:
    addresses = sorted(f"127.0.0.1:{unused_port()}" for _ in range(2))

    ran = run_program("topics", namesrv_addr=";".join(addresses))

    assert (ran.exit_code, ran.stdout) == (3, "")
    assert ran.stderr.count("connection refused") == 1
    assert "Errno" not in ran.stderr
    assert all(address in ran.stderr for address in addresses)


# -- JSON


@pytest.mark.parametrize(
    ("words", "exit_code", "told"),
    [
        (["route", "nothing", "--json"], 1, "no route for nothing"),
        (["route", "--json"], 2, "Missing argument 'TOPIC'"),
        (["rout", "--json"], 2, "No such command 'rout'. Did you mean route?"),
        (["route", "orders", "--json", "--nonsense"], 2, "No such option"),
        (["topics", "--json", "--timeout", "no"], 2, "is not a valid float"),
    ],
)
def test_an_error_is_json_for_who_wants_json(
    fleet: Fleet, words: list[str], exit_code: int, told: str
) -> None:
    ran = fleet.run(*words)

    assert (ran.exit_code, ran.stdout) == (exit_code, "")
    (line,) = ran.stderr.splitlines()
    document = json.loads(line)
    assert document["exit_code"] == exit_code
    assert told in document["error"]


def test_nodes_that_cannot_be_asked_are_an_error_in_json() -> None:
    ran = run_program("health", "--json", namesrv_addr=f"127.0.0.1:{unused_port()}")

    assert json.loads(ran.stderr)["exit_code"] == ran.exit_code == 3


def test_warnings_are_json_too(fleet: Fleet) -> None:
    dead = f"127.0.0.1:{unused_port()}"
    fleet.run("kv", "put", "ns", "key", "value")

    words = ["kv", "get", "ns", "key", "--json"]
    ran = run_program(*words, namesrv_addr=f"{fleet.addresses[0]};{dead}")

    assert ran.document["value"] == "value"
    assert json.loads(ran.stderr) == {
        "warning": f"{dead} could not be asked: connection refused",
    }


def test_an_argument_that_is_called_so_asks_for_nothing(fleet: Fleet) -> None:
    assert fleet.run("route", "--", "--json").stderr.startswith("Error: no route for --json")


# -- what may have been meant


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["rout", "orders"], "Did you mean route?"),
        (["kv", "gett", "ns", "key"], "get"),
        (["topics", "--routs"], "--routes"),
        (["route", "paymets"], "did you mean payments?"),
        (["topics", "delete", "oders", "--yes"], "did you mean orders?"),
        (["drain", "broker-b"], "did you mean broker-a?"),
        (["brokers", "broker-b"], "broker-a"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_right_one(
    fleet: Fleet, words: list[str], meant: str
) -> None:
    ran = fleet.run(*words)

    assert ran.exit_code in (1, 2)
    assert meant in ran.stderr


def test_a_name_like_no_other_is_answered_with_where_to_look(fleet: Fleet) -> None:
    assert "`routebook topics` lists" in fleet.run("route", "zebra").stderr


def test_a_node_that_keeps_its_topics_to_itself_suggests_none(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1, enable_all_topic_list=False) as fleet:
        fleet.register(Broker(), ["orders", "payments"])

        assert "`routebook topics` lists" in fleet.run("route", "paymets").stderr


def test_few_names_are_all_told_and_of_many_those_that_are_alike() -> None:
    few, many = [f"b-{n}" for n in range(3)], [f"broker-{n}" for n in range(100, 100 + 2 * FEW)]

    assert known_names("x", [], "here") == "known at here: none"
    assert known_names("b-7", few, "here") == "known at here: b-0, b-1 and b-2"
    assert "broker-103" in known_names("brker-103", many, "here")
    assert known_names("zebra", many, "here").endswith("and 10 more")
    assert close_names("orders", [f"orders{n}" for n in range(MOST_NAMES + 1)]) == ""


# -- topics of RocketMQ's own


def test_topics_can_be_listed_without_those_of_rocketmq(fleet: Fleet) -> None:
    assert "TBW102" in fleet.run("topics").lines
    assert fleet.run("topics", "--no-system").lines == ["orders", "payments"]
    assert fleet.run("topics", "--no-system", "--json").document["topics"] == ["orders", "payments"]
    assert [row[0] for row in fleet.run("topics", "--no-system", "--routes").rows] == [
        "orders",
        "payments",
    ]
    assert fleet.run("topics", "--no-system", "--system").exit_code == 2


# -- NameServers that are not Routebook's


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["history", "topic", "orders"], "--journal DIR"),
        (["history", "explain", "orders"], "--journal DIR"),
        (["health"], "`routebook doctor`"),
        (["guard"], "`routebook doctor`"),
    ],
)
async def test_what_only_our_nodes_can_tell_is_said_to_be_so(words: list[str], remedy: str) -> None:
    ran, (address,) = await run_at(*words, nodes=[not_ours])

    assert ran.exit_code in (1, 3)
    (error,) = [line for line in ran.stderr.splitlines() if line.startswith("Error: ")]
    assert address in error
    assert "not a Routebook node" in error
    assert remedy in error
    assert "19002" not in error


async def test_one_node_of_ours_is_enough_for_health() -> None:
    ran, _ = await run_at("health", nodes=[not_ours, reporting(report())])

    assert (ran.exit_code, ran.stderr) == (0, "")
