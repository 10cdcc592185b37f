"""The page of a report: one file, with all it needs in it, and nothing that runs.

The same facts give the same page, byte for byte.
"""

from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import NamedTuple

from routebook.words import listed
from routebook_spark.report import brokers, nodes, topics, words
from routebook_spark.report.facts import Convergence, FleetReport, Period, Report
from routebook_spark.report.figures import about, counted, named, told
from routebook_spark.report.html import Html, element, joined
from routebook_spark.report.parts import Section
from routebook_spark.schemas import DEFAULT_FLEET

# Nothing may be loaded or run, whatever got into the page.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: Report) -> str:
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
    parts = [_part(part, report.period, place) for part, place in _places(report)]
    main = element(
        "main",
        _header(report),
        [_told_part(part, several=len(parts) > 1) for part in parts],
        element("footer", "All times are UTC. Made by Routebook from the journals of its nodes."),
    )
    layout = element("div", _contents(parts), main, class_="layout")
    html = element("html", head, element("body", layout), lang="en")
    return f"<!doctype html>\n{html}\n"


class Part(NamedTuple):
    """What is told of one fleet; ``place`` is before all ids of it."""

    facts: FleetReport
    place: str
    sections: list[Section]


def _places(report: Report) -> Iterable[tuple[FleetReport, str]]:
    """A page about one fleet has no need to number it."""
    if len(report.fleets) == 1:
        return [(report.fleets[0], "")]
    return [(part, f"fleet-{n}-") for n, part in enumerate(report.fleets, start=1)]


def _part(part: FleetReport, period: Period, place: str) -> Part:
    sections = [
        nodes.quality(part.quality, period),
        nodes.witnesses(part.quality, period, place=place),
        brokers.availability(part.availability, period, place=place),
        brokers.incidents(part.incidents, period, place=place),
        brokers.flaps(part.flaps, part.heartbeats, period, place=place),
        nodes.convergence(part.convergence, place=place),
        nodes.divergence(part.divergence, nodes=len(part.quality.nodes)),
        topics.balance(part.balance, place=place),
        topics.demand(part.demand, period, place=place),
        topics.forecast(part.forecast, place=place),
    ]
    return Part(part, place, sections)


def _header(report: Report) -> Html:
    period = report.period
    return element(
        "header",
        element("h1", report.title),
        element(
            "p",
            told("period_from", period.from_at, "instant"),
            " to ",
            told("period_to", period.to_at, "instant"),
            " UTC, ",
            told("period_s", period.seconds, "span"),
            ".",
            *([] if len(report.fleets) == 1 else _named_fleets(report.fleets)),
        ),
    )


def _named_fleets(fleets: Sequence[FleetReport]) -> Iterable[str]:
    names = listed([part.fleet for part in fleets], most=6)
    return (
        " ",
        counted("fleets", len(fleets), "fleet"),
        ", each told of by its own nodes alone: ",
        named(names),
        ".",
    )


def _told_part(part: Part, *, several: bool) -> Html:
    told_by = part.facts.quality.nodes
    names = listed([node.node for node in told_by], most=6)
    fleet = part.facts.fleet
    which = [] if fleet == DEFAULT_FLEET and not several else ["Fleet ", named(fleet), ". "]
    witnesses = (
        ["Told by ", counted("nodes", len(told_by), "node"), ": ", named(names), "."]
        if told_by
        else ["No node of it is known in this time."]
    )
    heading = [element("h2", "Fleet ", named(fleet), id=f"{part.place}heading")] if several else []
    return element(
        "div",
        heading,
        element("p", *([] if several else which), *witnesses, class_="told-by"),
        _cards(part.facts),
        [_section(section, part.place) for section in part.sections],
        class_="fleet",
        data_fleet=fleet,
    )


