import re
from dataclasses import dataclass
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routebook.events import Cause
from routebook_spark import tables
from routebook_spark.commands.report import report as report_command
from routebook_spark.report.facts import FleetReport, Incident, Period
from routebook_spark.report.gather import EmptyPeriod, NoSuchFleet, gather, period_of
from routebook_spark.report.page import page
from routebook_spark.report.rows import collected, hours_of
from routebook_spark.silver.build import silver_of
from routebook_spark.tables import Lake
from support.report_figures import by_fact, contradictions, loose_numbers
from support.report_tables import (
    DAYS,
    FORMULA,
    IMAGE,
    LONG,
    SCRIPT,
    TITLE,
    InMemory,
    available,
    reported,
    week,
    week_lake,
)
from support.spark_histories import events_frame, gaps_frame
from support.spark_rows import T0, at, frame
from support.watch_events import Journal

SECTIONS = {
    "quality": "Data quality",
    "witnesses": "When nodes were no witnesses",
    "availability": "Availability",
    "incidents": "Worst incidents",
    "flaps": "Who flaps",
    "convergence": "How fast nodes agree",
    "divergence": "Where nodes disagreed",
    "balance": "Balance",
    "demand": "Demand",
    "forecast": "Forecast",
}
FLEET, BAD = "default", "bad"
BROKERS_OF_STORIES = 13
DAY = 86_400_000
TIMES = ("up_s", "suspect_s", "down_s", "planned_s", "unknown_s", "failures", "repairs")
HOUR_MS = 3_600_000
YEARS_MS = 20 * 365 * 24 * HOUR_MS
FEW = (tables.NODE_COVERAGE, tables.FLAPS)


@dataclass(frozen=True)
class Written:
    """What is told of one fleet of the tables."""

    facts: FleetReport
    page: str


def written_of(spark: SparkSession, fleet: str) -> Written:
    report = reported(spark)
    (part,) = (each for each in report.fleets if each.fleet == fleet)
    return Written(part, page(report._replace(fleets=[part])))


@pytest.fixture(scope="module")
def written(spark: SparkSession) -> Written:
    return written_of(spark, FLEET)


@pytest.fixture(scope="module")
def bad_days(spark: SparkSession) -> Written:
    return written_of(spark, BAD)


class Outline(HTMLParser):
    """Headings by section, and whether every element is closed where it should be."""

    VOID = ("meta", "br", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.section = ""
        self.headings: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id" and value is not None]
        if tag == "section":
            self.section = given["id"] or ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value for key, value in attrs if key == "id" and value is not None]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2" and self.section:
            self.headings[self.section] = data
        self.words[self.section] = self.words.get(self.section, "") + data + " "


# -- the page


def test_every_section_has_its_heading_and_a_place_in_the_contents(written: Written) -> None:
    outline = Outline(written.page)
    assert outline.headings == SECTIONS
    assert all(f'href="#{name}"' in written.page for name in SECTIONS)


def test_ids_are_unique_and_nothing_is_loaded_or_run(written: Written) -> None:
    outline = Outline(written.page)
    assert sorted(outline.ids) == sorted(set(outline.ids))
    assert not outline.tags & {"script", "img", "link", "iframe", "object", "image", "form"}
    outside = set(re.findall(r"\w+://[^\s\"'<>]*", written.page))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert not re.search(r"url\((?!#)", written.page)
    assert not re.search(r"\son\w+\s*=\s*[^&]*>", re.sub(r"&\w+;", "&", written.page))


@pytest.mark.parametrize("name", [SCRIPT, IMAGE, FORMULA, LONG])
def test_names_are_shown_and_nothing_else_comes_of_them(written: Written, name: str) -> None:
    assert name in " ".join(Outline(written.page).words.values())
    if "<" in name:
        assert name not in written.page


def test_characters_without_a_look_are_shown_as_codes(written: Written) -> None:
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in written.page
    assert "orders\\u202egpj" in written.page


# -- the command


@dataclass(frozen=True)
class Sparse:
    lake: Lake
    page: str


