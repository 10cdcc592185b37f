"""``routebook history`` over journal folders: what it prints, and how it ends."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from routebook.cli import progress
from routebook.cli.history import command
from routebook.events import StaticMapping
from routebook.journal.folder import ACTIVE, list_folder
from support.fleet import Ran, run_program
from support.journal_folders import write_journal
from support.night import FIRST, SECOND, TOPICS, night, nth
from support.stories import Story, ms


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sealed_at, snapshots_at = (nth(4), nth(9)), (nth(9),)
    return write_journal(
        tmp_path / "first", night().records, sealed_at=sealed_at, snapshots_at=snapshots_at
    )


def history(*words: str | Path, folders: tuple[Path, ...] = ()) -> Ran:
    journals = [part for folder in folders for part in ("--journal", str(folder))]
    return run_program("history", *map(str, words), *journals)


def text(ran: Ran) -> str:
    assert (ran.exit_code, ran.stderr) == (0, "")
    return ran.stdout


# -- route


def test_the_route_of_a_topic_is_shown_as_it_was(folder: Path) -> None:
    ran = history("route", "orders", "--at", "2026-11-15T03:30:00Z", folders=(folder,))
    assert text(ran) == (
        f"orders at {FIRST}, 2026-11-15T03:30:00Z\n"
        "\n"
        "cluster  broker    id  role    address         zone  confirmed\n"
        "──────────────────────────────────────────────────────────────\n"
        "c        broker-a   0  master  10.0.0.1:10911  –     yes\n"
        "c        broker-b   0  master  10.0.0.2:10911  –     yes\n"
        "\n"
        "broker    read  write  permission\n"
        "─────────────────────────────────\n"
        "broker-a     8      8  RW-\n"
        "broker-b     8      8  R--\n"
        "\n"
        f"So since 2026-11-15T03:25:00Z (record {nth(9)}): broker-b: permission RW- to R--.\n"
    )


def test_brokers_recovered_and_not_heard_of_are_marked(folder: Path) -> None:
    ran = history("route", "orders", "--at", "2026-11-15T03:51:02Z", folders=(folder,))
    assert [row[-1] for row in ran.rows[2:4]] == ["no", "no"]
    ran = history("route", "orders", "--at", "2026-11-15T03:51:04Z", folders=(folder,))
    assert [row[-1] for row in ran.rows[2:4]] == ["yes", "no"]
    assert ran.lines[-1].startswith("So since 2026-11-15T03:40:41Z")


@pytest.mark.parametrize(
    ("topic", "at", "told"),
    [
        (
            "t001",
            "2026-11-15T03:40:30Z",
            f"no route since 2026-11-15T03:40:11Z (record {nth(10)}): broker-a left: its connection"
            " was closed by the peer; t001 is on no other broker, so there is no route",
        ),
        (
            "payroll",
            "2026-11-15T03:40:30Z",
            "no route, it was never seen since the journal begins, at 2026-11-15T03:00:00Z",
        ),
        ("orders", "2026-11-15T03:50:30Z", "the node was down, since 2026-11-15T03:50:00Z"),
    ],
)
def test_where_there_was_no_route_it_is_said_why(
    folder: Path, topic: str, at: str, told: str
) -> None:
    ran = history("route", topic, "--at", at, folders=(folder,))
    assert (ran.exit_code, ran.stderr) == (1, "")
    assert ran.stdout == f"{topic} at {FIRST}, {at}: {told}\n"


@pytest.mark.parametrize("snapshots_at", [(), (2,), (4,), (5,)])
@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("03:20:00", "route"),
        ("03:49:59", "route"),
        ("03:50:00", "down"),
        ("03:50:59", "down"),
        ("03:51:00", "route"),
    ],
)
def test_while_the_node_was_down_clients_were_told_nothing(
    tmp_path: Path, snapshots_at: tuple[int, ...], at: str, told: str
) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:12:04").register()
    story.at("03:50:00").stop().at("03:51:00").start(recovering=True)
    folder = write_journal(tmp_path, story.records, sealed_at=(5,), snapshots_at=snapshots_at)
    ran = history("route", "orders", "--at", f"2026-11-15T{at}Z", "--json", folders=(folder,))
    assert ran.document["nodes"][0]["told"] == told


@pytest.mark.parametrize("snapshots_at", [(), (4,), (5,)])
@pytest.mark.parametrize("alive", [None, "03:50:43"])
@pytest.mark.parametrize(
    ("at", "told", "probably"),
    [
        ("03:49:59", "route", {None: None, "03:50:43": None}),
        ("03:50:00", "route", {None: None, "03:50:43": None}),
        ("03:50:43", "", {None: "route", "03:50:43": None}),
        ("03:50:46", "unknown", {None: "route", "03:50:43": "route"}),
        ("03:51:59", "unknown", {None: "route", "03:50:43": "down"}),
        ("03:52:01", "unknown", {None: "down", "03:50:43": "down"}),
        ("03:53:00", "route", {None: None, "03:50:43": None}),
    ],
)
def test_after_its_last_sign_of_life_what_a_killed_node_told_is_a_guess(
    tmp_path: Path,
    snapshots_at: tuple[int, ...],
    alive: str | None,
    at: str,
    told: str,
    probably: dict[str | None, str | None],
) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:12:04").register()
    story.at("03:50:00").heartbeats().be_killed(down_s=180, alive=alive)
    folder = write_journal(tmp_path, story.records, snapshots_at=snapshots_at)
    ran = history("route", "orders", "--at", f"2026-11-15T{at}Z", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    expected = told or ("route" if alive else "unknown")
    assert (node["told"], node["probably"]) == (expected, probably[alive])
    if expected == "unknown":
        since = alive or "03:50:00"
        sign = ", its last sign of life" if alive else ""
        assert node["since"] == f"2026-11-15T{since}Z"
        assert node["because"] == (
            "no record between 03:50:00Z and 03:53:00Z: the node stopped at some moment after"
            f" {since}Z{sign}, and not in order."
        )
        assert node["believed"]
    assert node["brokers"][0]["broker"] == "broker-a"


def test_a_guess_says_that_it_is_one(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:01:00").register()
    story.be_killed(down_s=180, alive="03:01:20")
    folder = write_journal(tmp_path, story.records)
    ran = history("route", "orders", "--at", "2026-11-15T03:01:21Z", folders=(folder,))
    assert ran.exit_code == 0
    assert ran.lines[:3] == [
        f"orders at {FIRST}, 2026-11-15T03:01:21Z: probably the route it had, because no record"
        " between 03:01:00Z and 03:04:00Z: the node stopped at some moment after 03:01:20Z, its"
        " last sign of life, and not in order",
        "",
        "what was told before, and probably still then:",
    ]
    ran = history("route", "orders", "--at", "2026-11-15T03:02:00Z", folders=(folder,))
    assert ran.exit_code == 1
    assert ": probably nothing, because no record between" in ran.lines[0]
    ran = history("route", "payroll", "--at", "2026-11-15T03:01:21Z", folders=(folder,))
    assert ": probably that there is no route, because no record" in ran.lines[0]


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ("03:10:00", "route"),
        ("03:10:01", "stalled"),
        ("03:11:30", "stalled"),
        ("03:12:15", "route"),
    ],
)
def test_inside_a_stall_nobody_was_told_anything(tmp_path: Path, at: str, told: str) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:01:00").register()
    story.at("03:10:00").stall(since="03:10:00", until="03:12:15")
    folder = write_journal(tmp_path, story.at("03:20:00").heartbeats().records)
    words = ("route", "orders", "--at", f"2026-11-15T{at}Z")
    [node] = history(*words, "--json", folders=(folder,)).document["nodes"]
    assert (node["told"], node["believed"]) == (told, told == "stalled")
    assert [broker["broker"] for broker in node["brokers"]] == ["broker-a"]
    ran = history(*words, folders=(folder,))
    assert ran.exit_code == (told == "stalled")
    if told == "stalled":
        assert ran.lines[:3] == [
            f"orders at {FIRST}, 2026-11-15T{at}Z: nothing was told to anybody, the node listened"
            " to nobody from 2026-11-15T03:10:00Z to 2026-11-15T03:12:15Z",
            "",
            "what it believed:",
        ]


def test_a_stall_is_one_although_a_broker_was_heard_before_it_was_noticed(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:10:00")
    story.now_ms += 200_000
    story.register().stall(since="03:10:00", until="03:13:20")
    folder = write_journal(tmp_path, story.at("03:20:00").heartbeats().records)
    words = ("--at", "2026-11-15T03:11:30Z", "--json")
    [node] = history("route", "orders", *words, folders=(folder,)).document["nodes"]
    assert (node["told"], node["brokers"]) == ("stalled", [])


def test_a_node_that_lists_nobody_may_be_quiet(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:10:00")
    story.now_ms += 200_000
    folder = write_journal(tmp_path, story.register().records)
    words = ("diff", "--from", "2026-11-15T03:11:30Z", "--to", "2026-11-15T03:13:20Z", "--json")
    [node] = history(*words, folders=(folder,)).document["nodes"]
    assert (node["known"], node["doubts"]) == (True, [])


def test_where_nothing_was_recorded_for_long_nothing_is_claimed(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:10:00").register()
    story.now_ms += 7_200_000
    folder = write_journal(tmp_path, story.heartbeats().records)
    words = ("route", "orders", "--at", "2026-11-15T04:10:00Z")
    [node] = history(*words, "--json", folders=(folder,)).document["nodes"]
    assert (node["told"], node["probably"]) == ("unknown", None)
    assert (
        ": not known, no record between 03:10:00Z and 05:10:00Z, although brokers"
        in (history(*words, folders=(folder,)).lines[0])
    )


@pytest.mark.parametrize(
    ("at", "told", "probably"),
    [("03:15:43", "route", None), ("03:15:46", "route", None), ("03:15:47", "unknown", "down")],
)
def test_a_node_that_was_killed_and_not_started_again_left_a_sign_of_life(
    tmp_path: Path, at: str, told: str, probably: str | None
) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:15:00").register()
    folder = write_journal(tmp_path, story.records)
    sign = b'{"v":1,"seq":%d,"wall_ms":%d,"mono_ms":7}' % (story.records[-1].seq, ms("03:15:43"))
    (folder / "alive.json").write_bytes(sign)
    ran = history("route", "orders", "--at", f"2026-11-15T{at}Z", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    assert (node["told"], node["probably"]) == (told, probably)


@pytest.mark.parametrize(("at", "told"), [("03:19:59", "route"), ("03:20:03", "unknown")])
def test_while_records_were_lost_nothing_is_known(tmp_path: Path, at: str, told: str) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:12:04").register()
    story.at("03:20:05").lose_records(7, since="03:20:00")
    folder = write_journal(tmp_path, story.records)
    ran = history("route", "orders", "--at", f"2026-11-15T{at}Z", "--json", folders=(folder,))
    assert ran.document["nodes"][0]["told"] == told


def test_records_are_lost_although_the_clock_was_set_back_meanwhile(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:12:04").register()
    story.now_ms, story.clock_ahead_ms = ms("03:13:30"), -5000
    story.lose_records(7, since="03:12:30")
    folder = write_journal(tmp_path, story.records, sealed_at=(story.records[-1].seq,))
    words = ("--at", "2026-11-15T03:13:00Z", "--json")
    ran = history("route", "orders", *words, folders=(folder,))
    assert ran.document["nodes"][0]["told"] == "unknown"


def test_each_node_answers_for_itself(folder: Path, tmp_path: Path) -> None:
    second = write_journal(tmp_path / "second", night(SECOND, flaky=False).records)
    ran = history("route", "t001", "--at", "2026-11-15T03:40:30Z", folders=(folder, second))
    assert ran.exit_code == 0
    assert ran.lines[0].startswith(f"t001 at {FIRST}, 2026-11-15T03:40:30Z: no route since")
    assert ran.lines[2] == f"t001 at {SECOND}, 2026-11-15T03:40:30Z"


def test_a_route_for_programs(folder: Path) -> None:
    ran = history("route", "orders", "--at", f"seq:{nth(9)}", "--json", folders=(folder,))
    document = ran.document
    assert document["at"] == f"sequence number {nth(9)}"
    [node] = document["nodes"]
    assert {k: node[k] for k in ("node", "told", "since", "since_seq", "why", "partial")} == {
        "node": FIRST,
        "told": "route",
        "since": "2026-11-15T03:25:00Z",
        "since_seq": nth(9),
        "why": None,
        "partial": False,
    }
    assert node["brokers"][1] == {
        "cluster": "c",
        "broker": "broker-b",
        "addresses": {"0": "10.0.0.2:10911"},
        "acting_master": False,
        "zone": None,
        "unconfirmed": [],
    }
    assert node["queues"][1] == {
        "broker": "broker-b",
        "read": 8,
        "write": 8,
        "perm": 4,
        "permission": "R--",
        "sys_flag": 0,
    }


def test_static_mappings_are_part_of_a_route(tmp_path: Path) -> None:
    mapping = StaticMapping("orders", "broker-a", 4, 1, "__global__", False, ((0, 0), (2, 1)))
    story = Story(awake=True).start().at("03:12:04").register(mappings=(mapping,))
    folder = write_journal(tmp_path, story.records)

    ran = history("route", "orders", folders=(folder,))
    [node] = history("route", "orders", "--json", folders=(folder,)).document["nodes"]

    assert "broker-a  __global__              4      1  0 2" in ran.lines
    assert node["mappings"] == {
        "broker-a": {
            "scope": "__global__",
            "total_queues": 4,
            "epoch": 1,
            "queues": {"0": 0, "2": 1},
        }
    }


def test_absence_for_programs_has_a_reason(folder: Path) -> None:
    ran = history("route", "payroll", "--at", "2026-11-15T03:55Z", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    assert ran.exit_code == 1
    assert (node["told"], node["brokers"], node["since"]) == ("none", [], None)
    assert node["why"].startswith("no route, it was never seen")


def test_a_journal_without_its_beginning_claims_no_route(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:00:10").register()
    story.at("03:00:20").register("broker-b").at("03:00:30").heartbeats()
    folder = write_journal(tmp_path, story.records, sealed_at=(4,))
    gone = list_folder(folder).sealed[0]
    (folder / gone.packed).unlink()
    (folder / gone.manifest).unlink()
    words = ("route", "orders", "--at", "2026-11-15T03:00:25Z")
    [node] = history(*words, "--json", folders=(folder,)).document["nodes"]
    assert (node["told"], node["partial"], node["believed"]) == ("unknown", True, True)
    assert [broker["broker"] for broker in node["brokers"]] == ["broker-b"]
    ran = history(*words, folders=(folder,))
    assert ran.lines[0].endswith(
        "not known for sure, what was before the first record, at 2026-11-15T03:00:20Z, is missing"
    )
    assert ran.lines[2] == "what is known of it, and there may be more:"
    ran = history("topic", "orders", "--json", folders=(folder,))
    assert [version["told"] for version in ran.document["nodes"][0]["versions"]] == ["unknown"]


# -- diff


def test_a_broker_that_went_is_one_line_whatever_it_held(folder: Path) -> None:
    ran = history(
        "diff", "--from", "2026-11-15T03:20Z", "--to", "2026-11-15T03:40:30Z", folders=(folder,)
    )
    assert text(ran).replace("─", "").splitlines() == [
        f"{FIRST}, from 2026-11-15T03:20:00Z to 2026-11-15T03:40:30Z",
        "",
        "cluster  broker    change   members                topics  what",
        "",
        "c        broker-a  went     id 0 (10.0.0.1:10911)     120",
        "c        broker-b  changed                              2  permission RW- to R--: 2 topics"
        " (orders and payments)",
        "",
        "118 topics went: t000, t001, t002 and 115 more",
    ]


@pytest.mark.parametrize(
    ("words", "brokers"),
    [
        (["--topic", "payments"], ["broker-a", "broker-b"]),
        (["--topic", "t001"], ["broker-a"]),
        (["--broker", "broker-b"], ["broker-b"]),
    ],
)
def test_a_diff_may_be_about_a_topic_or_a_broker(
    folder: Path, words: list[str], brokers: list[str]
) -> None:
    ran = history(
        "diff", "--from", str(nth(7)), "--to", str(nth(10)), *words, "--json", folders=(folder,)
    )
    [node] = ran.document["nodes"]
    assert [each["broker"] for each in node["brokers"]] == brokers


def test_a_diff_for_programs_counts_and_gives_examples(folder: Path) -> None:
    ran = history("diff", "--from", str(nth(7)), "--to", str(nth(10)), "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    went, changed = node["brokers"]
    assert (went["change"], went["topics"], went["details"]) == (
        "went",
        120,
        ["id 0 (10.0.0.1:10911)"],
    )
    assert changed["queues"] == [
        {"what": "permission RW- to R--", "topics": 2, "examples": ["orders", "payments"]}
    ]
    assert len(node["topics_went"]) == 118


@pytest.mark.parametrize("snapshots_at", [(), (3,), (9,), (4, 9, 12)])
@pytest.mark.parametrize(("begin", "end"), [(4, 9), (5, 13), (9, 10), (10, 4)])
def test_a_diff_does_not_depend_on_snapshots(
    folder: Path, tmp_path: Path, snapshots_at: tuple[int, ...], begin: int, end: int
) -> None:
    snapshots = tuple(map(nth, snapshots_at))
    other = write_journal(tmp_path / "other", night().records, snapshots_at=snapshots)
    words = ("diff", "--from", str(nth(begin)), "--to", str(nth(end)), "--json")
    one, two = (history(*words, folders=(each,)).document for each in (other, folder))
    assert one["nodes"] == two["nodes"]


def test_a_diff_backwards_is_the_other_way_round(folder: Path) -> None:
    ran = history("diff", "--from", str(nth(10)), "--to", str(nth(9)), "--json", folders=(folder,))
    [broker] = ran.document["nodes"][0]["brokers"]
    assert (broker["broker"], broker["change"]) == ("broker-a", "came")


def test_no_difference_is_said(folder: Path) -> None:
    assert "no difference" in text(history("diff", "--from", "9", "--to", "9", folders=(folder,)))


def test_a_diff_from_a_time_nobody_knows_says_so(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:01:00").register()
    story.at("03:10:00").stall(since="03:10:00", until="03:12:15").register("broker-b")
    folder = write_journal(tmp_path, story.at("03:20:00").heartbeats().records)
    words = ("diff", "--from", "2026-11-15T03:11Z", "--to", "2026-11-15T03:20Z")
    doubt = (
        "2026-11-15T03:11:00Z: the node listened to nobody from 2026-11-15T03:10:00Z to"
        " 2026-11-15T03:12:15Z."
    )
    assert doubt in history(*words, folders=(folder,)).lines
    [node] = history(*words, "--json", folders=(folder,)).document["nodes"]
    assert (node["known"], node["doubts"]) == (True, [doubt])
    assert [broker["broker"] for broker in node["brokers"]] == ["broker-b"]


def test_after_missing_records_a_diff_claims_nothing(tmp_path: Path) -> None:
    story = Story(awake=True).at("03:00:00").start().at("03:00:10").register()
    story.at("03:00:20").register("broker-b").at("03:00:30").register("broker-c")
    folder = write_journal(tmp_path, story.records, sealed_at=(4, 7))
    gone = list_folder(folder).sealed[1]
    (folder / gone.packed).unlink()
    (folder / gone.manifest).unlink()
    ran = history("diff", "--from", "4", "--to", "10", folders=(folder,))
    assert ran.lines[-1] == (
        "not known: records are missing, and the node did not state its tables since"
    )
    ran = history("diff", "--from", "4", "--to", "10", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    assert (node["known"], node["brokers"], node["topics_came"]) == (False, [], [])


# -- topic


def test_all_versions_of_a_topic_are_listed_with_their_causes(folder: Path) -> None:
    ran = history("topic", "t001", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    assert [
        (v["valid_from"], v["valid_to"], v["told"], v["cause"], v["peer"]) for v in node["versions"]
    ] == [
        ("2026-11-15T03:00:00Z", "2026-11-15T03:12:04Z", "none", None, None),
        ("2026-11-15T03:12:04Z", "2026-11-15T03:40:11Z", "route", "register", "10.0.0.1:40112"),
        (
            "2026-11-15T03:40:11Z",
            "2026-11-15T03:40:41Z",
            "none",
            "connection_closed",
            "10.0.0.1:40112",
        ),
        ("2026-11-15T03:40:41Z", "2026-11-15T03:50:00Z", "route", "register", "10.0.0.1:40112"),
        ("2026-11-15T03:50:00Z", "2026-11-15T03:51:00Z", "down", "stop", None),
        ("2026-11-15T03:51:00Z", None, "route", "start", None),
    ]
    table = history("topic", "t001", folders=(folder,))
    assert re.split(r" {2,}", table.lines[6]) == [
        "2026-11-15T03:40:11Z",
        "2026-11-15T03:40:41Z",
        "30 s",
        "–",
        "no route",
        "broker-a went",
        "connection_closed",
        "10.0.0.1:40112",
    ]


def test_versions_of_a_period_are_those_valid_in_it(folder: Path) -> None:
    ran = history(
        *("topic", "t001", "--json", "--from", "2026-11-15T03:40:20Z"),
        *("--to", "2026-11-15T03:45:00Z"),
        folders=(folder,),
    )
    [node] = ran.document["nodes"]
    assert [v["valid_from"][11:] for v in node["versions"]] == ["03:40:11Z", "03:40:41Z"]


# -- broker


def test_sessions_of_a_broker_are_listed(folder: Path) -> None:
    ran = history("broker", "broker-a", "--json", folders=(folder,))
    [node] = ran.document["nodes"]
    first, second = node["sessions"]
    assert first == {
        "cluster": "c",
        "broker_id": 0,
        "address": "10.0.0.1:10911",
        "from": "2026-11-15T03:12:04Z",
        "to": "2026-11-15T03:40:11Z",
        "lasted_ms": 1_687_000,
        "unseen_ms": 0,
        "began": "registered",
        "peer": "10.0.0.1:40112",
        "cause": "connection_closed",
        "ended": "its connection was closed by the peer",
        "connections": 1,
        "timeout_ms": 120_000,
        "heartbeats": {
            "count": 2,
            "median_gap_ms": 62_500,
            "longest_gap_ms": 95_000,
            "near_misses": 1,
        },
    }
    assert (second["to"], second["lasted_ms"], second["unseen_ms"]) == (None, 859_000, 60_000)
    assert node["silences"] == [
        {
            "from": "2026-11-15T03:50:00Z",
            "to": "2026-11-15T03:51:00Z",
            "reason": "stopped",
            "records_lost": 0,
            "text": "no record between 03:50:00Z and 03:51:00Z: the node was down.",
        }
    ]
    table = text(history("broker", "broker-a", folders=(folder,)))
    assert "28 min 7 s" in table
    assert "its connection was closed by the peer" in table


def test_conflicts_and_refusals_of_a_broker_are_told(tmp_path: Path) -> None:
    story = night()
    story.at("03:56:00").register(host=7, topics=TOPICS)
    story.at("03:57:00").register("broker-n", topics=["only-one"])
    folder = write_journal(tmp_path, story.records)

    assert "conflicts: 1\n2026-11-15T03:56:00Z conflict: 10.0.0.7:10911 and" in text(
        history("broker", "broker-a", folders=(folder,))
    )
    assert "refused requests: 1\n2026-11-15T03:57:00Z REGISTER_BROKER for c/broker-n:0" in text(
        history("broker", "broker-n", folders=(folder,))
    )


# -- explain


def test_a_broker_is_explained_sentence_by_sentence(folder: Path) -> None:
    assert text(history("explain", "broker-a", folders=(folder,))).splitlines() == [
        f"{FIRST}, journal {folder}",
        "2026-11-15",
        "03:12:04Z broker-a (10.0.0.1:10911, id 0, cluster c) registered from 10.0.0.1:40112 with"
        " 120 topics.",
        "03:20:00Z broker-a (10.0.0.1:10911, id 0, cluster c) was silent for 1 min 35 s, and leaves"
        " after 2 min.",
        "03:40:11Z broker-a left: its connection was closed by the peer; it had 120 topics.",
        "03:40:41Z broker-a came back after 30 s: 10.0.0.1:10911, id 0, cluster c, registered from"
        " 10.0.0.1:40112 with 120 topics.",
        "03:50:00Z node stopped in order, with 2 brokers and 120 topics.",
        "03:51:00Z no record between 03:50:00Z and 03:51:00Z: the node was down.",
        "03:51:00Z node restarted, 2 brokers recovered from the journal, broker-a confirmed 4 s"
        " later.",
    ]


def test_a_topic_is_explained_sentence_by_sentence(folder: Path) -> None:
    ran = history("explain", "t001", "--to", "2026-11-15T03:45:00Z", folders=(folder,))
    assert text(ran).splitlines() == [
        f"{FIRST}, journal {folder}",
        "2026-11-15",
        "03:12:04Z t001 appeared on broker-a with 8 read and 8 write queues, permission RW-, by a"
        " registration from 10.0.0.1:40112.",
        "03:40:11Z broker-a left: its connection was closed by the peer; t001 is on no other"
        " broker, so there is no route.",
        "03:40:41Z t001 came back after 30 s on broker-a with 8 read and 8 write queues, permission"
        " RW-, by a registration from 10.0.0.1:40112.",
    ]


def test_a_name_that_broker_and_topic_share_is_the_brokers_unless_told_otherwise(
    tmp_path: Path,
) -> None:
    story = Story(awake=True).start().at("03:12:04").register(topics=["broker-a", "orders"])
    folder = write_journal(tmp_path, story.records)
    assert history("explain", "broker-a", "--json", folders=(folder,)).document["kind"] == "broker"
    ran = history("explain", "broker-a", "--topic", "--json", folders=(folder,))
    assert ran.document["kind"] == "topic"
    assert ran.document["lines"][0]["text"].startswith("broker-a appeared on broker-a with 8 read")


def test_a_long_explanation_is_cut_to_its_last_lines(folder: Path) -> None:
    ran = history("explain", "broker-a", "--limit", "2", folders=(folder,))
    assert len(ran.lines) == 4
    assert ran.stderr == "5 earlier lines are left out; --limit 0 shows all.\n"
    assert len(history("explain", "broker-a", "--limit", "0", folders=(folder,)).lines) == 9


def test_several_nodes_are_explained_together(folder: Path, tmp_path: Path) -> None:
    second = write_journal(tmp_path / "second", night(SECOND, flaky=False).records)
    ran = history("explain", "broker-a", folders=(second, folder))
    assert [line.split(" ")[:2] for line in ran.lines[3:6]] == [
        ["03:12:04Z", f"{SECOND}:"],
        ["03:12:04Z", f"{FIRST}:"],
        ["03:20:00Z", f"{SECOND}:"],
    ]


# -- compare


@pytest.fixture
def both(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    return folder, write_journal(tmp_path / "second", night(SECOND, flaky=False).records)


def test_where_two_nodes_disagreed_is_shown(both: tuple[Path, Path]) -> None:
    ran = history("compare", folders=both)
    assert ran.lines[:5] == [
        f"{FIRST} and {SECOND} from 2026-11-15T03:00:00Z to 2026-11-15T03:55:00Z",
        f"clock of {SECOND}: taken to agree with that of {FIRST} within 2 s (2 registrations seen"
        " by both)",
        f"{FIRST}: no record between 03:50:00Z and 03:51:00Z: the node was down.",
        f"{SECOND}: no record between 03:50:00Z and 03:51:00Z: the node was down.",
        "",
    ]
    assert [re.split(r" {2,}", line) for line in ran.lines[7:]] == [
        [
            "broker-a",
            "2026-11-15T03:40:11Z",
            "2026-11-15T03:40:41Z",
            "30 s",
            "the broker",
            "none",
            "id 0 (10.0.0.1:10911), 120 topics",
            "converged",
        ]
    ]


def test_a_comparison_for_programs(both: tuple[Path, Path]) -> None:
    document = history("compare", "--topic", "t001", "--json", folders=both).document
    assert document["clocks"] == [
        {
            "node": SECOND,
            "from": "2026-11-15T03:00:00Z",
            "to": "2026-11-15T03:55:00Z",
            "offset_ms": 0,
            "uncertainty_ms": 2000,
            "samples": 2,
            "agreeing": 2,
            "assumed": True,
            "asked": False,
        }
    ]
    assert document["unknown"] == [
        {
            "node": node,
            "from": "2026-11-15T03:50:00Z",
            "to": "2026-11-15T03:51:00Z",
            "reason": "stopped",
        }
        for node in (FIRST, SECOND)
    ]
    assert (document["partial"], document["compared_ms"]) == (False, 54 * 60_000)
    [broker] = document["brokers"]
    assert (broker["cluster"], broker["broker"]) == ("c", "broker-a")
    assert broker["divergences"] == [
        {
            "from": "2026-11-15T03:40:11Z",
            "to": "2026-11-15T03:40:41Z",
            "lasted_ms": 30_000,
            "ended": "converged",
            "topics": 0,
            "examples": [],
            "views": {
                FIRST: None,
                SECOND: {"addresses": {"0": "10.0.0.1:10911"}, "topics": 1},
            },
        }
    ]


def test_nodes_that_agreed_are_said_to_have(folder: Path, tmp_path: Path) -> None:
    second = write_journal(tmp_path / "second", night(SECOND).records)
    assert text(history("compare", folders=(folder, second))).endswith(
        "\nthe nodes agreed wherever both are known\n"
    )


def test_a_comparison_may_be_of_a_period(both: tuple[Path, Path]) -> None:
    ran = history(
        *("compare", "--from", "2026-11-15T03:45Z", "--to", "2026-11-15T03:49Z"), folders=both
    )
    assert ran.lines[-1] == "the nodes agreed"


def test_a_clock_that_is_wrong_is_reported_and_allowed_for(tmp_path: Path) -> None:
    folders = []
    for node, ahead_ms in ((FIRST, 0), (SECOND, 600_000)):
        story = Story(awake=True, node=node, clock_ahead_ms=ahead_ms).at("03:00:00").start()
        for broker in ("broker-a", "broker-b", "broker-c"):
            story.at("03:12:04").register(broker, topics=TOPICS, version=1)
        story.at("03:40:11").lose().at("03:40:41").register(topics=TOPICS, version=1)
        folders.append(write_journal(tmp_path / node, story.at("03:45:00").heartbeats().records))

    ran = history("compare", folders=tuple(folders))

    assert ran.lines[1] == (
        f"clock of {SECOND}: 10 min ahead of that of {FIRST}, give or take 100 ms (4 registrations"
        " seen by both)"
    )
    assert ran.lines[-1] == "the nodes agreed"


def test_clocks_of_which_nothing_is_known_are_not_compared_by(tmp_path: Path) -> None:
    folders = []
    for node, broker in ((FIRST, "broker-a"), (SECOND, "broker-b")):
        story = Story(awake=True, node=node).at("03:00:00").start().at("03:12:04").register(broker)
        folders.append(write_journal(tmp_path / node, story.at("03:45:00").heartbeats().records))
    ran = history("compare", folders=tuple(folders))
    assert (ran.exit_code, ran.stderr) == (1, "")
    assert ran.lines[1:] == [
        f"clock of {SECOND}: not known against that of {FIRST}, nothing was surely seen by both;"
        " nothing is compared by it",
        "",
        "nothing can be compared: how far apart the clocks of the nodes are is not known",
    ]
    document = history("compare", "--json", folders=tuple(folders)).document
    assert (document["clocks"][0]["offset_ms"], document["brokers"]) == (None, [])


# -- the document


ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(
    r"```console\n\$ routebook history (.*?)\n(.*?)```",
    (ROOT / "docs" / "history.md").read_text(),
    re.DOTALL,
)


def test_the_document_has_an_example_of_each_command() -> None:
    assert {words.split()[0] for words, _ in EXAMPLES} == set(command.history.commands)


@pytest.mark.parametrize(("words", "shown"), EXAMPLES)
def test_the_document_shows_real_output(
    words: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_journal(tmp_path / "ns-1", night().records)
    write_journal(tmp_path / "ns-2", night(SECOND, flaky=False).records)
    assert history(*words.split()).stdout == shown


# -- bad input


def complaint(ran: Ran, exit_code: int) -> str:
    assert ran.exit_code == exit_code
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    return ran.stderr.splitlines()[-1]


COMMANDS: list[list[str]] = [
    ["route", "orders"],
    ["diff", "--from", "1"],
    ["topic", "orders"],
    ["broker", "broker-a"],
    ["explain", "orders"],
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_missing_folder_is_one_sentence(tmp_path: Path, words: list[str]) -> None:
    nowhere = tmp_path / "nowhere"
    assert complaint(history(*words, folders=(nowhere,)), 1) == (
        f"Error: cannot read the journal {nowhere}: No such file or directory"
    )


@pytest.mark.parametrize("words", COMMANDS)
def test_an_empty_folder_is_one_sentence(tmp_path: Path, words: list[str]) -> None:
    ran = history(*words, folders=(tmp_path,))
    assert complaint(ran, 1) == (
        f"Error: there is no journal in {tmp_path}; a node keeps it in the folder `journal` of its"
        " data folder (dataDir)"
    )


def test_the_data_folder_above_a_journal_is_taken_for_it_and_that_is_said(tmp_path: Path) -> None:
    folder = write_journal(tmp_path / "journal", night().records)
    words = ("route", "orders", "--at", "2026-11-15T03:30:00Z")
    ran = history(*words, folders=(tmp_path,))
    assert ran.exit_code == 0
    assert ran.stderr == f"Note: {tmp_path} is no journal; this is {folder}\n"
    assert ran.stdout == history(*words, folders=(folder,)).stdout


def test_the_default_folder_is_that_of_a_node_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROUTEBOOK_DATA_DIR", raising=False)
    write_journal(tmp_path / "namesrv" / "routebook" / "journal", night().records)
    assert history("route", "orders").exit_code == 0
    monkeypatch.setenv("ROUTEBOOK_DATA_DIR", str(tmp_path / "elsewhere"))
    assert "elsewhere/journal" in complaint(history("route", "orders"), 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["topic", "payroll"], "no route for payroll is known of"),
        (["broker", "gateway"], "no broker gateway is known of"),
        (["explain", "nobody"], "nothing about nobody is known of"),
    ],
)
def test_a_name_nobody_knows_is_one_sentence(folder: Path, words: list[str], sentence: str) -> None:
    assert complaint(history(*words, folders=(folder,)), 1) == (
        f"Error: {sentence} {FIRST} between 2026-11-15T03:00:00Z and 2026-11-15T03:55:00Z"
    )


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topic", "paymets"], "payments"),
        (["broker", "broker-c"], "broker-b or broker-a"),
        (["explain", "oders"], "orders"),
        (["explain", "brokr-a"], "broker-a or broker-b"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_right_one(
    folder: Path, words: list[str], meant: str
) -> None:
    told = complaint(history(*words, folders=(folder,)), 1)
    assert told.endswith(f"03:55:00Z; did you mean {meant}?")


@pytest.mark.parametrize(
    "words",
    [
        ["route", "orders", "--at", "2026-11-14"],
        ["diff", "--from", "2026-11-14"],
        ["topic", "orders", "--to", "2026-11-14"],
        ["broker", "broker-a", "--to", "2026-11-14"],
        ["explain", "orders", "--to", "2026-11-14"],
    ],
)
def test_a_moment_before_the_journal_is_told_when_it_begins(folder: Path, words: list[str]) -> None:
    assert complaint(history(*words, folders=(folder,)), 1) == (
        f"Error: 2026-11-14T00:00:00Z is too early: the journal of {FIRST} begins at"
        " 2026-11-15T03:00:00Z with number 1"
    )


def test_where_one_of_two_journals_begins_too_late_the_other_one_answers(
    folder: Path, tmp_path: Path
) -> None:
    late = Story(awake=True, node=SECOND).at("03:30:00").start().register()
    second = write_journal(tmp_path / "second", late.records)
    ran = history("route", "orders", "--at", "2026-11-15T03:20:00Z", folders=(folder, second))
    assert ran.exit_code == 1
    assert ran.lines[0] == f"orders at {FIRST}, 2026-11-15T03:20:00Z"
    assert ran.stderr == (
        f"Warning: 2026-11-15T03:20:00Z is too early: the journal of {SECOND} begins at"
        " 2026-11-15T03:30:00Z with number 1\n"
    )


def test_a_sequence_number_that_is_not_there_yet_is_refused(folder: Path) -> None:
    ran = history("route", "orders", "--at", "seq:999", folders=(folder,))
    assert complaint(ran, 1).startswith("Error: sequence number 999 is not there yet: the journal")


@pytest.mark.parametrize(
    "words",
    [
        ["route", "orders", "--at", "soon"],
        ["diff", "--from", "soon"],
        ["topic", "orders", "--from", "soon"],
        ["compare", "--to", "soon"],
    ],
)
def test_what_is_no_moment_is_wrong_usage(folder: Path, words: list[str]) -> None:
    assert "'soon' is no moment: it is not an ISO 8601 time; write" in complaint(
        history(*words, folders=(folder,)), 2
    )


def test_one_journal_cannot_be_compared(folder: Path) -> None:
    assert complaint(history("compare", folders=(folder,)), 2) == (
        "Error: give --journal at least twice, or -n with several nodes: one node agrees with"
        " itself"
    )
    assert complaint(history("compare", folders=(folder, folder)), 1) == (
        f"Error: the journals are of one node, {FIRST}: there is nothing to compare"
    )


def test_journals_are_compared_by_time_and_not_by_number(both: tuple[Path, Path]) -> None:
    assert complaint(history("compare", "--from", "seq:3", folders=both), 2) == (
        "Error: nodes have sequence numbers of their own: give times"
    )


def test_journals_without_a_common_time_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    late = Story(awake=True, node=SECOND).at("2026-11-17T03:30:00Z").start().register(version=99)
    second = write_journal(tmp_path / "second", late.records)
    assert complaint(history("compare", folders=(folder, second)), 1) == (
        f"Error: there is no time of which {FIRST} and {SECOND} both tell"
    )


def damaged(folder: Path) -> str:
    packed = folder / list_folder(folder).sealed[0].packed
    packed.write_bytes(packed.read_bytes()[:-30])
    return packed.name


@pytest.mark.parametrize("words", [["route", "orders", "--at", f"seq:{nth(7)}"], *COMMANDS[1:]])
def test_a_damaged_segment_is_named_and_the_rest_answers(folder: Path, words: list[str]) -> None:
    name = damaged(folder)
    ran = history(*words, folders=(folder,))
    assert ran.exit_code == 1
    assert ran.stdout
    assert ran.stderr.startswith(f"Warning: {FIRST}: {name} cannot be unpacked")


def test_damage_before_the_snapshot_that_was_enough_is_no_matter(folder: Path) -> None:
    damaged(folder)
    ran = history("route", "orders", folders=(folder,))
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_a_journal_of_a_newer_schema_is_refused_with_both_numbers(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != ACTIVE:
            path.unlink()
    content = (folder / ACTIVE).read_bytes()
    (folder / ACTIVE).write_bytes(content.replace(b'{"v":1,', b'{"v":7,'))
    assert complaint(history("route", "orders", folders=(folder,)), 1) == (
        "Error: schema version 7 was written by a newer Routebook; this one reads up to 1"
    )


def test_names_that_would_move_the_cursor_are_made_harmless(tmp_path: Path) -> None:
    nasty = "or\x1b[2Jders\nx"
    story = Story(awake=True).start().at("03:12:04").register(topics=[nasty, "orders"])
    folder = write_journal(tmp_path, story.records)
    for words in (["route", nasty], ["topic", nasty], ["explain", nasty], ["diff", "--from", "1"]):
        ran = history(*words, folders=(folder,))
        assert ran.exit_code == 0
        assert "\x1b" not in ran.stdout


# -- progress


class Clock:
    def __init__(self, step_s: float) -> None:
        self.now_s, self._step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self._step_s
        return self.now_s


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    drawn = io.StringIO()
    screen = Console(file=drawn, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "console", lambda stderr: screen)
    return drawn


@pytest.mark.parametrize(("step_s", "shown"), [(0.0001, False), (1.1, True)])
def test_a_bar_is_drawn_when_it_takes_longer_than_a_second(
    folder: Path, terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch, step_s: float, shown: bool
) -> None:
    monkeypatch.setattr(command, "monotonic", Clock(step_s))
    history("topic", "orders", folders=(folder,))
    assert (FIRST in terminal.getvalue()) is shown


def test_it_runs_as_a_program(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "routebook", "history", "explain", "t001", "--journal", folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"{FIRST}, journal {folder}\n2026-11-15\n03:12:04Z t001 appeared")
