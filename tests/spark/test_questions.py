"""Questions at scale: the same answers as the tables of a node, replayed to the moment."""

import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from routebook.events import (
    BrokerRegistered,
    Cause,
    Event,
    NodeStalled,
    RouteQueries,
)
from routebook.history.telling.sentences import Context
from routebook.history.telling.sentences import sentence as told_by_history
from routebook.history.telling.timeline import is_worth_telling
from routebook.journal.folder import Span, list_folder
from routebook.journal.reader import read
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.testing import Workbench
from routebook_spark.answers.events import event_column
from routebook_spark.answers.telling import told
from routebook_spark.commands.main import spark as command
from routebook_spark.questions import BadTime, NoSuchTable, Routebook
from routebook_spark.tables import Lake
from support.as_of_answers import answered, asked_frame, time, topics_of
from support.as_of_reference import known_at, sampled
from support.journals import NODE, every_event, record
from support.small_spark import environment
from support.spark_histories import events_frame, histories, lost_spans, without, write_journals
from support.spark_lakes import build_lake
from support.stories import Story, ms

GOLDEN = Path(__file__).parents[1] / "golden" / "journal" / "v1" / "journal"
EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLES = 300
NIGHT, OTHER_NIGHT = "a-1", "a-2"
SLEEPER, OTHER_FLEET = "s-1", "other"
TOPICS = [f"t{number:03}" for number in range(118)] + ["orders", "payments"]
MINUTE_MS = 60_000


def night(node: str, *, flaky: bool, clock_ahead_ms: int = 0) -> list[Record]:
    """One node loses a broker for half a minute, the other does not."""
    story = Story(node=node, clock_ahead_ms=clock_ahead_ms).at("03:00:00").start()
    for number in range(4):
        story.at(f"03:01:0{number}").register("night-c", topics=["steady", "night-c"])
    story.at("03:12:04").register("night-a", topics=TOPICS, version=1)
    story.at("03:12:05").register("night-b", version=1)
    story.at("03:20:00").heartbeats("night-a", gaps_s=(30, 95))
    story.at("03:25:00").set_writable("night-b", writable=False, peer="10.0.0.9:51234")
    if flaky:
        story.at("03:40:11").lose("night-a")
        story.at("03:40:41").register("night-a", topics=TOPICS, version=1)
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)
    story.at("03:51:04").confirm("night-a")
    return awake(story.at("03:55:00").heartbeats("night-b", host=2).records)


def awake(records: Sequence[Record]) -> list[Record]:
    """The same of a node that says once a minute that nothing was asked."""
    told = [records[0]]
    for each in records[1:]:
        while each.wall_ms - told[-1].wall_ms > MINUTE_MS:
            told.append(_later(told[-1], MINUTE_MS, quiet_minute()))
        told.append(_later(told[-1], each.wall_ms - told[-1].wall_ms, each.event))
    return told


def _later(last: Record, ms: int, event: Event) -> Record:
    return Record(last.seq + 1, last.wall_ms + ms, last.mono_ms + ms, last.node, event)


def quiet_minute() -> RouteQueries:
    return RouteQueries(
        revision=0, cause=Cause.WINDOW, peer="", window_ms=MINUTE_MS, topics=(), others=0
    )


def sleeps() -> list[Record]:
    """A node that slept for two minutes, by pauses, was silent for ten later on, and was killed."""
    story = Story(node=SLEEPER).at("03:00:00").start()
    story.at("03:01:00").register("sleepy", topics=["dreams", "sleepy"])
    story.at("03:09:59").add(quiet_minute())
    story.at("03:12:15").add(
        NodeStalled(
            revision=0,
            cause=Cause.STALL,
            peer="",
            from_ms=ms("03:10:00"),
            to_ms=ms("03:12:15"),
            longest_ms=60_000,
            clock_ms=0,
        )
    )
    before = awake([each for each in story.records if each.wall_ms <= ms("03:10:00")])
    (stall,) = (each for each in story.records if isinstance(each.event, NodeStalled))
    after = _later(before[-1], stall.wall_ms - before[-1].wall_ms, stall.event)
    records = [*before, after]
    for wait_ms in (MINUTE_MS, 10 * MINUTE_MS, MINUTE_MS):
        records.append(_later(records[-1], wait_ms, quiet_minute()))
    return records