@pytest.fixture(scope="module")
def sparse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sparse:
    """Tables on disk, most of which were never written, and what the command makes of them."""
    lake = Lake(spark, str(tmp_path_factory.mktemp("sparse") / "tables"))
    for table in FEW:
        lake.replace(table, frame(spark, table.schema, week()[table]))
    out = tmp_path_factory.mktemp("page") / "report.html"
    arguments = ["--tables", lake.root, "--out", str(out), "--title", TITLE]
    result = CliRunner().invoke(report_command, arguments)
    assert (result.exit_code, result.output) == (0, f"{out}\n")
    assert [each.name for each in out.parent.iterdir()] == ["report.html"]
    return Sparse(lake, out.read_text("utf-8"))


def test_the_same_rows_give_the_same_page_however_they_are_stored(
    spark: SparkSession, sparse: Sparse
) -> None:
    lake = InMemory(spark, "memory", {table: week()[table][::-1] for table in FEW})
    assert page(gather(lake, period_of(lake), title=TITLE)) == sparse.page


def test_a_section_without_data_says_so_in_a_sentence(sparse: Sparse) -> None:
    assert Outline(sparse.page).headings == SECTIONS
    for name in SECTIONS.keys() - {"witnesses"}:
        section = sparse.page[sparse.page.index(f'<section id="{name}"') :]
        assert '<p class="empty">' in section[: section.index("</section>")], name
    assert sparse.page.count("<figure") == 2


def test_an_hour_that_is_in_the_period_in_part_counts(spark: SparkSession) -> None:
    hours = [T0 + timedelta(hours=n) for n in range(3)]
    rows = frame(
        spark, tables.FLAPS.schema, [{"day": T0.date(), "window_at": hour} for hour in hours]
    )
    minute = Period(T0 + timedelta(minutes=70), T0 + timedelta(minutes=71))
    found = collected(hours_of(rows, minute, "window_at"))
    assert [row["window_at"] for row in found] == hours[1:2]


def test_a_period_is_the_last_thirty_days_or_what_is_asked_for(sparse: Sparse) -> None:
    known = period_of(sparse.lake)
    assert known.from_at == T0
    assert timedelta() < T0 + timedelta(days=DAYS) - known.to_at < timedelta(seconds=10)
    asked = Period(T0 + timedelta(days=2), T0 + timedelta(days=3))
    assert period_of(sparse.lake, *asked) == asked
    with pytest.raises(EmptyPeriod, match="the tables tell of 2026-11-15T00:00:00Z to"):
        period_of(sparse.lake, T0 + timedelta(days=30))
    with pytest.raises(NoSuchFleet, match="no fleet moon in the tables; they tell of default"):
        period_of(sparse.lake, fleet="moon")


@pytest.mark.parametrize(
    ("others", "right"),
    [
        pytest.param(
            {tables.SEGMENTS: [{"at": at(2 * HOUR_MS)}]}, 1, id="it-is-ahead-of-the-ingest"
        ),
        pytest.param(
            {
                tables.CLOCK_SKEW: [
                    {"node": f"ns-{number}", "day": T0.date(), "offset_ms": offset_ms}
                    for number, offset_ms in enumerate([5, -40, YEARS_MS])
                ]
            },
            2,
            id="most-nodes-say-otherwise",
        ),
    ],
)
def test_a_clock_years_ahead_does_not_move_the_period(
    spark: SparkSession, others: dict[tables.Table, list[dict[str, object]]], right: int
) -> None:
    spans = [(f"ns-{number}", 0) for number in range(right)]
    coverage = [
        {"node": node, "from_at": at(began_ms), "to_at": at(began_ms + HOUR_MS)}
        for node, began_ms in [*spans, ("ns-2", YEARS_MS)]
    ]
    lake = InMemory(spark, "memory", {tables.NODE_COVERAGE: coverage, **others})
    assert period_of(lake) == Period(T0, at(HOUR_MS + 1))


