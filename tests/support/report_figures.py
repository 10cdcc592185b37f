"""A page of a report, read as a stranger would: every figure on it, and what it is a figure of.

figures_of(page)        # every one, with the fleet it is in
contradictions(page)    # what is told twice and differs, or is not written as it should be
loose_numbers(page)     # numbers that do not say what they are of
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple

from routebook_spark.report.figures import UNITS

VOID = frozenset({"meta", "br", "hr"})

# Numbers that are the same on every page: they explain, and are nothing that was counted.
CONSTANTS = (
    "against the targets of 1 s and 30 s",
    "costs it 1000 points, which halve every 15 minutes. Above 2000",
    "until it is below 750",
    "Clients that ask every 30 s",
    "1 is even, 2 twice as much",
    "in means; 1 is even.",
    "Agreed within 1 s",
)
STEPS = re.compile(r"in each \d+ (seconds|minutes|hours|days)")


class Figure(NamedTuple):
    fleet: str
    fact: str
    value: str
    unit: str
    text: str


class Words(NamedTuple):
    """A piece of text, and the elements it is in, with their attributes."""

    text: str
    inside: tuple[tuple[str, dict[str, str | None]], ...]

    def given(self, attribute: str) -> str | None:
        return next(
            (given[attribute] for _, given in reversed(self.inside) if attribute in given), None
        )

    def within(self, *tags: str) -> bool:
        return any(tag in tags for tag, _ in self.inside)


class _Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[Words] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.words.append(Words(data, tuple(self.open)))


def words_of(page: str) -> list[Words]:
    return _Reader(page).words


def figures_of(page: str) -> Iterator[Figure]:
    for words in words_of(page):
        fact = words.given("data-fact")
        if fact is not None and words.text.strip():
            fleet = words.given("data-fleet") or ""
            value, unit = words.given("data-value") or "", words.given("data-unit") or ""
            yield Figure(fleet, fact, value, unit, words.text.strip())


def value_of(figure: Figure) -> Any:
    if not figure.value:
        return None
    if figure.unit in ("instant", "minute", "clock"):
        return datetime.fromisoformat(figure.value)
    if figure.unit == "day":
        return date.fromisoformat(figure.value)
    return float(figure.value)


def by_fact(page: str, fleet: str) -> dict[str, Any]:
    """The value of every fact about a fleet."""
    return {each.fact: value_of(each) for each in figures_of(page) if each.fleet == fleet}


def contradictions(page: str) -> list[str]:
    wrong: list[str] = []
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in figures_of(page):
        values[each.fleet, each.fact].add(each.value)
        if UNITS[each.unit](value_of(each)) != each.text:
            wrong.append(f"{each.fact} is {each.value} and written {each.text}")
    wrong += [f"{key} is {sorted(found)}" for key, found in values.items() if len(found) > 1]
    return wrong


def loose_numbers(page: str) -> list[str]:
    """Text with digits in it that is neither a figure, nor a name, nor an axis of a plot."""
    loose = []
    for words in words_of(page):
        known = words.given("data-fact") is not None or words.given("data-name") is not None
        # Cells of figures are figures by construction; the others hold names, and words.
        quoted = words.within("style", "title", "svg", "h1", "caption", "thead", "tbody")
        text = STEPS.sub("", words.text)
        for constant in CONSTANTS:
            text = text.replace(constant, "")
        if not known and not quoted and re.search(r"\d", text):
            loose.append(words.text)
    return loose
