"""``routebook guard``: what nodes hold, and letting it go."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import raw
from support.fleet import Fleet, run_program
from support.health import BROKERS, held, hold, holding, not_ours, report, reporting, run_at
from support.misbehaving import Behaviour, unused_port


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def known(fleet: Fleet, port: int) -> int:
    return len(fleet.ask(port, raw.CLUSTER_INFO).value["brokerAddrTable"])


# -- showing


def test_nodes_that_hold_nobody_say_so(fleet: Fleet) -> None:
    ran = fleet.run("guard")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.lines[0].split() == ["node", "holds", "since", "until", "why"]
    assert ran.rows == [[address, "nobody", "–", "–", "–"] for address in fleet.addresses]
    assert fleet.run("guard", "--json").document == {
        "nodes": [
            {"node": address, "guard": {"held": []}, "error": None} for address in fleet.addresses
        ]
    }


def test_brokers_that_are_held_are_shown_node_by_node(fleet: Fleet) -> None:
    first, second = fleet.addresses
    hold(fleet, on=fleet.ports[1:])

    ran = fleet.run("guard")

    assert ran.exit_code == 0
    assert ran.rows[0] == [first, "nobody", "–", "–", "–"]
    assert ran.lines[3].startswith(f"{second}  12 brokers  20")
    assert ran.lines[3].endswith("  12 of 12 brokers silent within 1 min, more than 6")
    assert ran.lines[4] == ""
    assert ran.lines[5].split()[:5] == ["node", "cluster", "broker", "id", "address"]
    assert [line.split()[:5] for line in ran.lines[7:]] == [
        [second, "DefaultCluster", broker.name, "0", broker.addr] for broker in BROKERS
    ]
    document = fleet.run("guard", "--json").document["nodes"][1]
    assert document["node"] == second
    guard = document["guard"]
    assert len(guard["held"]) == 12
    assert (guard["silent"], guard["live"], guard["limit"]) == (12, 12, 6)
    assert abs(guard["until_ms"] - guard["since_ms"] - 600_000) <= 2


async def test_of_thousands_that_are_held_the_number_is_shown_and_the_first_are_listed() -> None:
    told = holding("b1", "b2") | {"held_in_all": 20_000}
    ran, (address,) = await run_at("guard", nodes=[reporting(report(guard=told))])

    assert re.split(" {2,}", ran.lines[2])[:2] == [address, "20000 brokers"]
    assert len(ran.lines[6:]) == 2


async def test_times_are_shown_as_those_of_the_clock() -> None:
    ran, (address,) = await run_at("guard", nodes=[reporting(report(guard=holding("b1")))])

    assert re.split(" {2,}", ran.lines[2]) == [
        address,
        "1 broker",
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:10:00Z",
        "8 of 12 brokers silent within 1 min, more than 6",
    ]
    assert ran.lines[-1].split() == [address, "c", "b1", "0", "b1:1", "2", "min", "5", "s"]


def test_a_node_that_cannot_be_asked_does_not_hide_the_others(fleet: Fleet) -> None:
    down = f"127.0.0.1:{unused_port()}"
    there = fleet.addresses[0]

    ran = run_program("guard", "-n", f"{there};{down}")

    assert ran.exit_code == 3
    assert [there, "nobody", "–", "–", "–"] in ran.rows
    assert down in ran.stdout
    assert f"not every node answered: {down}" in ran.stderr


async def test_a_nameserver_that_is_not_ours_is_named_as_such() -> None:
    ran, (theirs, ours) = await run_at("guard", nodes=[not_ours, reporting(report())])

    assert ran.exit_code == 0
    assert sorted(ran.rows) == sorted(
        [
            [theirs, "–", "–", "–", "not", "a", "Routebook", "node"],
            [ours, "nobody", "–", "–", "–"],
        ]
    )


@pytest.mark.parametrize("words", [["guard"], ["guard", "release", "--yes"]])
async def test_where_no_node_is_ours_the_answer_is_no(words: list[str]) -> None:
    ran, (address,) = await run_at(*words, nodes=[not_ours])

    assert ran.exit_code == 1
    assert f"{address}: not a Routebook node" in ran.stderr


@pytest.mark.parametrize("words", [["guard"], ["guard", "release", "--yes"], ["guard", "--json"]])
def test_nodes_that_are_all_down_are_an_exit_code_of_their_own(words: list[str]) -> None:
    ran = run_program(*words, namesrv_addr=f"127.0.0.1:{unused_port()}")

    assert (ran.exit_code, ran.stdout) == (3, "")


@pytest.mark.parametrize(
    "told",
    [
        pytest.param([], id="a-list"),
        pytest.param({}, id="nothing"),
        pytest.param(report(brokers="many"), id="a-wrong-type"),
        pytest.param(report(guard={"held": [{"broker": "b"}]}), id="half-a-broker"),
    ],
)
async def test_a_report_that_is_none_is_an_outage(told: object) -> None:
    ran, (address,) = await run_at("guard", nodes=[reporting(told)])

    assert ran.exit_code == 3
    assert address in ran.stderr
    assert "report" in ran.stderr


async def test_names_and_times_from_the_network_are_shown_without_harm() -> None:
    told = report(guard={**holding("evil\x1b[31m\n"), "until_ms": 10**18, "since_ms": -(10**18)})

    ran, _ = await run_at("guard", nodes=[reporting(told)])
    release, _ = await run_at("guard", "release", nodes=[reporting(told)])

    assert ran.exit_code == 0
    assert "\x1b" not in ran.stdout + release.stderr
    assert "evil�[31m" in ran.stdout
    assert "evil�[31m" in release.stderr


def test_options_go_after_the_subcommand(fleet: Fleet) -> None:
    ran = fleet.run("guard", "--json", "release")

    assert ran.exit_code == 2
    assert "--json goes after release" in ran.stderr


# -- releasing


@pytest.mark.parametrize("answers", ["n\n", None], ids=["no", "nobody-there"])
def test_nobody_is_let_go_without_consent(fleet: Fleet, answers: str | None) -> None:
    port = fleet.ports[1]
    hold(fleet, on=[port])

    ran = fleet.run("guard", "release", answers=answers)

    assert (ran.exit_code, ran.stdout) == (1, "")
    lost = "b00:0, b01:0, b02:0 and 9 more"
    assert f"Clients of 127.0.0.1:{port} will no longer find {lost}." in ran.stderr
    assert "--yes" in ran.stderr
    assert (len(held(fleet, port)), known(fleet, port)) == (12, 12)


@pytest.mark.parametrize(
    ("words", "answers"), [(["--yes"], None), ([], "y\n")], ids=["option", "typed"]
)
def test_brokers_are_let_go_on_every_node(
    fleet: Fleet, words: list[str], answers: str | None
) -> None:
    hold(fleet, on=fleet.ports)

    ran = fleet.run("guard", "release", *words, answers=answers)

    assert ran.exit_code == 0
    assert ran.rows == [[address, "let", "go", "12", "brokers"] for address in fleet.addresses]
    assert [known(fleet, port) for port in fleet.ports] == [0, 0]


def test_there_is_nothing_to_ask_when_nobody_is_held(fleet: Fleet) -> None:
    ran = fleet.run("guard", "release", "--json")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.document == {
        "nodes": [
            {"node": address, "done": True, "outcome": "held nobody"} for address in fleet.addresses
        ]
    }


def test_a_node_that_is_down_is_a_no_and_the_others_let_go(fleet: Fleet) -> None:
    port = fleet.ports[0]
    hold(fleet, on=[port])
    down = f"127.0.0.1:{unused_port()}"

    ran = run_program("guard", "release", "--yes", "-n", f"127.0.0.1:{port};{down}")

    assert ran.exit_code == 1
    assert [f"127.0.0.1:{port}", "let", "go", "12", "brokers"] in ran.rows
    assert f"not done on {down}" in ran.stderr
    assert known(fleet, port) == 0


@pytest.mark.parametrize(
    ("nodes", "exit_code", "outcome"),
    [
        pytest.param([reporting(report())], 1, "from its own machine only", id="refused"),
        pytest.param([reporting(report()), not_ours], 1, "not a Routebook node", id="and-foreign"),
    ],
)
async def test_a_refusal_is_a_no_with_the_words_of_the_node(
    nodes: list[Behaviour], exit_code: int, outcome: str
) -> None:
    ran, addresses = await run_at("guard", "release", nodes=nodes)

    assert ran.exit_code == exit_code
    assert outcome in ran.stdout
    assert f"not done on {addresses[0]}" in ran.stderr