def test_a_fleet_that_cannot_be_believed_is_there_and_unknown(spark: SparkSession) -> None:
    """Its first segments never came, and nothing was stated anew since."""
    days = [{"day": T0.date(), "node": "ns-9", "fleet": "new", "samples": 0, "assumed": False}]
    lake = InMemory(spark, "memory", {tables.CLOCK_SKEW: days})
    period = period_of(lake, fleet="new")
    assert (period.from_at.date(), period.seconds) == (T0.date(), 86_400)
    report = gather(lake, period, title=TITLE)
    (fleet,) = report.fleets
    (node,) = fleet.quality.nodes
    assert (fleet.fleet, node.node, node.known_s, node.unknown_s) == ("new", "ns-9", 0, 86_400)
    assert "its first records are missing" in page(report)


def test_no_tables_are_an_error_that_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = CliRunner().invoke(
        report_command, ["--tables", str(tmp_path / "none"), "--out", str(out)]
    )
    assert result.exit_code == 1
    assert "routebook spark ingest" in result.output
    assert not out.exists()


def test_a_folder_that_is_not_there_is_told_before_any_work(tmp_path: Path) -> None:
    out = tmp_path / "none" / "report.html"
    # Spark would be started for these tables, and find that they are not there.
    result = CliRunner().invoke(report_command, ["--tables", "/no/tables", "--out", str(out)])
    assert result.exit_code == 1
    assert f"there is no folder {out.parent}" in result.output
    assert "mkdir -p" in result.output


def test_a_registration_of_some_topics_makes_them_no_fewer_on_the_page(spark: SparkSession) -> None:
    """A broker with nine topics registers a tenth alone, and is lost with all of them."""
    ns = Journal("ns-1").begins()
    ns.joins("broker-a", topics=[f"topic-{number}" for number in range(9)])
    ns.after(60).registers_part("broker-a", ["one-more"])
    ns.after(60).beats("broker-a")
    ns.after(60).leaves("broker-a", Cause.CONNECTION_CLOSED)
    ns.after(30).joins("broker-a", topics=["topic-1"])
    ns.after(60).beats("broker-a")
    by_node = {ns.node: ns.records}
    silver = silver_of(events_frame(spark, by_node), gaps_frame(spark, by_node))
    frames = {
        tables.BROKER_SESSIONS: silver.sessions,
        tables.SUSPECT_TIMES: silver.suspects,
        tables.NODE_COVERAGE: silver.coverage,
        tables.CLOCK_SKEW: silver.skew,
    }
    made = available(InMemory(spark, "memory", frames=frames))
    lake = InMemory(spark, "memory", frames={**frames, tables.BROKER_AVAILABILITY: made})
    report = gather(lake, period_of(lake), title=TITLE)
    [lost] = [
        value
        for fact, value in by_fact(page(report), "default").items()
        if fact.startswith("topics/") and "broker-a" in fact
    ]
    assert lost == 10


# -- the page against itself, and against the tables


def test_every_number_that_is_told_twice_is_the_same(written: Written, bad_days: Written) -> None:
    for each in (written, bad_days):
        assert contradictions(each.page) == []
        assert loose_numbers(each.page) == []


def test_time_is_that_of_the_table(
    spark: SparkSession, written: Written, bad_days: Written
) -> None:
    rows = collected(
        available(week_lake(spark))
        .where("grain = 'hour'")
        .groupBy("fleet", "broker")
        .agg(*(F.sum(name).alias(name) for name in TIMES))
    )
    for each in (written, bad_days):
        facts = each.facts.availability
        hours = {row["broker"]: row for row in rows if row["fleet"] == each.facts.fleet}
        assert facts.brokers == len(hours)
        for name in TIMES:
            total = sum(row[name] for row in hours.values())
            # The table has no rows of hours in which nobody was awake: nothing is known of them.
            less = name == "unknown_s" and each is bad_days
            assert (
                (getattr(facts.total, name) >= total)
                if less
                else (getattr(facts.total, name) == pytest.approx(total))
            ), name
        told = by_fact(each.page, each.facts.fleet)
        for time in facts.worst:
            key = f"{time.cluster}/{time.broker}/{time.broker_id}"
            for name in ("down_s", "suspect_s", "failures"):
                assert told[f"{name}/{key}"] == pytest.approx(hours[time.broker][name]), name
        assert sum(step.down_s for step in facts.spent) == pytest.approx(facts.total.down_s)
        assert facts.slo == 0.999
        assert each.facts.incidents.outages == facts.total.failures