def _contents(parts: Sequence[Part]) -> Html:
    lists: list[Html] = []
    for part in parts:
        links = [
            element("li", element("a", section.title, href=f"#{part.place}{section.name}"))
            for section in part.sections
        ]
        if len(parts) > 1:
            title = named(words.shortened(part.facts.fleet, 24))
            lists.append(element("p", element("a", title, href=f"#{part.place}heading")))
        lists.append(element("ol", links))
    return element("nav", element("h2", "Contents"), lists, aria_label="Table of contents")


def _section(section: Section, place: str) -> Html:
    name = f"{place}{section.name}"
    return element(
        "section",
        element("h2" if not place else "h3", section.title, id=f"{name}-heading"),
        section.body,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


# -- the summary


def _cards(facts: FleetReport) -> Html:
    return element("dl", list(_numbers(facts)), class_="cards")


def _numbers(facts: FleetReport) -> Iterable[Html]:
    total, slo = facts.availability.total, facts.availability.slo
    there = total.availability
    used = total.down_s / total.budget_s if total.budget_s else None
    yield _card(
        "Availability",
        told("availability", there, "percent"),
        ["nothing known"] if there is None else ["target ", told("slo", slo, "percent")],
        None if there is None else "good" if there >= slo else "bad",
    )
    yield _card(
        "Error budget used",
        told("budget_used", used, "percent"),
        [told("down_s", total.down_s, "span"), " down, all brokers"],
        None if used is None else "good" if used < 0.5 else "warn" if used <= 1 else "bad",
    )
    yield _card(
        "Unknown",
        told("unknown_s", total.unknown_s, "span"),
        ["of all brokers, neither up nor down"],
        "warn" if total.unknown_s else "good",
    )
    count = facts.incidents.total
    yield _card(
        "Incidents",
        told("incidents", count),
        [counted("outages", facts.incidents.outages, "outage")],
        "warn" if count else "good",
    )
    yield _agreed(facts.convergence)
    still = facts.divergence.endings.get("open", 0)
    yield _card(
        "Nodes disagree",
        told(about("ended", "open"), still),
        ["now; ", told("disagreements", sum(facts.divergence.endings.values())), " in all"],
        None if len(facts.quality.nodes) < 2 else "bad" if still else "good",
    )
    single = facts.balance.single
    yield _card(
        "On one broker only",
        told("topics_single", single),
        ["of ", counted("topics", facts.balance.topics, "topic")],
        None if not facts.balance.topics else "warn" if single else "good",
    )
    unknown = facts.demand.unknown
    yield _card(
        "Unknown topics asked for",
        told("queries_unknown", unknown),
        ["queries"],
        None if not facts.demand.asked else "warn" if unknown else "good",
    )
    limits = [each for each in facts.forecast if each.limit_on is not None]
    soonest = min(limits, key=lambda each: each.limit_on or each.day, default=None)
    yield _card(
        "Next registration too large",
        "none in sight"
        if soonest is None
        else told(about("full_on", soonest.cluster, soonest.broker), soonest.limit_on, "day"),
        [] if soonest is None else [named(words.shortened(soonest.broker))],
        None if not facts.forecast else "good" if soonest is None else "warn",
    )


def _agreed(facts: Convergence) -> Html:
    """One that a node never showed is not agreed upon, however fast the others were."""
    judged = sum(lag.judged for lag in facts.lags)
    quick = sum(lag.within_1s for lag in facts.lags)
    missed = sum(lag.incomplete for lag in facts.lags)
    share = quick / judged if judged else None
    note = ["of ", counted("changes_judged", judged, "change")]
    if missed:
        note += ["; ", told("changes_incomplete", missed), " not on all nodes"]
    return _card(
        "Agreed within 1 s",
        told("agreed_1s", share, "percent"),
        note,
        None if share is None else "good" if share >= 0.99 else "warn",
    )


def _card(name: str, value: str, note: Iterable[str], judged: str | None) -> Html:
    return element(
        "div",
        joined(element("dt", name), element("dd", value), element("dd", note, class_="note")),
        class_="card" if judged is None else f"card {judged}",
    )
