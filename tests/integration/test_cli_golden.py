"""What commands print, to the letter, in tests/golden/cli; docs/cli shows the same.

``pytest -s --write-golden tests/integration/test_cli_golden.py`` writes the files anew and prints
what changed, for review. CI never does.
"""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.builders import mapping_info
from support.fleet import Fleet, run_program

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "cli"
PAGES = "".join(page.read_text() for page in ROOT.glob("docs/cli/*.md"))
ADDRESSES = ("10.0.1.101:9876", "10.0.1.102:9876")  # as long as those the nodes really have


@dataclass(frozen=True, slots=True)
class Case:
    """``before`` are commands run first; ``answers`` what is typed."""

    name: str
    command: str
    exit_code: int = 0
    nodes: int = 2
    before: tuple[str, ...] = ()
    answers: str | None = None


ORDERED = "kv put ORDER_TOPIC_CONFIG payments broker-a:8;broker-b:8"
CASES = [
    Case("route.txt", "route payments", nodes=1, before=(ORDERED,)),
    Case("route.json", "route payments --json", nodes=1, before=(ORDERED,)),
    Case("route-static.txt", "route shipments", nodes=1),
    Case("route-unknown.txt", "route paymets", exit_code=1, nodes=1),
    Case("route-all-nodes.txt", "route returns --all-nodes", exit_code=1),
    Case("route-all-nodes.json", "route returns --all-nodes --json", exit_code=1),
    Case("topics.txt", "topics", nodes=1),
    Case("topics.json", "topics --cluster Edge --json", nodes=1),
    Case("topics-routes.txt", "topics --routes", nodes=1, before=("drain broker-b",)),
    Case("topics-add.txt", "topics add news --broker broker-a --broker broker-b --perm r"),
    Case("topics-add.json", "topics add news --broker edge-1 --broker edge-2 --json", exit_code=1),
    Case("topics-delete.txt", "topics delete orders --yes"),
    Case("topics-delete-question.txt", "topics delete orders", exit_code=1, answers="n\n"),
    Case("brokers.txt", "brokers", nodes=1),
    Case("brokers-topics.txt", "brokers edge-1 --topics", nodes=1),
    Case("brokers.json", "brokers broker-a --topics --json", nodes=1),
    Case("brokers-unknown.txt", "brokers broker-c", exit_code=1, nodes=1),
    Case("clusters.txt", "clusters --topics", nodes=1),
    Case("clusters.json", "clusters --json", nodes=1),
    Case("kv-put.txt", ORDERED),
    Case("kv-list.txt", "kv list ORDER_TOPIC_CONFIG", before=(ORDERED,)),
    Case("kv-list-differs.txt", "kv list settings"),
    Case("kv-list.json", "kv list settings --json"),
    Case("kv-get.txt", "kv get settings colour"),
    Case("kv-get.json", "kv get settings colour --json"),
    Case("kv-delete.txt", "kv delete settings colour", answers="y\n"),
    Case("kv-delete.json", "kv delete settings colour --yes --json"),
    Case("config-set.txt", "config set enableTopicList=false", exit_code=1),
    Case("config-set.json", "config set enableTopicList=false --json", exit_code=1),
    Case("drain.txt", "drain broker-a"),
    Case("drain.json", "drain broker-a --json"),
    Case("drain-no-wait.txt", "drain broker-a --no-wait"),
    Case("drain-ordered.txt", "drain broker-a", before=(ORDERED,)),
    Case("undrain.txt", "undrain broker-a", before=("drain broker-a",)),
]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """A shop: two groups, an edge cluster that lost its master, and nodes that differ a little."""
    with Fleet(tmp_path, order_message_enable=True) as fleet:
        topics = ["orders", "payments", "shipments"]
        for broker in (Broker(), Broker(broker_id=1, addr="10.0.0.2:10911")):
            mappings = {"shipments": mapping_info("shipments")}
            fleet.register(broker, topics, mappings=mappings, more={"__ZONE_NAME": "zone-1"})
        fleet.register(Broker("broker-b", addr="10.0.0.3:10911"), ["orders", "payments"])
        edge = Broker("edge-1", 1, "10.0.2.1:10911", "Edge", acting_master=True)
        fleet.register(edge, ["alarms", "sensors"])
        fleet.register(edge, ["alarms", "returns", "sensors"], on=fleet.ports[:1], counter=2)
        for port, colour in zip(fleet.ports, ("green", "red"), strict=True):
            for key, value in (("colour", colour), ("size", "large")):
                fleet.ask(port, raw.PUT_KV, namespace="settings", key=key, value=value)
        yield fleet


def printed(fleet: Fleet, case: Case) -> str:
    for command in case.before:
        assert fleet.run(*command.split()).exit_code == 0
    addresses = fleet.addresses[: case.nodes]
    words = case.command.split()
    ran = run_program(*words, namesrv_addr=";".join(addresses), answers=case.answers)
    assert ran.exit_code == case.exit_code, ran
    text = ran.stdout if case.name.endswith(".json") else _session(case, ran.stderr, ran.stdout)
    for real, shown in zip(fleet.addresses, ADDRESSES, strict=True):
        assert len(real) == len(shown)  # else the tables would have other widths
        text = text.replace(real, shown)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "2026-11-15T09:19:30.946Z", text)


def _session(case: Case, stderr: str, stdout: str) -> str:
    """What a terminal shows. Questions come before the output, all else on stderr after it."""
    command = f"$ routebook {case.command}\n".replace(
        "broker-a:8;broker-b:8", "'broker-a:8;broker-b:8'"
    )
    if case.answers is None:
        return command + stdout + stderr
    question, mark, rest = stderr.partition("[y/N]: ")
    return command + question + mark + case.answers + stdout + rest.removeprefix(case.answers)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_is_as_recorded(fleet: Fleet, case: Case, pytestconfig: pytest.Config) -> None:
    path = GOLDEN / case.name
    recorded = path.read_text() if path.exists() else ""
    now = printed(fleet, case)
    changes = "".join(
        difflib.unified_diff(recorded.splitlines(True), now.splitlines(True), path.name, "now")
    )
    if pytestconfig.getoption("--write-golden"):
        assert "CI" not in os.environ, "golden files are written and reviewed by people"
        GOLDEN.mkdir(parents=True, exist_ok=True)
        path.write_text(now)
        print(changes, end="")
        return
    assert now == recorded, changes


def test_every_recorded_file_has_its_case() -> None:
    assert sorted(path.name for path in GOLDEN.iterdir()) == sorted(case.name for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_document_shows_what_is_recorded(case: Case) -> None:
    language = "json" if case.name.endswith(".json") else "console"
    block = f"```{language}\n{(GOLDEN / case.name).read_text()}```\n"

    assert block in PAGES, f"docs/cli lacks:\n{block}"
