"""What ``routebook history`` says of nodes that were stopped, killed and restarted meanwhile.

Three real nodes and three brokers live through one bad day, once; then questions are asked about
it. The day: ns-3 is frozen while a fourth broker comes, which registers with the others only; ns-2
is killed and started again; ns-1 is restarted in order.
"""

import json
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from routebook.cli.main import cli
from routebook.events import JournalRecovered, NodeStalled, RegistrationCompleted
from routebook.journal.alive import find_alive
from routebook.testing import Workbench
from routebook.words import exact
from support.memories import events_of, records
from support.nodes import NodeProcess
from support.waiting import wait_for

BROKERS = ("broker-a", "broker-b", "broker-c")
FROZEN_S = 2.5


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def spare_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Day:
    nodes: list[NodeProcess]
    stall: NodeStalled | None = None
    killed: JournalRecovered | None = None
    times_ms: dict[str, int] = field(default_factory=dict)

    def folder(self, number: int) -> Path:
        return self.nodes[number - 1].data_dir / "journal"

    @property
    def folders(self) -> list[str]:
        return [word for n in (1, 2, 3) for word in ("--journal", str(self.folder(n)))]

    @property
    def addresses(self) -> str:
        return ";".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def note(self, what: str) -> None:
        self.times_ms[what] = now_ms()


def all_known(day: Day, number: int, count: int) -> None:
    """Wait until the node has written so many complete registrations."""
    wait_for(
        "registrations",
        lambda: len(events_of(day.folder(number), RegistrationCompleted)),
        until=lambda found: found >= count,
    )


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    folder = tmp_path_factory.mktemp("day")
    nodes = [
        NodeProcess(
            folder / f"ns-{number}",
            *("--listen-port", str(spare_port()), "--journal-window-seconds", "1"),
        )
        for number in (1, 2, 3)
    ]
    with nodes[0], nodes[1], nodes[2], Workbench(folder / "brokers") as bench:
        day = Day(nodes)
        brokers = [
            bench.broker(name, topics=["orders"], nameservers=day.addresses, heartbeat_s=0.5)
            for name in BROKERS
        ]
        for number in (1, 2, 3):
            all_known(day, number, 3)
        _freeze(day, bench)
        _kill(day)
        day.note("before the restart")
        nodes[0].stop()
        nodes[0].start()
        all_known(day, 1, len(brokers) + 2)
        day.note("end")
        wait_for("a record after the end", lambda: _last_ms(day), until=lambda last: last > 0)
        yield day


def _last_ms(day: Day) -> int:
    """When the last of the nodes wrote something, if all did since the end."""
    last = min(records(day.folder(number))[-1].wall_ms for number in (1, 2, 3))
    return last if last > day.times_ms["end"] else 0


def _freeze(day: Day, bench: Workbench) -> None:
    node = day.nodes[2]
    node.signal(signal.SIGSTOP)
    day.note("frozen")
    try:
        bench.broker("broker-d", topics=["orders"], nameservers=day.addresses.rpartition(";")[0])
        time.sleep(FROZEN_S)
    finally:
        day.note("woken")
        node.signal(signal.SIGCONT)
    day.stall = wait_for(
        "the stall",
        lambda: [s for s in events_of(day.folder(3), NodeStalled) if s.longest_ms > 2000],
        until=bool,
    )[-1]


def _kill(day: Day) -> None:
    last = records(day.folder(2))[-1]
    wait_for(
        "a sign of life",
        lambda: find_alive(day.folder(2)),
        until=lambda alive: alive is not None and alive.wall_ms > last.wall_ms,
    )
    day.nodes[1].kill()
    day.note("killed")
    time.sleep(4)  # longer than signs of life are apart
    day.nodes[1].start()
    [day.killed] = wait_for("it", lambda: events_of(day.folder(2), JournalRecovered), until=bool)


