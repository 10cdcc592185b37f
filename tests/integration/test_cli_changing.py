"""The commands that change something on every node: topics, kv, config."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.fleet import Fleet, run_program


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def value_at(fleet: Fleet, port: int, key: str = "colour") -> str | None:
    answer = fleet.ask(port, raw.GET_KV, namespace="ns", key=key)
    return None if answer.code == raw.QUERY_NOT_FOUND else (answer.ext_fields or {})["value"]


def put_at(fleet: Fleet, port: int, value: str, key: str = "colour") -> None:
    assert fleet.ask(port, raw.PUT_KV, namespace="ns", key=key, value=value).code == raw.SUCCESS


# -- topics


def test_a_topic_is_added_on_every_node(fleet: Fleet) -> None:
    fleet.register(Broker())

    ran = fleet.run(
        *["topics", "add", "news", "--broker", "broker-a"],
        *["--read", "4", "--write", "2", "--perm", "r"],
    )

    assert ran.exit_code == 0
    assert ran.rows == [[address, "added"] for address in fleet.addresses]
    for port in fleet.ports:
        [queues] = fleet.ask(port, raw.ROUTE, topic="news").value["queueDatas"]
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (4, 2, 4)


def test_a_topic_for_a_broker_that_a_node_does_not_know_is_not_added_there(fleet: Fleet) -> None:
    first, second = fleet.ports
    fleet.register(Broker())
    fleet.register(Broker("broker-b", addr="10.0.0.9:10911"), on=[second])

    ran = fleet.run("topics", "add", "news", "-b", "broker-a", "-b", "broker-b", "--json")

    assert ran.exit_code == 1
    assert ran.document["brokers"] == ["broker-a", "broker-b"]
    without, having = ran.document["nodes"]
    assert without == {
        "node": f"127.0.0.1:{first}",
        "done": False,
        "outcome": "no broker named broker-b is registered here",
    }
    assert having == {"node": f"127.0.0.1:{second}", "done": True, "outcome": "added"}
    assert f"127.0.0.1:{first}" in ran.stderr
    assert fleet.ask(first, raw.ROUTE, topic="news").code == raw.TOPIC_NOT_EXIST


def test_a_topic_is_deleted_on_every_node(fleet: Fleet) -> None:
    fleet.register(Broker())

    ran = fleet.run("topics", "delete", "orders", "--yes")

    assert ran.exit_code == 0
    assert ran.rows == [[address, "deleted"] for address in fleet.addresses]
    assert fleet.run("topics").lines == ["payments"]


def test_a_topic_is_deleted_in_one_cluster_only(fleet: Fleet) -> None:
    fleet.register(Broker())
    fleet.register(Broker("edge-1", addr="10.0.1.1:10911", cluster="Edge"))

    assert fleet.run("topics", "delete", "orders", "--cluster", "Edge", "--yes").exit_code == 0

    route = fleet.run("route", "orders", "--json").document
    assert [group["broker"] for group in route["brokers"]] == ["broker-a"]


@pytest.mark.parametrize("answers", ["n\n", "\n", None], ids=["no", "nothing", "nobody-there"])
def test_nothing_is_deleted_without_consent(fleet: Fleet, answers: str | None) -> None:
    fleet.register(Broker())
    fleet.register(Broker("broker-b", addr="10.0.0.9:10911"))

    ran = fleet.run("topics", "delete", "orders", answers=answers)

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no longer find orders on broker-a, broker-b" in ran.stderr
    assert "--yes" in ran.stderr
    assert fleet.run("topics").lines == ["orders", "payments"]


def test_consent_can_be_typed(fleet: Fleet) -> None:
    fleet.register(Broker())

    assert fleet.run("topics", "delete", "orders", answers="y\n").exit_code == 0
    assert fleet.run("topics").lines == ["payments"]


@pytest.mark.parametrize("words", [["nope"], ["orders", "--cluster", "Edge"]])
def test_deleting_what_is_not_there_is_a_no(fleet: Fleet, words: list[str]) -> None:
    fleet.register(Broker())

    ran = fleet.run("topics", "delete", *words, "--yes")

    assert ran.exit_code == 1
    assert f"no topic {words[0]}" in ran.stderr


# -- key-value pairs


def test_a_pair_is_written_to_every_node_and_read_back(fleet: Fleet) -> None:
    ran = fleet.run("kv", "put", "ns", "colour", "grün und rot")

    assert ran.exit_code == 0
    assert ran.rows == [[address, "written"] for address in fleet.addresses]
    assert {value_at(fleet, port) for port in fleet.ports} == {"grün und rot"}
    got = fleet.run("kv", "get", "ns", "colour")
    assert (got.exit_code, got.stdout, got.stderr) == (0, "grün und rot\n", "")


def test_a_missing_key_is_a_no(fleet: Fleet) -> None:
    ran = fleet.run("kv", "get", "ns", "colour")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "ns has no key colour" in ran.stderr
    assert fleet.run("kv", "get", "ns", "colour", "--json").document["value"] is None


def test_an_empty_value_is_a_value(fleet: Fleet) -> None:
    fleet.run("kv", "put", "ns", "colour", "")

    ran = fleet.run("kv", "get", "ns", "colour")

    assert (ran.exit_code, ran.stdout) == (0, "\n")


@pytest.mark.parametrize("second", ["red", None], ids=["another-value", "none"])
def test_nodes_that_disagree_on_a_key_are_warned_of(fleet: Fleet, second: str | None) -> None:
    put_at(fleet, fleet.ports[0], "green")
    if second is not None:
        put_at(fleet, fleet.ports[1], second)

    ran = fleet.run("kv", "get", "ns", "colour")

    assert (ran.exit_code, ran.stdout) == (0, "green\n")
    assert "disagree" in ran.stderr
    assert f"{fleet.addresses[1]} has {'none' if second is None else repr(second)}" in ran.stderr


def test_a_pair_is_found_wherever_it_is(fleet: Fleet) -> None:
    put_at(fleet, fleet.ports[1], "green")

    assert fleet.run("kv", "get", "ns", "colour").stdout == "green\n"


def test_a_namespace_is_listed_sorted(fleet: Fleet) -> None:
    for key in ("b", "a", "c"):
        fleet.run("kv", "put", "ns", key, key.upper())

    ran = fleet.run("kv", "list", "ns")

    assert ran.lines[0].split() == ["key", "value"]
    assert ran.rows == [["a", "A"], ["b", "B"], ["c", "C"]]


def test_a_list_says_which_nodes_have_what_when_they_disagree(fleet: Fleet) -> None:
    first, second = fleet.addresses
    fleet.run("kv", "put", "ns", "same", "1")
    put_at(fleet, fleet.ports[0], "green")
    put_at(fleet, fleet.ports[1], "red")

    ran = fleet.run("kv", "list", "ns")

    assert ran.lines[0].split() == ["key", "value", "nodes"]
    assert ran.rows == [["colour", "green", first], ["colour", "red", second], ["same", "1", "all"]]
    assert fleet.run("kv", "list", "ns", "--json").document == {
        "namespace": "ns",
        "nodes": [
            {"node": first, "pairs": {"colour": "green", "same": "1"}, "error": None},
            {"node": second, "pairs": {"colour": "red", "same": "1"}, "error": None},
        ],
    }


def test_an_empty_namespace_is_said_to_be_empty(fleet: Fleet) -> None:
    ran = fleet.run("kv", "list", "ns")

    assert ran.exit_code == 0
    assert "nothing in the namespace ns" in ran.stderr


def test_a_pair_is_deleted_on_every_node(fleet: Fleet) -> None:
    put_at(fleet, fleet.ports[0], "green")

    ran = fleet.run("kv", "delete", "ns", "colour", "--yes", "--json")

    assert ran.exit_code == 0
    assert [node["outcome"] for node in ran.document["nodes"]] == ["deleted", "had no such key"]
    assert value_at(fleet, fleet.ports[0]) is None


def test_a_pair_is_not_deleted_without_consent_and_its_value_is_told(fleet: Fleet) -> None:
    put_at(fleet, fleet.ports[0], "green")

    ran = fleet.run("kv", "delete", "ns", "colour")

    assert ran.exit_code == 1
    assert "colour in ns is 'green'" in ran.stderr
    assert value_at(fleet, fleet.ports[0]) == "green"


def test_deleting_a_key_nobody_has_is_a_no(fleet: Fleet) -> None:
    assert fleet.run("kv", "delete", "ns", "colour", "--yes").exit_code == 1


def test_a_node_that_is_down_makes_a_write_incomplete_and_a_read_a_warning(fleet: Fleet) -> None:
    addresses = fleet.addresses
    down, up = addresses
    fleet.stop(fleet.ports[0])

    wrote = run_program("kv", "put", "ns", "colour", "green", namesrv_addr=";".join(addresses))
    read = run_program("kv", "get", "ns", "colour", namesrv_addr=";".join(addresses))
    listed = run_program("kv", "list", "ns", namesrv_addr=";".join(addresses))

    assert wrote.exit_code == 1
    assert [up, "written"] in wrote.rows
    assert f"not done on {down}" in wrote.stderr
    assert (read.exit_code, read.stdout) == (0, "green\n")
    assert f"{down} could not be asked" in read.stderr
    assert (listed.exit_code, listed.rows) == (0, [["colour", "green"]])


# -- settings


def test_settings_of_a_node_are_shown(fleet: Fleet) -> None:
    ran = fleet.run("config", "show")

    assert ["enableTopicList", "true"] in ran.rows
    assert [row[0] for row in ran.rows] == sorted(row[0] for row in ran.rows)


def test_settings_of_all_nodes_are_shown_with_where_they_differ(fleet: Fleet) -> None:
    first, second = fleet.ports

    ran = fleet.run("config", "show", "--all-nodes")
    document = fleet.run("config", "show", "--all-nodes", "--json").document

    assert ["enableTopicList", "true", "all"] in ran.rows
    assert ["listenPort", str(first), f"127.0.0.1:{first}"] in ran.rows
    assert ["listenPort", str(second), f"127.0.0.1:{second}"] in ran.rows
    assert [node["config"]["listenPort"] for node in document["nodes"]] == [str(first), str(second)]


def test_a_setting_is_changed_on_every_node(tmp_path: Path) -> None:
    with Fleet(tmp_path, allow_remote_config=True) as fleet:
        ran = fleet.run("config", "set", "enableTopicList=false", "waitSecondsForService = 7")

        assert ran.exit_code == 0
        assert ran.rows == [[address, "changed"] for address in fleet.addresses]
        shown = fleet.run("config", "show", "--all-nodes").rows
    assert ["enableTopicList", "false", "all"] in shown
    assert ["waitSecondsForService", "7", "all"] in shown


def test_a_node_that_takes_no_settings_says_how_it_would(fleet: Fleet) -> None:
    ran = fleet.run("config", "set", "enableTopicList=false")

    assert ran.exit_code == 1
    assert ran.stdout.count("NO_PERMISSION (16)") == 2
    assert "allowRemoteConfig=true" in ran.stdout


@pytest.mark.parametrize("words", [[], ["enableTopicList"], ["=true"]])
def test_settings_are_pairs(fleet: Fleet, words: list[str]) -> None:
    assert fleet.run("config", "set", *words).exit_code == 2
