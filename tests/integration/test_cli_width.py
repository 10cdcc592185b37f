"""Tables on narrow terminals: columns go, times are shortened, and no word is ever broken."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from rich.console import Console

from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.main import cli
from support.brokers import Broker
from support.builders import mapping_info
from support.fleet import Fleet
from support.journal_folders import write_journal
from support.stories import Story

WIDTHS = (60, 80, 120)
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
INSTANT = re.compile(r"\d{4}-(\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z")
CHANGING = re.compile(r"[\d.,:/TZ-]+")  # numbers of bytes, milliseconds, connections, and now
BELOW = {"times", "of", "UTC", "not", "shown", "for", "want", "room:"}

LIVE = [
    "route payments-of-the-northern-branch",
    "route payments-of-the-northern-branch --all-nodes",
    "route shipments",
    "topics --routes",
    "brokers",
    "brokers --topics",
    "clusters --topics",
    "kv list settings",
    "kv put settings colour green",
    "config show --all-nodes",
    "config set enableTopicList=false",
    "drain broker-with-a-name-1 --within 0",
    "compare --settle 0",
    "doctor --no-probe --settle 0 --fail-on never",
    "health",
    "health --memory",
    "guard",
    "bench --seconds 0.05 --connections 1 --depth 1",
]
PAST = [
    "history route orders",
    "history diff --from 2026-11-15T03:13Z --to 2026-11-15T03:41Z",
    "history topic orders",
    "history broker broker-with-a-name",
    "history explain orders",
    "history compare",
    "journal stats",
    "journal verify",
]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes that do not say the same, of brokers whose names and addresses are long."""
    topics = ["orders", "payments-of-the-northern-branch", "shipments"]
    with Fleet(tmp_path_factory.mktemp("fleet"), order_message_enable=True) as fleet:
        for number in range(1, 4):
            broker = Broker(
                f"broker-with-a-name-{number}", addr=f"172.16.254.{number}0:10911", cluster="North"
            )
            mappings = {"shipments": mapping_info("shipments")} if number == 1 else None
            fleet.register(broker, topics, mappings=mappings, more={"__ZONE_NAME": "zone-1"})
        alone = Broker("broker-with-a-name-4", addr="172.16.254.40:10911", cluster="South")
        fleet.register(alone, ["returns", "refunds"], on=fleet.ports[:1])
        yield fleet


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two nodes, one of which lost a broker for a while."""
    folders = []
    for number, flaky in enumerate((True, False), 1):
        story = Story(awake=True, node=f"nameserver-{number}-0a1b2c3d").at("03:00:00").start()
        story.at("03:12:04").register("broker-with-a-name", topics=["orders", "payments"])
        story.at("03:12:05").register("broker-with-a-name-2", topics=["orders"])
        story.at("03:20:00").heartbeats("broker-with-a-name", gaps_s=(30, 95))
        story.at("03:25:00").set_writable(
            "broker-with-a-name-2", writable=False, peer="10.0.0.9:51234"
        )
        if flaky:
            story.at("03:30:11").lose("broker-with-a-name")
            story.at("03:40:41").register("broker-with-a-name", topics=["orders", "payments"])
        story.at("03:50:00").heartbeats("broker-with-a-name-2")
        folders.append(write_journal(tmp_path_factory.mktemp("journal"), story.records))
    return folders


def shown(words: list[str], namesrv_addr: str | None, width: int | None) -> str:
    """What a terminal of that width shows; None: what a file gets."""
    terminal = {} if width is None else {"FORCE_COLOR": "1", "COLUMNS": str(width)}
    environment = {"NAMESRV_ADDR": namesrv_addr, **terminal}
    ran = CliRunner(env=environment).invoke(cli, words, prog_name="routebook")
    assert ran.exit_code in (0, 1), ran.output
    return COLOURS.sub("", ran.stdout)


def pieces(text: str) -> set[str]:
    """All words, and times as they are shortened."""
    found = set(text.split())
    for day, time in INSTANT.findall(text):
        found |= {day, time}
    return found


def check(words: list[str], namesrv_addr: str | None = None) -> None:
    wide = pieces(shown(words, namesrv_addr, None))
    for width in WIDTHS:
        narrow = shown(words, namesrv_addr, width)
        assert max(map(cell_len, narrow.splitlines())) <= width
        told = pieces("\n".join(line for line in narrow.splitlines() if "──" not in line))
        broken = {word for word in told - wide if word.rstrip(",;") not in wide | BELOW}
        wider = " ".join(word for word in wide if cell_len(word) > width)  # has to be cut
        broken = {w for w in broken if not CHANGING.fullmatch(w) and w not in wider}
        assert not broken, f"{width} columns\n{narrow}"


@pytest.mark.parametrize("words", LIVE)
def test_no_word_of_a_table_about_now_is_broken(fleet: Fleet, words: str) -> None:
    one = words.split()[0] in ("route", "topics", "brokers", "clusters") and "--all" not in words
    check(words.split(), fleet.addresses[0] if one else ";".join(fleet.addresses))


@pytest.mark.parametrize("words", PAST)
def test_no_word_of_a_table_about_the_past_is_broken(journals: list[Path], words: str) -> None:
    several = words == "history compare"
    folders = [part for folder in journals for part in ("--journal", str(folder))]
    check([*words.split(), *(folders if several else folders[:2])])


def test_health_fits_a_usual_terminal_as_a_table(fleet: Fleet) -> None:
    lines = shown(["health"], ";".join(fleet.addresses), 80).splitlines()

    assert lines[0].split()[:1] == ["node"]
    assert [line.split()[0] for line in lines[2:4]] == fleet.addresses
    assert lines[-1].startswith("not shown for want of room: synced")


# -- the layout itself


def drawn(width: int, *columns: Column[dict[str, object]], rows: list[dict[str, object]]) -> str:
    console = Console(width=width, record=True, highlight=False)
    with console.capture() as captured:
        console.print(table_of(columns, rows))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def column(name: str, kind: Kind = Kind.NAME, drop: int | None = None) -> Column[dict[str, object]]:
    return Column(name, name, lambda row: row[name], kind=kind, drop=drop)


MIDNIGHT_MS = 1_794_700_800_000  # 2026-11-15T00:00:00Z


def test_times_are_shortened_before_anything_goes() -> None:
    columns = (column("from", Kind.MOMENT), column("broker", drop=1))
    row = {"from": MIDNIGHT_MS + 3_000, "broker": "broker-a"}

    assert drawn(30, *columns, rows=[row]).splitlines()[2] == "2026-11-15T00:00:03Z  broker-a"
    assert drawn(29, *columns, rows=[row]).splitlines()[2:] == [
        "00:00:03  broker-a",
        "times of 2026-11-15, UTC",
    ]
    later = {"from": MIDNIGHT_MS + 90_000_000, "broker": "broker-a"}
    assert drawn(29, *columns, rows=[row, later]).splitlines()[3] == "11-16 01:00:00  broker-a"


def test_columns_that_say_nothing_go_before_those_that_do() -> None:
    columns = (column("a"), column("b", drop=1), column("c"))
    rows: list[dict[str, object]] = [{"a": "aaaa", "b": "bbbb", "c": None}]

    assert drawn(14, *columns, rows=rows).splitlines()[2] == "aaaa  bbbb  –"
    assert drawn(12, *columns, rows=rows).splitlines()[2:] == ["aaaa  bbbb"]
    assert drawn(9, *columns, rows=rows).splitlines()[2] == "aaaa"


def test_a_table_that_cannot_be_narrower_is_a_list() -> None:
    columns = (column("address"), column("why", Kind.PROSE), column("zone"))
    why = "nobody has heard of it"
    rows: list[dict[str, object]] = [
        {"address": "172.16.254.10:10911", "why": why, "zone": None},
        {"address": "172.16.254.20:10911", "why": "ok", "zone": "z"},
    ]

    assert drawn(30, *columns, rows=rows).splitlines() == [
        "address  172.16.254.10:10911",
        "why      nobody has heard of",
        "         it",
        "",
        "address  172.16.254.20:10911",
        "why      ok",
        "zone     z",
    ]
    assert drawn(20, *columns, rows=rows).splitlines()[:3] == [
        "address",
        "172.16.254.10:10911",
        "why      nobody has",
    ]


def test_a_value_too_wide_for_its_column_is_below_its_row() -> None:
    columns = (column("key"), column("value", Kind.VALUE))
    rows: list[dict[str, object]] = [
        {"key": "paths", "value": "/home/namesrv/kvConfig.json"},
        {"key": "port", "value": "9876"},
    ]

    assert drawn(30, *columns, rows=rows).splitlines() == [
        "key    value",
        "──────────────────────────────",
        "paths",
        "  /home/namesrv/kvConfig.json",
        "port   9876",
    ]


def test_a_word_wider_than_the_terminal_is_the_only_one_that_is_cut() -> None:
    assert drawn(5, column("a"), rows=[{"a": "abcdefgh"}]).splitlines()[-2:] == ["abcde", "fgh"]


def test_wide_characters_count_twice() -> None:
    lines = drawn(40, column("a"), column("b"), rows=[{"a": "订单", "b": "x"}]).splitlines()

    assert lines == ["a     b", "───────", "订单  x"]