class World(NamedTuple):
    """Records of several nodes, and what the tables made of them answer."""

    records: Mapping[str, Sequence[Record]]
    book: Routebook


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three nodes of a made-up day, one of which lacks segments, two of a night, a recorded one."""
    folder = tmp_path_factory.mktemp("world")
    records: dict[str, Sequence[Record]] = {
        **histories(11, hours=24),
        NIGHT: night(NIGHT, flaky=True),
        OTHER_NIGHT: night(OTHER_NIGHT, flaky=False, clock_ahead_ms=2000),
    }
    journals = write_journals(folder / "journals", {**records, SLEEPER: sleeps()})
    for manifest in (journals / SLEEPER).glob("*.manifest.json"):
        said = json.loads(manifest.read_text()) | {"fleet": OTHER_FLEET}
        manifest.write_text(json.dumps(said))
    shutil.copytree(GOLDEN, journals / "golden")
    lost = lost_spans(records["ns-3"], seed=5, share=0.3)
    for first, last in lost:
        (journals / "ns-3" / Span(first, last).manifest).unlink()
    records["ns-3"] = without(records["ns-3"], lost)
    records[NODE] = [each for each in read(GOLDEN) if each.seq <= LAST_SEALED]
    return World(records, Routebook(build_lake(Lake(spark, str(folder / "tables")), journals)))


LAST_SEALED = list_folder(GOLDEN).sealed[-1].last_seq


# -- truth


def test_routes_at_sampled_times_are_those_of_the_replayed_tables(
    spark: SparkSession, world: World
) -> None:
    asked = sampled(world.records, topics_of(world.records), count=SAMPLES, seed=5)
    found = answered(world.book.routes_at(asked_frame(spark, asked)).collect())
    expected = {
        (node, *pair): known
        for node, records in world.records.items()
        for pair, known in known_at(records, asked).items()
    }
    assert len(expected) == len(world.records) * SAMPLES
    assert {
        place: found.get(place) for place in expected if found.get(place) != expected[place]
    } == {}
    told = {known.told for known in expected.values()}
    assert told == {"route", "none", "down", "unknown", "probably"}


def test_differences_are_those_of_the_replayed_tables(world: World) -> None:
    records = world.records["ns-1"]
    begin, end = records[len(records) // 3], records[2 * len(records) // 3]
    rows = world.book.diff(time(begin.wall_ms), time(end.wall_ms), node="ns-1").collect()
    before, after = (_state(records, each.wall_ms) for each in (begin, end))
    expected = {
        (*key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    }
    assert len(expected) > 5
    assert {_difference(row) for row in rows} == expected
    assert {(row.node, row.known) for row in rows} == {("ns-1", True)}


State = dict[tuple[str, str, str | int], Any]


def _state(records: Sequence[Record], at_ms: int) -> State:
    """Shapes by topic, addresses by broker id."""
    view = View()
    last = max(place for place, each in enumerate(records) if each.wall_ms <= at_ms)
    for each in records[: last + 1]:
        view.apply(each)
    state: State = {}
    for group in view.groups.listed():
        name = (group.cluster, group.broker)
        state |= {(*name, topic): shape for topic, shape in group.queues.items()}
        state |= {(*name, broker_id): addr for broker_id, addr in group.addrs.items()}
    return state


def _difference(row: Row) -> tuple[Any, ...]:
    if row.topic is None:
        return row.cluster, row.broker, row.broker_id, row.before_addr, row.after_addr
    shapes = (row.before_queues, row.after_queues)
    before, after = (None if shape is None else tuple(shape) for shape in shapes)
    return row.cluster, row.broker, row.topic, before, after


# -- words


def test_rows_are_told_as_history_tells_their_events(spark: SparkSession) -> None:
    records = [
        *(record(number, event) for number, event in enumerate(every_event(), 1)),
        *night(NIGHT, flaky=True),
    ]
    known = F.when(F.col("node") == NIGHT, 30_000), F.lit(3), F.lit(120_000)
    rows = events_frame(spark, records)
    sentence = told(event_column(), F.lit(None).cast("string"), *known)
    found = {
        (row.node, row.seq): row.sentence
        for row in rows.select("node", "seq", sentence.alias("sentence")).collect()
    }
    assert found == {
        (each.node, each.seq): told_by_history(each.event, _context(each))
        if is_worth_telling(each.event, 120_000)
        else None
        for each in records
    }
    assert list(found.values()).count(None) < len(found) / 2


def _context(each: Record) -> Context:
    away_ms = 30_000 if each.node == NIGHT else None
    if isinstance(each.event, BrokerRegistered):
        return Context(away_ms=away_ms, topics=3)
    return Context(timeout_ms=120_000)


def lines_of(story: DataFrame) -> list[str]:
    told = story.select(F.date_format("at", "HH:mm:ss"), "node", "sentence").collect()
    return [" ".join(line) for line in told]


WHO = "night-a (10.0.0.1:10911, id 0, cluster c)"
CAME = "registered from 10.0.0.1:40112 with 120 topics."


def test_the_story_of_a_broker_is_told_by_one_clock(world: World) -> None:
    confirmed = f"{WHO}, recovered from the journal, was heard of again 4 s after the start."
    assert lines_of(world.book.explain_broker("night-a")) == [
        f"03:12:04 a-1 {WHO} {CAME}",
        f"03:12:04 a-2 {WHO} {CAME}",
        f"03:20:00 a-1 {WHO} was silent for 1 min 35 s, and leaves after 2 min.",
        f"03:20:00 a-2 {WHO} was silent for 1 min 35 s, and leaves after 2 min.",
        "03:40:11 a-1 night-a left: its connection was closed by the peer; it had 120 topics.",
        f"03:40:41 a-1 night-a came back after 30 s: 10.0.0.1:10911, id 0, cluster c, {CAME}",
        "03:50:00 a-1 node stopped in order, with 3 brokers and 122 topics.",
        "03:50:00 a-2 node stopped in order, with 3 brokers and 122 topics.",
        "03:51:00 a-1 no record between 03:50:00Z and 03:51:00Z: the node was down.",
        "03:51:00 a-1 node restarted, 3 brokers recovered from the journal.",
        "03:51:00 a-2 no record between 03:50:02Z and 03:51:02Z: the node was down.",
        "03:51:00 a-2 node restarted, 3 brokers recovered from the journal.",
        f"03:51:04 a-1 {confirmed}",
        f"03:51:04 a-2 {confirmed}",
    ]


def test_the_story_of_a_topic_tells_what_became_of_its_route(world: World) -> None:
    queues = (
        "with 8 read and 8 write queues, permission RW-, by a registration from 10.0.0.1:40112."
    )
    assert lines_of(world.book.explain_topic("t001", end="2026-11-15T03:45:00Z")) == [
        f"03:12:04 a-1 t001 appeared on night-a {queues}",
        f"03:12:04 a-2 t001 appeared on night-a {queues}",
        "03:40:11 a-1 night-a left: its connection was closed by the peer; t001 is on no other"
        " broker, so there is no route.",
        f"03:40:41 a-1 t001 came back after 30 s on night-a {queues}",
    ]


# -- what cannot be asked


def test_tables_are_read_by_name(world: World) -> None:
    assert world.book.table("node_coverage").where("node = 'a-1'").count() == 2
    with pytest.raises(NoSuchTable, match="there is no table events2; there are events, "):
        world.book.table("events2")
    with pytest.raises(BadTime, match="'soon' is no time"):
        world.book.route("orders", "soon")


# -- commands


def run(world: World, *words: str) -> Result:
    return CliRunner().invoke(command, [*words, "--tables", world.book.lake.root])


def test_the_route_of_a_topic_is_shown_node_by_node(world: World) -> None:
    at = ("--at", "2026-11-15T03:40:30Z", "--node", NIGHT)
    ran = run(world, "route", "orders", *at)
    assert (ran.exit_code, ran.stdout) == (0, ROUTE)
    none = run(world, "route", "t001", *at, "--json")
    (node,) = json.loads(none.stdout)["nodes"]
    assert (none.exit_code, node["told"], node["known"], node["brokers"]) == (1, "none", True, [])


ROUTE = """\
orders at default/a-1, 2026-11-15T03:40:30Z