def ask(*words: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    ran = CliRunner().invoke(cli, ["history", *words], env=env)
    assert ran.exception is None or isinstance(ran.exception, SystemExit)
    return ran.exit_code, ran.stdout, ran.stderr


def document(*words: str) -> dict[str, Any]:
    _, told, said = ask(*words, "--json")
    assert told, said
    found: dict[str, Any] = json.loads(told)
    return found


def route(day: Day, number: int, at_ms: int) -> dict[str, Any]:
    words = ("route", "orders", "--at", exact(at_ms), "--journal", str(day.folder(number)))
    [node] = document(*words)["nodes"]
    assert isinstance(node, dict)
    return node


def test_while_it_was_frozen_a_node_told_nobody_anything(day: Day) -> None:
    assert day.stall is not None
    middle_ms = (day.times_ms["frozen"] + day.times_ms["woken"]) // 2
    assert route(day, 3, middle_ms)["told"] == "stalled"
    assert route(day, 1, middle_ms)["told"] == "route"
    _, told, _ = ask("explain", "broker-a", "--journal", str(day.folder(3)))
    assert "the node listened to nobody from" in told
    assert "left" not in told


def test_a_killed_node_stopped_at_some_moment_after_its_last_sign_of_life(day: Day) -> None:
    assert day.killed is not None
    assert day.killed.alive_ms is not None
    alive_ms = day.killed.alive_ms
    assert route(day, 2, alive_ms - 1)["told"] == "route"
    guessed = route(day, 2, alive_ms + 500)
    assert (guessed["told"], guessed["probably"]) == ("unknown", "route")
    assert "stopped at some moment after" in guessed["because"]
    later = route(day, 2, alive_ms + 3500)
    assert (later["told"], later["probably"]) == ("unknown", "down")
    _, told, _ = ask("explain", "broker-a", "--journal", str(day.folder(2)))
    assert "the node stopped at some moment after" in told
    assert "the node was down" not in told


def test_an_orderly_stop_is_known(day: Day) -> None:
    _, told, _ = ask("explain", "broker-a", "--journal", str(day.folder(1)))
    assert "the node was down." in told


def test_nodes_that_agree_and_share_a_clock_are_not_said_to_disagree(day: Day) -> None:
    answer = document("compare", *day.folders)
    assert [clock["offset_ms"] is not None for clock in answer["clocks"]] == [True, True]
    for clock in answer["clocks"]:
        assert abs(clock["offset_ms"]) <= clock["uncertainty_ms"]
    assert {each["reason"] for each in answer["unknown"]} == {"stalled", "killed", "stopped"}
    # The fourth broker never told ns-3 of itself: that is a disagreement.
    assert [broker["broker"] for broker in answer["brokers"]] == ["broker-d"]


def test_nodes_tell_of_their_past_from_a_state_on_also_after_a_restart(day: Day) -> None:
    for number in (1, 2, 3):
        one = f"127.0.0.1:{day.nodes[number - 1].port}"
        code, told, said = ask("route", "orders", "-n", one, "--json")
        assert (code, said) == (0, "")
        [node] = json.loads(told)["nodes"]
        [source] = json.loads(told)["sources"]
        assert (node["told"], node["partial"]) == ("route", False)
        assert (source["source"], source["partial"]) == (f"asked at {one}", None)
        brokers = [*BROKERS, "broker-d"] if number < 3 else [*BROKERS]
        assert [broker["broker"] for broker in node["brokers"]] == brokers
        for words in (["explain", "broker-a"], ["broker", "broker-b"], ["topic", "orders"]):
            code, told, said = ask(*words, "-n", one)
            assert (code, said) == (0, "")


def test_nodes_that_are_asked_are_not_said_to_disagree_either(day: Day) -> None:
    answer = document("compare", "-n", day.addresses)
    assert [clock["asked"] for clock in answer["clocks"]] == [True, True]
    assert answer["partial"] is False
    assert [broker["broker"] for broker in answer["brokers"]] == ["broker-d"]
    code, told, said = ask("compare", "-n", day.addresses)
    assert (code, said) == (0, "")
    assert "(asked for the time)" in told


def test_the_environment_says_whom_to_ask_before_a_local_journal(day: Day) -> None:
    one = f"127.0.0.1:{day.nodes[2].port}"
    local = {"ROUTEBOOK_DATA_DIR": str(day.nodes[0].data_dir)}
    code, told, said = ask("explain", "broker-a", env={**local, "NAMESRV_ADDR": one})
    assert code == 0
    assert told.splitlines()[0].endswith(f", asked at {one}")
    assert "NAMESRV_ADDR says which nodes are asked" in said
    code, told, said = ask("explain", "broker-a", env={**local, "NAMESRV_ADDR": ""})
    assert (code, said) == (0, "")
    assert told.splitlines()[0].endswith(f", journal {day.folder(1)}")
