"""The report in a real browser: Chromium, without a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from pyspark.sql import SparkSession

from routebook_spark.report.facts import Report
from routebook_spark.report.page import page
from routebook_spark.schemas import DEFAULT_FLEET
from support.browser import Browser, Seen
from support.report_facts import bad_day
from support.report_tables import TITLE, reported

HEADINGS = [
    "Data quality",
    "When nodes were no witnesses",
    "Availability",
    "Worst incidents",
    "Who flaps",
    "How fast nodes agree",
    "Where nodes disagreed",
    "Balance",
    "Demand",
    "Forecast",
]
PLOTS = [
    "When nodes were witnesses",
    "Time brokers were not there",
    "Error budgets",
    *["Timeline"] * 5,
    "Who flaps",
    "How long nodes took to agree",
    "How evenly queues are spread",
    "Route queries",
    "Size of registrations",
]


@pytest.fixture(scope="module")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    whole = reported(spark)
    week = [part for part in whole.fleets if part.fleet == DEFAULT_FLEET]
    path.write_text(page(whole._replace(fleets=week)), "utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as running:
        yield running


def colours(picture: Path) -> list[tuple[int, object]]:
    """How often each is there, the most frequent first."""
    with Image.open(picture) as image:
        found = image.convert("RGB").getcolors(maxcolors=1 << 24)
    assert found is not None
    return sorted(found, key=lambda each: -each[0])


def test_the_page_is_seen_as_it_should_be_and_the_console_stays_empty(
    report: Path, browser: Browser, tmp_path: Path
) -> None:
    picture = tmp_path / "light.png"
    seen = browser.open(report, screenshot=picture)
    assert seen.errors == []
    document = seen.document
    assert document["title"] == TITLE
    assert [text for text in document["headings"] if text in HEADINGS] == HEADINGS
    assert [plot["name"] for plot in document["plots"]] == PLOTS
    for plot in document["plots"]:
        assert plot["width"] > 600
        assert plot["height"] > 80
        assert plot["shapes"] > 15
    assert (document["scripts"], document["images"]) == (0, 0)
    assert all(document["anchors"])
    counts = colours(picture)
    assert counts[0][1] == (255, 255, 255)
    assert len(counts) > 200
    drawn = sum(count for count, _ in counts[1:]) / sum(count for count, _ in counts)
    assert drawn > 0.05


def test_the_page_is_dark_where_the_machine_is(
    report: Path, browser: Browser, tmp_path: Path
) -> None:
    picture = tmp_path / "dark.png"
    seen = browser.open(report, screenshot=picture, dark=True)
    assert seen.errors == []
    assert seen.document["background"] == "rgb(18, 23, 29)"
    counts = colours(picture)
    assert counts[0][1] == (18, 23, 29)
    # White would be a plot or a table that did not follow.
    assert sum(count for count, colour in counts if colour == (255, 255, 255)) == 0


@pytest.fixture(scope="module")
def bad_hour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fleets on one page, each with a bad hour."""
    one, other = bad_day(1, fleet="eu"), bad_day(4, fleet="us-east")
    path = tmp_path_factory.mktemp("bad") / "report.html"
    path.write_text(page(Report("Bad", one.period, [one.facts, other.facts])), "utf-8")
    return path


@pytest.mark.parametrize("width", [360, 390, 800, 1100, 1280, 1920])
def test_nothing_is_cut_off_in_windows_of_all_widths(
    report: Path, bad_hour: Path, browser: Browser, width: int
) -> None:
    for path in (report, bad_hour):
        seen = browser.open(path, width=width)
        assert seen.errors == []
        assert seen.document["overflow"] <= 0
        assert seen.document["cut"] == []
        assert all(plot["width"] > 250 for plot in seen.document["plots"])


CUT = {
    "a-table-that-is-too-wide": "<div style='overflow:auto;width:200px'><p style='width:400px'>x",
    "what-is-outside-the-window": "<p style='position:absolute;left:1200px;width:300px'>x</p>",
    "text-beyond-the-edge-of-a-plot": "<svg width='99' height='20'><text x='90' y='9'>long</text>",
}


@pytest.mark.parametrize("what", CUT)
def test_what_is_cut_off_is_noticed(browser: Browser, tmp_path: Path, what: str) -> None:
    path = tmp_path / "cut.html"
    path.write_text(f"<!doctype html><title>t</title><h1>h</h1>{CUT[what]}", "utf-8")
    assert browser.open(path).document["cut"] != []


def test_the_page_can_be_printed(report: Path, browser: Browser) -> None:
    seen = browser.open(report, pdf=True)
    assert seen.errors == []
    assert seen.pdf.startswith(b"%PDF-")
    assert len(seen.pdf) > 50_000


BROKEN = {
    "an-exception": "<script>undefinedFunction()</script>",
    "an-error-in-the-console": "<script>console.error('no')</script>",
    "an-image-from-elsewhere": "<img src='http://192.0.2.1/x.png'>",
    "a-style-that-is-not-there": "<link rel=stylesheet href=missing.css>",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_page_with_something_wrong_is_told_from_a_good_one(
    browser: Browser, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "broken.html"
    path.write_text(f"<!doctype html><title>t</title><h1>h</h1>{BROKEN[what]}", "utf-8")
    assert browser.open(path).errors != []


def test_what_got_into_a_page_in_spite_of_all_does_not_run_and_is_noticed(
    report: Path, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "injected.html"
    script = "<script>document.title = 'taken'</script></main>"
    path.write_text(report.read_text("utf-8").replace("</main>", script), "utf-8")
    seen: Seen = browser.open(path)
    assert seen.document["title"] == TITLE
    assert any("Content Security Policy" in error for error in seen.errors)
