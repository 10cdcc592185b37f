"""The page of a report: one file, with all it needs in it, and nothing that runs.

The same facts give the same page, byte for byte.
"""

from collections.abc import Iterable
from importlib.resources import files

from routebook_spark.report import brokers, nodes, topics, words
from routebook_spark.report.facts import Report
from routebook_spark.report.html import Html, element, joined
from routebook_spark.report.parts import Section

# Nothing may be loaded or run, whatever got into the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
    sections = [
        nodes.quality(report.quality, report.period),
        brokers.availability(report.availability, report.period),
        brokers.incidents(report.incidents, report.period, nodes=len(report.quality.nodes)),
        brokers.flaps(report.flaps, report.near_misses),
        nodes.convergence(report.convergence),
        nodes.divergence(report.divergence),
        topics.balance(report.balance),
        topics.demand(report.demand, report.period),
        topics.forecast(report.forecast),
    ]
    css = files("routebook_spark.report").joinpath("page.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", report.title),
        element("style", Html(css)),
    )
    main = element(
        "main",
        _header(report),
        _cards(report),
        [_section(section) for section in sections],
        element("footer", "All times are UTC. Made by Routebook from the journals of its nodes."),
    )
    layout = element("div", _contents(sections), main, class_="layout")
    html = element("html", head, element("body", layout), lang="en")
    return f"<!doctype html>\n{html}\n"


def _header(report: Report) -> Html:
    period, nodes = report.period, report.quality.nodes
    lasts = words.span(round(period.seconds / 60) * 60)
    return element(
        "header",
        element("h1", report.title),
        element(
            "p",
            f"{words.minute(period.from_at)} to {words.minute(period.to_at)} UTC, {lasts}."
            f" Told by {words.counted(len(nodes), 'node')}:"
            f" {words.listed([node.node for node in nodes], most=6)}.",
        ),
    )


def _contents(sections: Iterable[Section]) -> Html:
    links = [
        element("li", element("a", section.title, href=f"#{section.name}")) for section in sections
    ]
    return element(
        "nav", element("h2", "Contents"), element("ol", links), aria_label="Table of contents"
    )


def _section(section: Section) -> Html:
    return element(
        "section",
        element("h2", section.title, id=f"{section.name}-heading"),
        section.body,
        id=section.name,
        aria_labelledby=f"{section.name}-heading",
    )


# -- the summary


def _cards(report: Report) -> Html:
    return element("dl", list(_numbers(report)), class_="cards")


def _numbers(report: Report) -> Iterable[Html]:
    total, slo = report.availability.total, report.availability.slo
    there = total.availability
    used = total.down_s / total.budget_s if total.budget_s else None
    yield _card(
        "Availability",
        words.percent(there),
        "nothing known" if slo is None else f"target {words.percent(slo)}",
        None if there is None or slo is None else "good" if there >= slo else "bad",
    )
    yield _card(
        "Error budget used",
        words.percent(used),
        f"{words.span(total.down_s)} down, all brokers",
        None if used is None else "good" if used < 0.5 else "warn" if used <= 1 else "bad",
    )
    count = report.incidents.total
    yield _card("Incidents", words.number(count), "without a goodbye", "warn" if count else "good")
    changes = sum(lag.changes for lag in report.convergence.lags)
    quick = sum(lag.within_1s for lag in report.convergence.lags)
    share = quick / changes if changes else None
    yield _card(
        "Agreed within 1 s",
        words.percent(share),
        f"of {words.counted(changes, 'change')}",
        None if share is None else "good" if share >= 0.99 else "warn",
    )
    still = report.divergence.endings.get("open", 0)
    yield _card(
        "Nodes disagree",
        words.number(still),
        f"now; {words.number(sum(report.divergence.endings.values()))} in all",
        "bad" if still else "good",
    )
    single = report.balance.single
    yield _card(
        "On one broker only",
        words.number(single),
        f"of {words.counted(report.balance.topics, 'topic')}",
        None if not report.balance.topics else "warn" if single else "good",
    )
    unknown = sum(each.unknown for each in report.demand.asked)
    yield _card(
        "Unknown topics asked for",
        words.number(unknown),
        "queries",
        None if not report.demand.asked else "warn" if unknown else "good",
    )
    limits = [each for each in report.forecast if each.limit_on is not None]
    soonest = min(limits, key=lambda each: each.limit_on or each.day, default=None)
    yield _card(
        "Next registration too large",
        "none in sight" if soonest is None else str(soonest.limit_on),
        "" if soonest is None else words.shortened(soonest.broker),
        None if not report.forecast else "good" if soonest is None else "warn",
    )


def _card(name: str, value: str, note: str, judged: str | None) -> Html:
    return element(
        "div",
        joined(element("dt", name), element("dd", value), element("dd", note, class_="note")),
        class_="card" if judged is None else f"card {judged}",
    )