def test_agreement_is_that_of_the_table(spark: SparkSession, bad_days: Written) -> None:
    changes = week_lake(spark).read(tables.CONVERGENCE).where(F.col("fleet") == BAD)
    judged = [row for row in collected(changes) if row["nodes_knowing"] > 1]
    never = [row for row in judged if row["nodes"] < row["nodes_knowing"]]
    assert [row["kind"] for row in never].count("topic_changed") == 1
    lags = bad_days.facts.convergence.lags
    assert sum(lag.changes for lag in lags) == len(judged)
    assert sum(lag.incomplete for lag in lags) == len(never)
    assert sum(lag.within_1s for lag in lags) == sum(bool(row["within_1s"]) for row in judged)


# -- bad days, from stories by the functions of gold


def test_a_fleet_is_told_of_by_its_own_nodes_alone(written: Written, bad_days: Written) -> None:
    here, there = ({each.broker for each in one.facts.flaps} for one in (written, bad_days))
    assert here
    assert there
    assert not here & there
    told = by_fact(bad_days.page, BAD)
    assert (told["nodes"], told["brokers"]) == (3, BROKERS_OF_STORIES)
    assert "broker-18" not in bad_days.page
    assert "flapper" not in written.page


def test_three_short_outages_are_told_as_three(bad_days: Written) -> None:
    told = by_fact(bad_days.page, BAD)
    assert (told["down_s/c1/flapper/0"], told["failures/c1/flapper/0"]) == (8.5, 3)


def test_brokers_that_restart_one_by_one_are_incidents_of_their_own(bad_days: Written) -> None:
    found = bad_days.facts.incidents
    assert (found.total, found.outages) == (10, 10)
    late, *rolling = found.worst
    assert [(each.broker, each.down_s) for each in late.outages] == [("late", 60.0)]
    for number, incident in enumerate(rolling):
        (outage,) = incident.outages
        assert (outage.broker, outage.down_s) == (f"roller-{number}", 5.0)
        assert (outage.nodes, outage.awake, outage.cause) == (3, 3, "connection_closed")
        assert outage.left_at == at(DAY + 300_000 + 20_000 * number)


def test_a_change_that_a_node_never_showed_is_not_agreed_upon(bad_days: Written) -> None:
    told = by_fact(bad_days.page, BAD)
    assert (told["changes/topic_changed"], told["incomplete/topic_changed"]) == (1, 1)
    assert told["within_1s/topic_changed"] == 0
    assert told["agreed_1s"] < 1


def test_time_in_which_all_nodes_slept_is_unknown(bad_days: Written) -> None:
    facts = bad_days.facts
    assert "sleeper" not in [each.broker for each in facts.availability.worst]
    slept = [each for each in facts.quality.unwitnessed if each.why == "stalled"]
    assert sorted(each.node for each in slept) == ["ns-1", "ns-2", "ns-3"]
    assert {round(each.lasted_s) for each in slept} == {100}
    assert [node.stalls for node in facts.quality.nodes] == [1, 1, 1]
    assert "it slept: it was stopped, suspended or too busy" in bad_days.page


def test_brokers_that_expired_are_among_the_late_ones(bad_days: Written) -> None:
    told = by_fact(bad_days.page, BAD)
    assert told["given_up/c1/late/0"] == 3
    assert "in good time" not in bad_days.page


def test_a_node_that_had_just_restarted_blames_nobody(bad_days: Written) -> None:
    blamed = {each.broker: each.culprit for each in bad_days.facts.flaps}
    assert blamed["witnessed"] == "broker"
    assert "blamed: network" not in bad_days.page


# -- the facts


def worst_of(facts: FleetReport, brokers: int) -> Incident:
    return next(each for each in facts.incidents.worst if len(each.outages) == brokers)


