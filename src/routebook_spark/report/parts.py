"""What sections of the page are put together from."""

from typing import NamedTuple

from routebook_spark.report.html import Html, element
from routebook_spark.report.svg import Plot


class Section(NamedTuple):
    name: str
    title: str
    body: Html


def lead(*text: str) -> Html:
    """What the numbers below mean."""
    return element("p", text, class_="lead")


def empty(*text: str) -> Html:
    """Instead of numbers, where there are none."""
    return element("p", text, class_="empty")


def figure(plot: Plot) -> Html:
    caption = element("figcaption", f"{plot.title}. ", element("span", plot.text))
    wide, narrow = (
        element("div", svg, class_=kind)
        for svg, kind in zip(plot.svgs, ("wide", "narrow"), strict=True)
    )
    return element("figure", caption, wide, narrow, id=f"plot-{plot.name}")
