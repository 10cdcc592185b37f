"""Drawing a plot: SVG to stand in a page, made by matplotlib.

    with drawing("flapping", 2.0) as (drawn, axes):
        rows(axes, names, lengths, ...)
    plot = drawn("Who flaps", "broker-a came and went most.")

Text stays text. Colours are names that the page explains, so that a plot is dark where the page is.
Names from the network are drawn as they are: nothing in them is taken for a formula.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from routebook_spark.report import words
from routebook_spark.report.html import Html, element, printable

WIDTH = 8.4  # inches, of 72 units
LABEL = 30  # characters
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"

# Drawn in colours nobody uses, which are then replaced by the names of those of the page.
_NAMES = ("paper", "ink", "muted", "line", "accent", "second", "good", "warn", "bad", "quiet")
_COLOURS = {name: f"#0102{number:02x}" for number, name in enumerate(_NAMES, start=16)}
PAPER, INK, MUTED, LINE, ACCENT, SECOND, GOOD, WARN, BAD, QUIET = _COLOURS.values()

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "routebook",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same layout everywhere
    "font.size": 8,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "hatch.linewidth": 0.6,
}


class Plot(NamedTuple):
    """``name`` is unique in a page; ``text`` says what is to be seen."""

    name: str
    title: str
    text: str
    svg: Html


@contextmanager
def drawing(name: str, height: float) -> Iterator[tuple[Callable[[str, str], Plot], Axes]]:
    """Axes to draw on, and what makes the plot of them afterwards."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")

        def drawn(title: str, text: str) -> Plot:
            with mpl.rc_context(_SETTINGS):
                return Plot(name, title, text, _svg(figure, name, title, text))

        yield drawn, figure.subplots()


def days(at: datetime) -> float:
    """Since 1970: where an instant is on an axis of dates."""
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def bars_over_time(
    axes: Axes,
    instants: Sequence[datetime],
    heights: Sequence[float],
    step: str,
    colour: str,
    label: str,
    bottoms: Sequence[float],
) -> None:
    length = timedelta(hours=1) if step == "hour" else timedelta(days=1)
    axes.bar(
        [days(at) for at in instants],
        heights,
        bottom=bottoms,
        width=length / timedelta(days=1) * 0.88,
        align="edge",
        color=colour,
        label=label,
    )
    dates(axes)


def dates(axes: Axes) -> None:
    locator = AutoDateLocator(minticks=3, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    )


def rows(
    axes: Axes,
    names: Sequence[str],
    lengths: Sequence[float],
    colours: Sequence[str],
    notes: Sequence[str],
) -> None:
    bars = axes.barh(range(len(names)), lengths, height=0.66, color=list(colours))
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}  # over the lines of the grid
    axes.bar_label(bars, labels=list(notes), padding=4, fontsize=8, color=MUTED, bbox=box)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    name_rows(axes, names)


def limit(axes: Axes, at: float) -> None:
    """A line across all rows."""
    axes.axvline(at, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    shown = [words.shortened(printable(name), LABEL) for name in names]
    axes.set_yticks(range(len(names)), shown)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)


def legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=4,
        borderaxespad=0,
        handlelength=1,
        handleheight=0.8,
    )


# -- as SVG


def _svg(figure: Figure, name: str, title: str, text: str) -> Html:
    """Without what only a file of its own needs, with ids that nothing else in a page has."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    root = ElementTree.fromstring(file.getvalue())
    for child in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(child)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-text"}
    _rename_ids(root, name)
    drawing = ElementTree.tostring(root, encoding="unicode")
    for colour_name, colour in _COLOURS.items():
        drawing = drawing.replace(colour, f"var(--{colour_name})")
    start = drawing.index(">") + 1
    told = element("title", title, id=f"{name}-title") + element("desc", text, id=f"{name}-text")
    return Html(drawing[:start] + told + re.sub(r">\s+<", "><", drawing[start:]))


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    """Keep those that are referred to."""
    reference = re.compile(r"#([\w.-]+)")
    used = {
        found
        for each in root.iter()
        for key, value in each.attrib.items()
        if key.endswith("href") or "url(#" in value
        for found in reference.findall(value)
    }
    for each in root.iter():
        if each.attrib.get("id") not in used:
            each.attrib.pop("id", None)
        else:
            each.attrib["id"] = f"{name}-{each.attrib['id']}"
        for key, value in each.attrib.items():
            if key.endswith("href") or "url(#" in value:
                each.attrib[key] = reference.sub(rf"#{name}-\1", value)