def test_brokers_that_go_together_are_one_incident(written: Written) -> None:
    facts = written.facts
    assert (facts.incidents.total, facts.incidents.outages) == (5, 11)
    many = worst_of(facts, 7)
    longest = many.outages[0]
    assert [each.broker for each in many.outages[:2]] == ["broker-09", "broker-08"]
    assert (longest.cause, longest.nodes, longest.awake) == ("expired", 2, 2)
    # Corrected by the clocks: ns-3 had lost records then, and ns-2 let them go last.
    first = T0 + timedelta(days=2.134, seconds=2) - timedelta(milliseconds=40)
    assert abs(many.started_at - first) < timedelta(milliseconds=10)
    assert longest.exposure_s == 151.0


def test_an_incident_that_lasts_is_told_as_such(written: Written) -> None:
    worst = written.facts.incidents.worst[0]
    assert (worst.ended_at, worst.outages[0].back_at) == (None, None)
    assert "It is still away, down for " in written.page


def test_a_goodbye_is_no_incident(written: Written) -> None:
    gone = [out.broker for each in written.facts.incidents.worst for out in each.outages]
    assert "leaver" not in gone


def test_topics_that_differ_alike_are_one_disagreement(written: Written) -> None:
    facts = written.facts.divergence
    assert facts.endings == {"converged": 2, "open": 1}
    assert [(each.topics, each.topic) for each in facts.longest] == [
        (1, SCRIPT),
        (0, None),
        (40, "topic-000"),
    ]


def test_what_nodes_said_is_told_in_words(written: Written, bad_days: Written) -> None:
    stories = Outline(bad_days.page).words["divergence"]
    assert "4 read and 4 write queues, permission RW-" in stories
    assert "not listed" in stories
    section = Outline(written.page).words["divergence"]
    assert "8 read and 8 write queues, permission RW-" in section
    assert "listed with id 0 (10.0.0.3:10911)" in section
    for each in (section, stories):
        assert not re.search(r"\bnull\b|\[\d|\{", each)


def test_balance_is_that_of_the_last_day_without_topics_of_the_system(written: Written) -> None:
    last = (T0 + timedelta(days=DAYS - 1)).date()
    rows = [
        row
        for row in week()[tables.TOPIC_BALANCE]
        if row["day"] == last and row["topic"] != "TBW102"
    ]
    facts = written.facts.balance
    assert facts.topics == len(rows)
    assert facts.single == sum(row["single_broker"] for row in rows)
    assert sum(count for _, count in facts.buckets) == facts.topics - facts.single
    assert facts.skewed[0].skew == max(row["skew"] for row in rows)


def test_demand_names_storms_and_silent_topics(written: Written) -> None:
    facts = written.facts.demand
    assert facts.top[0].topic == "topic-000"
    assert (facts.storms[0].topic, facts.storms[0].unknown) == ("ordres", 2200)
    assert (facts.zombie_count, facts.zombies[0].topic) == (32, "old-orders")
    assert sum(each.unknown for each in facts.asked) == facts.unknown == 8 * 2200


def test_the_quality_of_data_is_told_for_each_node(written: Written) -> None:
    quality = written.facts.quality
    killed, lossy = quality.nodes[1:]
    assert (killed.kills, killed.losses, killed.missing) == (1, 0, 0)
    assert (lossy.kills, lossy.losses, lossy.missing) == (0, 1, 412)
    assert (lossy.offset_ms, lossy.uncertainty_ms) == (-406, 12)
    assert lossy.known_s == pytest.approx((DAYS - 0.402) * 86_400, abs=1)
    assert {each.why for each in quality.unwitnessed} == {"killed", "records_missing", "no_later"}
    assert quality.quarantined[0].records == 3


def test_lags_are_counted_by_kind_with_those_that_a_node_never_showed(written: Written) -> None:
    facts = written.facts.convergence
    assert [lag.kind for lag in facts.lags] == ["broker_joined", "broker_left", "topic_changed"]
    assert sum(lag.changes for lag in facts.lags) == 600
    assert sum(lag.incomplete for lag in facts.lags) == 1
    assert sum(bucket.changes for bucket in facts.buckets) == 599
