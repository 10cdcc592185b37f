"""``routebook health``: how nodes are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import routebook
from support.brokers import Broker
from support.fleet import Fleet, run_program
from support.health import hold, holding, not_ours, report, reporting, run_at
from support.misbehaving import unused_port

COLUMNS = [
    *["node", "id", "version", "uptime", "brokers", "unconfirmed", "topics"],
    *["journal", "synced", "lost", "stalls", "last", "error", "guard", "health"],
]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        yield fleet


def test_nodes_that_are_well_say_what_they_know(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders", "payments"])
    fleet.register(Broker("broker-b", addr="10.0.0.2:10911"), ["orders", "refunds"])

    ran = fleet.run("health")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.lines[0].split() == COLUMNS
    for address, row in zip(fleet.addresses, ran.rows, strict=True):
        assert row[0] == address
        assert row[2] == routebook.__version__
        assert row[-10:-7] == ["2", "0", "3"]  # brokers, unconfirmed, topics
        assert row[-5:] == ["0", "–", "–", "–", "ok"]  # lost, stalls, last error, guard, health
    nodes = fleet.run("health", "--json").document["nodes"]
    assert [node["node"] for node in nodes] == fleet.addresses
    assert len({node["health"]["node"] for node in nodes}) == 2  # ids of their own
    for node in nodes:
        told = node["health"]
        assert (told["address"], node["error"]) == (node["node"], None)
        assert (told["brokers"], told["topics"], told["routes"], told["ok"]) == (2, 3, 4, True)


def test_a_node_without_a_journal_is_as_well_as_any(tmp_path: Path) -> None:
    with Fleet(tmp_path, 1, journal=False) as fleet:
        ran = fleet.run("health")

    assert ran.exit_code == 0
    assert ran.rows[0][-6:] == ["–", "–", "–", "–", "–", "ok"]


def test_a_node_that_holds_brokers_is_not_ok(fleet: Fleet) -> None:
    hold(fleet, on=fleet.ports[:1])

    ran = fleet.run("health")

    assert ran.exit_code == 1
    first, second = ran.lines[2:]
    assert re.search(r"  12 held until 20[\d:TZ-]+  holds silent brokers$", first)
    assert re.search(r" – +– +ok$", second)
    assert ran.stderr == f"Error: {fleet.addresses[0]}: holds silent brokers\n"
    told = fleet.run("health", "--json")
    assert (told.exit_code, told.document["nodes"][0]["health"]["ok"]) == (1, False)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        pytest.param(
            {"journal": {"last_error": "no space\nleft", "failing": True, "lost": 3}},
            "the journal cannot be written",
            id="journal",
        ),
        pytest.param(
            {"journal": {"failing": True}, "guard": holding("b1")},
            "holds silent brokers, the journal cannot be written",
            id="both",
        ),
        pytest.param({}, "not ok", id="something-newer"),
    ],
)
async def test_what_is_wrong_with_a_node_is_said(wrong: dict[str, Any], words: str) -> None:
    ran, (address,) = await run_at("health", nodes=[reporting(report(ok=False, **wrong))])

    assert ran.exit_code == 1
    assert ran.lines[2].endswith(words)
    assert f"{address}: {words}" in ran.stderr
    if "lost" in wrong.get("journal", {}):
        assert "3  –       no space left" in ran.lines[2]


async def test_all_of_a_report_is_in_the_table() -> None:
    ran, (address,) = await run_at("health", nodes=[reporting(report(unconfirmed=5))])

    assert re.split(" {2,}", ran.lines[2]) == [
        *[address, "ns-1-0a1b2c3d", "1.2.3", "1 h", "12", "5", "24"],
        *["70", "69", "0", "–", "–", "–", "ok"],
    ]


def test_what_nodes_hold_is_told_by_kind_and_by_peer(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders", "payments"])

    ran = fleet.run("health", "--memory")

    assert (ran.exit_code, ran.stderr) == (0, "")
    columns = re.split(" {2,}", ran.lines[0])
    assert columns[:5] == ["node", "resident", "limit", "tables", "of"]
    kinds = {"topics", "mappings", "brokers", "pairs", "records", "answers", "decoding", "pending"}
    assert kinds < set(columns)
    row = dict(zip(columns, re.split(" {2,}", ran.lines[2]), strict=True))
    assert re.fullmatch(r"127\.0\.0\.1 \d+ (B|KiB)", row["most for"])
    assert re.fullmatch(r"\d+ MiB", row["resident"])
    told = fleet.run("health", "--json").document["nodes"][0]["health"]["memory"]
    assert told["kinds"]["topics"] > 2 * 100
    [peer] = told["peers"]
    assert (peer["peer"], peer["kinds"]["tables"]) == ("127.0.0.1", told["tables"])
    assert 0 < peer["kinds"]["records"] < told["kinds"]["records"]  # the node's own are no peer's
    assert peer["bytes"] == sum(peer["kinds"].values())
    assert told["resident"] < told["limit"]


async def test_a_node_whose_memory_is_used_up_is_not_ok() -> None:
    memory = {"limit": 1000, "resident": 990, "pressed": True, "kinds": {"topics": 5}}
    ran, (address,) = await run_at("health", nodes=[reporting(report(ok=False, memory=memory))])

    assert f"{address}: its memory is used up" in ran.stderr


def test_a_node_that_is_down_is_not_ok(fleet: Fleet) -> None:
    down = f"127.0.0.1:{unused_port()}"

    ran = run_program("health", "-n", f"{fleet.addresses[0]};{down}")

    assert ran.exit_code == 1
    assert {line.split()[0] for line in ran.lines[2:]} == {fleet.addresses[0], down}
    assert down in ran.stderr
    assert fleet.addresses[0] not in ran.stderr


def test_when_no_node_can_be_asked_that_is_an_exit_code_of_its_own() -> None:
    ran = run_program("health", namesrv_addr=f"127.0.0.1:{unused_port()}")

    assert (ran.exit_code, ran.stdout) == (3, "")


async def test_a_nameserver_that_is_not_ours_cannot_tell_and_does_not_count() -> None:
    ran, (theirs, _) = await run_at("health", nodes=[not_ours, reporting(report())])

    assert (ran.exit_code, ran.stderr) == (0, "")
    [row] = [line for line in ran.lines if line.startswith(theirs)]
    assert row.endswith("not a Routebook node")


async def test_where_no_node_is_ours_the_answer_is_no() -> None:
    ran, (address,) = await run_at("health", "--json", nodes=[not_ours])

    assert ran.exit_code == 1
    assert ran.document["nodes"] == [
        {"node": address, "health": None, "error": "not a Routebook node"}
    ]
    assert "not a Routebook node" in ran.stderr


async def test_fields_of_newer_nodes_are_passed_on() -> None:
    ran, _ = await run_at("health", "--json", nodes=[reporting(report(mood="sunny"))])

    assert ran.document["nodes"][0]["health"]["mood"] == "sunny"


def test_health_can_be_watched(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = iter([None])

    def pause(seconds: float) -> None:
        if next(pauses, 0) is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr("routebook.cli.output.time", SimpleNamespace(sleep=pause))

    ran = fleet.run("health", "--watch", "--json")

    assert ran.exit_code == 0
    looks = [json.loads(line) for line in ran.lines]
    assert [len(look["nodes"]) for look in looks] == [2, 2]


async def test_stalls_are_in_the_table() -> None:
    last = {"from_ms": 1_794_730_000_000, "to_ms": 1_794_730_135_000, "longest_ms": 134_000}
    stalls = {"count": 2, "paused_ms": 140_000, "last": last}
    ran, _ = await run_at("health", nodes=[reporting(report(stalls=stalls))])
    assert "2, last at 2026-11-15T08:06:40Z for 2 min 15 s" in ran.lines[2]
    last = {**last, "longest_ms": 0, "clock_ms": -3_600_000}
    ran, _ = await run_at("health", nodes=[reporting(report(stalls={**stalls, "last": last}))])
    assert "2, last at 2026-11-15T08:06:40Z clock set by 1 h" in ran.lines[2]
