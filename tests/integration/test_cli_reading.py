"""The commands that ask: route, topics, brokers, clusters."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.builders import mapping_info
from support.fleet import Fleet, run_program
from support.waiting import wait_for

UNIT, UNIT_SUB = 1, 2
TOPICS = ["alarms", "orders", "payments", "returns", "sensors"]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


@pytest.fixture
def cluster(fleet: Fleet) -> Fleet:
    """A group with master and slave, a group that lost its master, and a second cluster."""
    topics = {"orders": {}, "payments": {"readQueueNums": 4, "perm": 4}}
    fleet.register(Broker(), topics)
    fleet.register(Broker(broker_id=1, addr="10.0.0.2:10911"), topics)
    fleet.register(
        Broker("broker-b", 1, "10.0.0.3:10911", acting_master=True), ["orders", "returns"]
    )
    fleet.register(Broker("edge-1", 0, "10.0.1.1:10911", "Edge"), ["alarms", "sensors"])
    return fleet


# -- route


def test_a_route_has_brokers_and_queues_and_says_who_answered(cluster: Fleet) -> None:
    ran = cluster.run("route", "orders")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.lines[0] in [f"orders at {address}" for address in cluster.addresses]
    assert ["DefaultCluster", "broker-a", "0", "master", "10.0.0.1:10911", "–"] in ran.rows
    assert ["DefaultCluster", "broker-a", "1", "slave", "10.0.0.2:10911", "–"] in ran.rows
    assert ["broker-a", "8", "8", "RW-"] in ran.rows


def test_a_route_as_json(cluster: Fleet) -> None:
    route = cluster.run("route", "payments", "--json").document

    assert route["node"] in cluster.addresses
    assert route["topic"] == "payments"
    assert route["brokers"] == [
        {
            "cluster": "DefaultCluster",
            "broker": "broker-a",
            "addresses": {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"},
            "master": "10.0.0.1:10911",
            "acting_master": False,
            "zone": None,
        }
    ]
    assert route["queues"] == [
        {
            "broker": "broker-a",
            "read": 4,
            "write": 8,
            "perm": 4,
            "permission": "R--",
            "sys_flag": 0,
        }
    ]
    assert (route["order_conf"], route["mappings"], route["filter_servers"]) == (None, {}, {})


@pytest.mark.parametrize(
    ("perm", "text"), [(0, "---"), (1, "--X"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX")]
)
def test_permissions_are_written_as_mqadmin_writes_them(fleet: Fleet, perm: int, text: str) -> None:
    fleet.register(Broker(), {"orders": {"perm": perm}, "payments": {}})

    assert fleet.run("route", "orders").rows[-1][-1] == text


def test_an_unknown_topic_is_a_no_with_the_words_of_the_node(cluster: Fleet) -> None:
    ran = cluster.run("route", "nope")

    assert (ran.exit_code, ran.stdout) == (1, "")
    [line] = ran.stderr.splitlines()
    assert "No topic route info in name server for the topic: nope" in line
    assert any(address in line for address in cluster.addresses)


def test_a_route_has_its_order_configuration_and_static_mapping(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1, order_message_enable=True) as fleet:
        broker = Broker()
        fleet.register(broker, ["orders", "static"], mappings={"static": mapping_info("static")})
        fleet.run("kv", "put", "ORDER_TOPIC_CONFIG", "static", "broker-a:4")

        shown = fleet.run("route", "static")
        document = fleet.run("route", "static", "--json").document

    assert shown.lines[-1] == "order configuration: broker-a:4"
    assert ["broker-a", "__global__", "4", "1700000000123", "0", "1"] in shown.rows
    assert document["order_conf"] == "broker-a:4"
    assert document["mappings"] == {
        "broker-a": {
            "scope": "__global__",
            "total_queues": 4,
            "epoch": 1_700_000_000_123,
            "queues": {"0": 0, "1": 1},
        }
    }


def test_nodes_that_say_the_same_of_a_topic_are_shown_together(cluster: Fleet) -> None:
    ran = cluster.run("route", "orders", "--all-nodes")

    assert ran.exit_code == 0
    assert ran.lines[0] == f"orders at {', '.join(cluster.addresses)}"
    assert ran.stdout.count(" at ") == 1


def test_nodes_that_differ_on_a_topic_are_shown_apart(cluster: Fleet) -> None:
    cluster.register(Broker("broker-c", 0, "10.0.0.9:10911"), on=cluster.ports[:1])

    ran = cluster.run("route", "orders", "--all-nodes")

    assert ran.exit_code == 0
    heads = [line for line in ran.lines if line.startswith("orders at")]
    assert heads == [f"orders at {address}" for address in cluster.addresses]
    assert ran.stdout.count("broker-c") == 2  # once with its address, once with its queues


def test_a_node_without_the_route_makes_all_nodes_a_no(cluster: Fleet) -> None:
    first, second = cluster.ports
    cluster.register(Broker("broker-c", 0, "10.0.0.9:10911"), ["news", "orders"], on=[second])

    shown = cluster.run("route", "news", "--all-nodes")
    listed = cluster.run("route", "news", "--all-nodes", "--json")

    assert (shown.exit_code, listed.exit_code) == (1, 1)
    assert f"news at 127.0.0.1:{second}" in shown.lines
    without, having = listed.document["nodes"]
    assert (without["node"], without["route"]) == (f"127.0.0.1:{first}", None)
    assert "TOPIC_NOT_EXIST" in without["error"]
    assert (having["error"], having["route"]["topic"]) == (None, "news")


def test_a_node_that_is_down_does_not_hide_the_others(cluster: Fleet) -> None:
    first, second = cluster.addresses
    cluster.stop(cluster.ports[0])
    ask = f"{first};{second}"

    one = run_program("route", "orders", namesrv_addr=ask)
    all_ = run_program("route", "orders", "--all-nodes", namesrv_addr=ask)

    assert one.exit_code == 0
    assert one.lines[0] == f"orders at {second}"
    assert all_.exit_code == 3
    assert f"orders at {second}" in all_.lines
    assert first in all_.stderr


# -- topics


def test_topics_are_listed_one_a_line_and_sorted(cluster: Fleet) -> None:
    assert cluster.run("topics").lines == TOPICS


def test_no_topics_are_no_output(fleet: Fleet) -> None:
    ran = fleet.run("topics")

    assert (ran.exit_code, ran.stdout) == (0, "")
    assert fleet.run("topics", "--json").document["topics"] == []


def test_topics_of_one_cluster(cluster: Fleet) -> None:
    assert cluster.run("topics", "--cluster", "Edge").lines == ["alarms", "sensors"]


def test_an_unknown_cluster_is_a_no_that_names_those_there_are(cluster: Fleet) -> None:
    ran = cluster.run("topics", "--cluster", "edge")

    assert ran.exit_code == 1
    assert "DefaultCluster and Edge" in ran.stderr


def test_system_topics_are_names_of_clusters_and_brokers(cluster: Fleet) -> None:
    listed = cluster.run("topics", "--system").lines

    assert listed == ["DefaultCluster", "Edge", "broker-a", "broker-b", "edge-1"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--unit", ["both", "unit"]),
        ("--unit-sub", ["both", "sub"]),
        ("--unit-sub-ununit", ["sub"]),
    ],
)
def test_topics_by_unit_flags(fleet: Fleet, option: str, expected: list[str]) -> None:
    flags = {"none": 0, "unit": UNIT, "sub": UNIT_SUB, "both": UNIT | UNIT_SUB}
    fleet.register(Broker(), {name: {"topicSysFlag": flag} for name, flag in flags.items()})

    assert fleet.run("topics", option).lines == expected


@pytest.mark.parametrize(
    "words",
    [
        ["--system", "--unit"],
        ["--cluster", "c", "--system"],
        ["--watch", "soon"],
        ["--watch", "0"],
        ["nonsense"],
        ["--timeout", "0"],
        ["--namesrv-addr", "nowhere"],
        ["--access-key", "a"],
        ["--routes", "delete", "orders"],
    ],
)
def test_wrong_usage_is_told_from_a_no(cluster: Fleet, words: list[str]) -> None:
    ran = cluster.run("topics", *words)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "Usage: routebook topics" in ran.stderr


def test_topics_with_routes_count_the_queues_that_can_be_used(cluster: Fleet) -> None:
    assert cluster.run("topics", "--routes").rows == [
        ["alarms", "edge-1", "8", "8"],
        ["orders", "broker-a,", "broker-b", "16", "8"],
        ["payments", "broker-a", "4", "0"],
        ["returns", "broker-b", "8", "0"],
        ["sensors", "edge-1", "8", "8"],
    ]


def test_topics_with_routes_as_json_have_the_shape_of_a_route(cluster: Fleet) -> None:
    node = ("-n", cluster.addresses[0], "--json")
    listed = cluster.run("topics", "--cluster", "Edge", "--routes", *node).document

    assert listed["topics"] == ["alarms", "sensors"]
    assert listed["routes"] == [
        cluster.run("route", topic, *node).document for topic in listed["topics"]
    ]


def test_more_topics_than_are_asked_for_at_once_all_have_their_routes(fleet: Fleet) -> None:
    topics = [f"topic-{number:04}" for number in range(1001)]
    fleet.register(Broker(), topics)

    rows = fleet.run("topics", "--routes").rows

    assert rows == [[topic, "broker-a", "8", "8"] for topic in topics]


def test_a_node_that_keeps_its_topics_to_itself_is_a_no(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1, enable_all_topic_list=False) as fleet:
        ran = fleet.run("topics")

    assert ran.exit_code == 1
    assert "disable" in ran.stderr


# -- brokers and clusters


def test_brokers_are_shown_with_ids_roles_and_addresses(cluster: Fleet) -> None:
    assert cluster.run("brokers").rows == [
        ["DefaultCluster", "broker-a", "0", "master", "10.0.0.1:10911", "–", "–"],
        ["DefaultCluster", "broker-a", "1", "slave", "10.0.0.2:10911", "–", "–"],
        ["DefaultCluster", "broker-b", "1", "slave", "10.0.0.3:10911", "enabled", "–"],
        ["Edge", "edge-1", "0", "master", "10.0.1.1:10911", "–", "–"],
    ]


def test_one_broker_with_the_number_of_its_topics(cluster: Fleet) -> None:
    ran = cluster.run("brokers", "broker-a", "--topics")

    assert {(row[1], row[-1]) for row in ran.rows} == {("broker-a", "2")}
    [document] = cluster.run("brokers", "broker-a", "--topics", "--json").document["brokers"]
    assert document["topics"] == 2
    assert document["addresses"] == {"0": "10.0.0.1:10911", "1": "10.0.0.2:10911"}


def test_a_broker_has_its_zone(fleet: Fleet) -> None:
    fleet.register(Broker(), more={"__ZONE_NAME": "zone-1", "__ZONE_MODE": "true"})

    assert fleet.run("brokers").rows[0][-1] == "zone-1"


def test_a_name_in_two_clusters_is_shown_in_both(fleet: Fleet) -> None:
    fleet.register(Broker())
    fleet.register(Broker(broker_id=1, addr="10.0.1.1:10911", cluster="Edge"))

    rows = fleet.run("brokers").rows

    assert [row[:2] for row in rows] == [["DefaultCluster", "broker-a"], ["Edge", "broker-a"]]


def test_an_unknown_broker_is_a_no_that_names_those_there_are(cluster: Fleet) -> None:
    ran = cluster.run("brokers", "broker-z")

    assert ran.exit_code == 1
    assert "broker-a, broker-b and edge-1" in ran.stderr


def test_clusters_tell_how_many_brokers_and_who_has_no_master(cluster: Fleet) -> None:
    ran = cluster.run("clusters", "--topics")

    assert ran.lines[0].split() == [
        *["cluster", "groups", "masters", "slaves", "topics", "without", "master"]
    ]
    assert ran.rows == [
        ["DefaultCluster", "2", "1", "2", "3", "broker-b"],
        ["Edge", "1", "1", "0", "2", "–"],
    ]


def test_clusters_as_json(cluster: Fleet) -> None:
    default, edge = cluster.run("clusters", "--json").document["clusters"]

    assert default == {
        "cluster": "DefaultCluster",
        "brokers": ["broker-a", "broker-b"],
        "masters": 1,
        "slaves": 2,
        "without_master": ["broker-b"],
        "topics": None,
    }
    assert (edge["cluster"], edge["without_master"]) == ("Edge", [])


# -- nodes that cannot be asked


@pytest.mark.parametrize(
    "words",
    [
        ["route", "orders"],
        ["route", "orders", "--all-nodes"],
        ["topics"],
        ["topics", "--routes"],
        ["topics", "delete", "orders", "--yes"],
        ["topics", "add", "orders", "-b", "broker-a"],
        ["brokers"],
        ["clusters"],
        ["kv", "list", "n"],
        ["kv", "get", "n", "k"],
        ["kv", "put", "n", "k", "v"],
        ["kv", "delete", "n", "k", "--yes"],
        ["config", "show"],
        ["config", "show", "--all-nodes"],
        ["config", "set", "k=v"],
        ["drain", "broker-a"],
        ["undrain", "broker-a"],
    ],
    ids=" ".join,
)
def test_nodes_that_are_all_down_are_an_exit_code_of_their_own(words: list[str]) -> None:
    ran = run_program(*words, namesrv_addr="127.0.0.1:1;127.0.0.1:2")

    assert ran.exit_code == 3
    assert ran.stderr.count("\n") == 1
    assert "127.0.0.1:1" in ran.stderr
    assert "127.0.0.1:2" in ran.stderr


def test_without_any_address_the_ways_of_giving_one_are_told() -> None:
    ran = run_program("topics", namesrv_addr="")

    assert ran.exit_code == 3
    for way in ("-n", "NAMESRV_ADDR"):
        assert way in ran.stderr


def test_the_option_is_stronger_than_the_environment(cluster: Fleet) -> None:
    ran = run_program("topics", "-n", cluster.addresses[0], namesrv_addr="127.0.0.1:1")

    assert ran.lines == TOPICS


def test_a_refusal_is_a_no_and_not_an_outage(cluster: Fleet) -> None:
    assert cluster.ask(cluster.ports[0], raw.ROUTE, topic="nope").code == raw.TOPIC_NOT_EXIST
    assert cluster.run("route", "nope").exit_code == 1


# -- through a relay


def test_a_route_from_a_relay_says_so_and_how_old_it_is(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders", "payments"])
    relay = fleet.relay(poll_s=0.1).address

    ran = run_program("route", "orders", namesrv_addr=relay)

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert re.fullmatch(rf"orders at {relay} \(a relay; [\d.]+ m?s old\)", ran.lines[0])
    told = run_program("route", "orders", "--json", namesrv_addr=relay).document["relayed"]
    assert told["age_ms"] >= 0
    assert (told["stale"], told["doubt"]) == (False, None)
    direct = fleet.run("route", "orders", "--json").document
    assert direct["relayed"] is None


def test_a_relay_without_nameservers_is_seen_in_every_command(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders", "payments"])
    relay = fleet.relay(poll_s=0.1)
    for command in ("route orders", "brokers", "topics"):
        assert run_program(*command.split(), namesrv_addr=relay.address).exit_code == 0
    for port in fleet.ports:
        fleet.stop(port)
    wait_for("the outage", relay.status, until=lambda status: status.outage_s is not None)

    ran = run_program("route", "orders", namesrv_addr=relay.address)

    assert ran.exit_code == 0
    assert ran.lines[0].endswith("s old, stale)")
    assert "no NameServer answered" in ran.lines[-1]
    document = run_program("route", "orders", "--all-nodes", "--json", namesrv_addr=relay.address)
    assert document.document["nodes"][0]["route"]["relayed"]["stale"] is True
    ran = run_program("brokers", namesrv_addr=relay.address)
    assert ran.exit_code == 0
    assert re.match(
        rf"Note: {relay.address} is a relay; what it says is up to .* m?s old and stale: relayed",
        ran.stderr,
    )


def test_a_relay_tells_of_its_health(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders", "payments"])
    relay = fleet.relay(poll_s=0.1)
    run_program("route", "orders", namesrv_addr=relay.address)

    ran = run_program("health", namesrv_addr=f"{relay.address};{fleet.addresses[0]}")

    assert ran.exit_code == 0
    (line,) = (line for line in ran.lines if line.startswith(relay.address))
    assert "a relay" in line
    assert re.search(r"ok, answers up to [\d.]+ m?s old$", line)
    guard = run_program("guard", namesrv_addr=f"{relay.address};{fleet.addresses[0]}")
    assert guard.exit_code == 0
    assert "a relay, not a node" in guard.stdout
    for port in fleet.ports:
        fleet.stop(port)
    wait_for("the outage", relay.status, until=lambda status: status.outage_s is not None)
    wait_for(
        "its health to tell",
        lambda: run_program("health", namesrv_addr=relay.address),
        until=lambda ran: ran.exit_code == 1,
    )
    ran = run_program("health", namesrv_addr=relay.address)
    assert "no NameServer has answered it for" in ran.stderr
    document = run_program("health", "--json", namesrv_addr=relay.address).document
    told = document["nodes"][0]["health"]
    assert (told["relay"], told["ok"], told["topics"]) == (True, False, 1)
