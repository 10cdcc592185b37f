import re
from dataclasses import dataclass
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routebook_spark import tables
from routebook_spark.commands.report import report as report_command
from routebook_spark.report.facts import FleetReport, Incident, Period, Report
from routebook_spark.report.gather import EmptyPeriod, gather, period_of
from routebook_spark.report.page import page
from routebook_spark.report.rows import collected, hours_of
from routebook_spark.tables import Lake
from support.reportfigures import by_fact, contradictions, loose_numbers
from support.reporttables import (
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
from support.sparkrows import T0, frame

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
FLEET = "default"
TIMES = ("up_s", "suspect_s", "down_s", "planned_s", "unknown_s", "failures", "repairs")
FEW = (tables.NODE_COVERAGE, tables.FLAPS)


@dataclass(frozen=True)
class Written:
    facts: Report
    page: str


@pytest.fixture(scope="module")
def written(spark: SparkSession) -> Written:
    facts = reported(spark)
    return Written(facts, page(facts))


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


# -- the page against itself, and against the tables


def test_every_number_that_is_told_twice_is_the_same(written: Written) -> None:
    assert contradictions(written.page) == []
    assert loose_numbers(written.page) == []


def test_time_is_that_of_the_table(spark: SparkSession, written: Written) -> None:
    lake = week_lake(spark)
    hours = collected(
        available(lake)
        .where("grain = 'hour'")
        .groupBy("broker")
        .agg(*(F.sum(name).alias(name) for name in TIMES))
    )
    told = by_fact(written.page, FLEET)
    facts = only(written).availability
    assert facts.brokers == len(hours)
    for name in TIMES:
        total = sum(row[name] for row in hours)
        assert getattr(facts.total, name) == pytest.approx(total), name
    by_broker = {row["broker"]: row for row in hours}
    for each in facts.worst:
        key = f"{each.cluster}/{each.broker}/{each.broker_id}"
        for name in ("down_s", "suspect_s", "unknown_s", "failures"):
            assert told[f"{name}/{key}"] == pytest.approx(by_broker[each.broker][name]), name
    assert sum(step.down_s for step in facts.spent) == pytest.approx(facts.total.down_s)
    assert facts.slo == 0.999
    assert [each.broker for each in facts.worst[:2]] == ["broker-18", "broker-09"]


# -- the facts


def only(written: Written) -> FleetReport:
    (part,) = (each for each in written.facts.fleets if each.fleet == FLEET)
    return part


def worst_of(facts: FleetReport, brokers: int) -> Incident:
    return next(each for each in facts.incidents.worst if len(each.outages) == brokers)


def test_brokers_that_go_together_are_one_incident(written: Written) -> None:
    facts = only(written)
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
    worst = only(written).incidents.worst[0]
    assert (worst.ended_at, worst.outages[0].back_at) == (None, None)
    assert "It is still away, down for " in written.page


def test_a_goodbye_is_no_incident(written: Written) -> None:
    gone = [out.broker for each in only(written).incidents.worst for out in each.outages]
    assert "leaver" not in gone


def test_topics_that_differ_alike_are_one_disagreement(written: Written) -> None:
    facts = only(written).divergence
    assert facts.endings == {"converged": 2, "open": 1}
    assert [(each.topics, each.topic) for each in facts.longest] == [
        (1, SCRIPT),
        (0, None),
        (40, "topic-000"),
    ]


def test_what_nodes_said_is_told_in_words(written: Written) -> None:
    section = Outline(written.page).words["divergence"]
    assert "8 read and 8 write queues, permission RW-" in section
    assert "listed with id 0 (10.0.0.3:10911)" in section
    assert not re.search(r"\bnull\b|\[\d|\{", section)


def test_balance_is_that_of_the_last_day_without_topics_of_the_system(written: Written) -> None:
    last = (T0 + timedelta(days=DAYS - 1)).date()
    rows = [
        row
        for row in week()[tables.TOPIC_BALANCE]
        if row["day"] == last and row["topic"] != "TBW102"
    ]
    facts = only(written).balance
    assert facts.topics == len(rows)
    assert facts.single == sum(row["single_broker"] for row in rows)
    assert sum(count for _, count in facts.buckets) == facts.topics - facts.single
    assert facts.skewed[0].skew == max(row["skew"] for row in rows)


def test_demand_names_storms_and_silent_topics(written: Written) -> None:
    facts = only(written).demand
    assert facts.top[0].topic == "topic-000"
    assert (facts.storms[0].topic, facts.storms[0].unknown) == ("ordres", 2200)
    assert (facts.zombie_count, facts.zombies[0].topic) == (32, "old-orders")
    assert sum(each.unknown for each in facts.asked) == facts.unknown == 8 * 2200


def test_the_quality_of_data_is_told_for_each_node(written: Written) -> None:
    quality = only(written).quality
    killed, lossy = quality.nodes[1:]
    assert (killed.kills, killed.losses, killed.missing) == (1, 0, 0)
    assert (lossy.kills, lossy.losses, lossy.missing) == (0, 1, 412)
    assert (lossy.offset_ms, lossy.uncertainty_ms) == (-406, 12)
    assert lossy.known_s == pytest.approx((DAYS - 0.402) * 86_400, abs=1)
    assert {each.why for each in quality.unwitnessed} == {"killed", "records_missing", "no_later"}
    assert quality.quarantined[0].records == 3


def test_lags_are_counted_by_kind_with_those_that_a_node_never_showed(written: Written) -> None:
    facts = only(written).convergence
    assert [lag.kind for lag in facts.lags] == ["broker_joined", "broker_left", "topic_changed"]
    assert sum(lag.changes for lag in facts.lags) == 600
    assert sum(lag.incomplete for lag in facts.lags) == 1
    assert sum(bucket.changes for bucket in facts.buckets) == 599
