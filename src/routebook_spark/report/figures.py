"""Figures: numbers and times of a page that know what they are figures of.

    told("down_s/c1/broker-a/0", 8.5, "span")
    # <span data-fact="down_s/c1/broker-a/0" data-value="8.5" data-unit="span">8.5 s</span>

What is told twice has one name. That a page has one value for each name, and writes it as ``words``
does, is a test that needs to know nothing of the page.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from routebook.words import plural
from routebook_spark.report import words
from routebook_spark.report.html import Html, element, joined

Value = float | datetime | date | None

UNITS: dict[str, Callable[[Any], str]] = {
    "number": words.number,
    "hundredths": lambda value: words.number(value, 2),
    "percent": words.percent,
    "span": words.span,
    "size": words.size,
    "instant": words.instant,
    "minute": words.minute,
    "clock": words.clock,
    "day": lambda value: words.NOTHING if value is None else str(value),
}


def told(name: str, value: Value, unit: str = "number") -> Html:
    return element("span", UNITS[unit](value), **attributes(name, value, unit))


def attributes(name: str, value: Value, unit: str) -> dict[str, str]:
    return {"data_fact": name, "data_value": written(value), "data_unit": unit}


def written(value: Value) -> str:
    """Exactly, to be compared."""
    if isinstance(value, date):
        return value.isoformat()
    return "" if value is None else repr(value)


def counted(name: str, count: int, noun: str) -> Html:
    """As in ``1 topic`` and ``2 topics``."""
    return joined(told(name, count), " ", plural(count, noun))


def about(*names: object) -> str:
    """The name of a figure: what it is, and of what."""
    return "/".join(str(name) for name in names)


def named(name: str) -> Html:
    """A name, which may have digits in it."""
    return element("span", name, data_name="")