cluster  broker   id  role    address         confirmed
───────────────────────────────────────────────────────
c        night-b   0  master  10.0.0.2:10911  yes

broker   read  write  permission  since                 cause
─────────────────────────────────────────────────────────────
night-b     8      8  R--         2026-11-15T03:25:00Z  admin

As of record 56, at 2026-11-15T03:40:11Z.
"""


AWAKE = {
    "03:09:59": ("route", None),
    "03:11:00": ("unknown", "stalled"),
    "03:12:15": ("route", None),
    "03:18:00": ("unknown", "silent"),
    "03:23:15": ("route", None),
    "03:30:00": ("probably", "ended"),
}


def test_a_route_is_told_only_of_times_the_node_was_awake_in(
    spark: SparkSession, world: World
) -> None:
    asked = asked_frame(spark, [("dreams", ms(at)) for at in AWAKE])
    rows = world.book.routes_at(asked, fleet=OTHER_FLEET).orderBy("at").collect()
    assert {(row.fleet, row.node) for row in rows} == {(OTHER_FLEET, SLEEPER)}
    assert [(row.told, row.why) for row in rows] == list(AWAKE.values())
    for row in rows:
        assert row.known == (row.told == "route")
        assert row.broker == (None if row.told == "unknown" else "sleepy")


def test_what_is_probable_is_told_with_the_reason(world: World) -> None:
    at = ("--at", "2026-11-15T03:30:00Z", "--fleet", OTHER_FLEET)
    ran = run(world, "route", "dreams", *at)
    why = "there are no records after 2026-11-15T03:24:15Z"
    title = "dreams at other/s-1, 2026-11-15T03:30:00Z: probably, because"
    assert (ran.exit_code, f"{title} {why}" in ran.stdout) == (0, True)


def test_an_answer_that_is_not_there_is_one_line_and_no_complaint_of_spark(
    world: World, tmp_path: Path
) -> None:
    """As a program of its own: what Spark leaves undone complains when it is stopped.

    With the settings of the product, and not those of other tests.
    """
    words = [sys.executable, "-m", "routebook", "spark", "explain", "nobody"]
    ran = subprocess.run(
        [*words, "--tables", world.book.lake.root],
        env=environment(tmp_path, settings={}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "Error: nothing about nobody is known\n"


def test_what_changed_is_shown_a_line_for_a_broker(world: World) -> None:
    period = ("--from", "2026-11-15T03:15Z", "--to", "2026-11-15T03:40:30Z", "--node", NIGHT)
    ran = run(world, "diff", *period)
    assert (ran.exit_code, ran.stdout) == (0, DIFF)
    document = json.loads(run(world, "diff", *period, "--topic", "t001", "--json").stdout)
    (node,) = document["nodes"]
    assert [(each["broker"], each["change"]) for each in node["brokers"]] == [("night-a", "went")]
    assert node["topics_went"] == {"topics": 1, "examples": ["t001"]}


DIFF = """\
default/a-1, from 2026-11-15T03:15:00Z to 2026-11-15T03:40:30Z

cluster  broker   change   members                     topics  what
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
c        night-a  went     id 0 (10.0.0.1:10911) went     120
c        night-b  changed                                   2  permission RW- to R--: 2 topics (orders and payments)

118 topics went: t000, t001, t002 and 115 more
"""  # noqa: E501  a table is as wide as it is


def test_the_last_lines_of_a_story_are_shown(world: World) -> None:
    ran = run(world, "explain", "night-a", "--node", NIGHT, "--limit", "2")
    assert ran.exit_code == 0
    assert ran.stdout == (
        "2026-11-15\n"
        "03:51:00Z node restarted, 3 brokers recovered from the journal.\n"
        f"03:51:04Z {WHO}, recovered from the journal, was heard of again 4 s after the start.\n"
    )
    assert "Earlier lines are left out" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("route", "orders", "--at", "seq:12"), 2, "sequence numbers of their own"),
        (
            ("route", "orders", "--at", "yesterday"),
            2,
            "write 2026-11-15T03:12:04Z, 03:12, 15m, 2h30m or",
        ),
        (("route", "orders", "--node", "ns-9"), 1, "no node ns-9 is known, but default/a-1, "),
        (("route", "orders", "--fleet", "x"), 1, "no fleet x is known, but default, other"),
        (
            ("explain", "night-a", "--from", "2027-01-01T00:00Z"),
            1,
            "nothing happened to night-a in this time; there is something about it from"
            " 2026-11-15T03:12:04Z to 2026-11-15T03:51:04Z",
        ),
    ],
)
def test_questions_without_an_answer_are_a_sentence(
    world: World, words: tuple[str, ...], code: int, reason: str
) -> None:
    ran = run(world, *words)
    assert ran.exit_code == code
    assert reason in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.output
    if "yesterday" in words:
        assert "seq:" not in ran.stderr


def test_tables_that_were_never_built_say_so(spark: SparkSession, tmp_path: Path) -> None:
    ran = CliRunner().invoke(command, ["route", "orders", "--tables", str(tmp_path)])
    assert (ran.exit_code, "run `routebook spark ingest`" in ran.stderr) == (1, True)


# -- the examples


def test_the_notebook_runs_from_its_first_cell_to_its_last(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = Path(world.book.lake.root)
    monkeypatch.setenv("ROUTEBOOK_TABLES", str(root))
    monkeypatch.setenv("ROUTEBOOK_JOURNALS", str(root.parent / "journals" / NIGHT))
    with Workbench(tmp_path) as bench:
        [node] = bench.nodes()
        bench.broker(nameservers=node.address, topics=["orders"], addr="10.0.0.77:10911")
        monkeypatch.setenv("NAMESRV_ADDR", node.address)
        runpy.run_path(str(EXAMPLES / "notebook.py"))
    shown = capsys.readouterr().out
    assert "registered from" in shown
    assert "10.0.0.77:10911" in shown
    assert "|NodeStopped" in shown


def test_the_example_shows_the_past_and_the_present_of_a_topic(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    [first] = world.book.table("route_versions").where(f"node = '{NIGHT}'").take(1)
    with Workbench(tmp_path) as bench:
        [node] = bench.nodes()
        bench.broker(nameservers=node.address, topics=[first.topic], addr="10.0.0.78:10911")
        asked = [world.book.lake.root, first.topic, first.valid_from.isoformat()]
        monkeypatch.setattr("sys.argv", ["spark.py", *asked, node.address])
        runpy.run_path(str(EXAMPLES / "spark.py"))
    shown = capsys.readouterr().out
    assert first.broker in shown
    assert "10.0.0.78:10911" in shown
