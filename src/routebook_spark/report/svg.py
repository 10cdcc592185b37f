"""Drawing a plot: SVG to stand in a page, made by matplotlib.

    flapping = Drawing("flapping", 2.0)
    for axes in flapping:
        rows(axes, names, lengths, ...)
    plot = flapping.plot("Who flaps", "broker-a came and went most.")

Each is drawn twice: for windows, and for telephones. Text stays text. Colours are names that the
page explains, so that a plot is dark where the page is. Names from the network are drawn as they
are: nothing in them is taken for a formula.
"""

import io
import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from routebook_spark.report import words
from routebook_spark.report.figures import UNITS, attributes
from routebook_spark.report.html import Html, element, joined, printable

WIDTH, NARROW = 8.4, 3.8  # inches, of 72 units
LABEL, NARROW_LABEL = 30, 15  # characters
WRAPPED = 44  # characters of what is written along an axis, in a narrow one
_SVG = "http://www.w3.org/2000/svg"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_TICKS_S: tuple[float, ...] = (
    *(0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30),
    *(n * _MINUTE_S for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR_S for n in (1, 2, 3, 6, 12)),
    *(n * _DAY_S for n in (1, 2, 7, 14, 30, 90, 180, 360, 3600)),
)
_FACT = "fact "  # before what an id says of a figure
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
    """``name`` is unique in a page; ``text`` says what is to be seen; a wide and a narrow one."""

    name: str
    title: str
    text: Html
    svgs: tuple[Html, Html]


class Note(NamedTuple):
    """What is written beside a bar: a figure."""

    fact: str
    value: float
    unit: str


class Drawing:
    """Axes to draw on, for each of the two sizes, and what makes the plot of them afterwards."""

    def __init__(self, name: str, height: float) -> None:
        self._name = name
        self._height = height
        self._figures: list[Figure] = []

    def __iter__(self) -> Iterator[Axes]:
        for width in (WIDTH, NARROW):
            with mpl.rc_context(_SETTINGS):
                figure = Figure(figsize=(width, self._height), layout="constrained")
                self._figures.append(figure)
                axes = figure.subplots()
                yield axes
                if is_narrow(axes):
                    label = axes.xaxis.label
                    label.set_text("\n".join(textwrap.wrap(label.get_text(), WRAPPED)))

    def plot(self, title: str, *text: str) -> Plot:
        told = joined(text)
        with mpl.rc_context(_SETTINGS):
            wide, narrow = (
                _svg(figure, f"{self._name}{size}", title, told)
                for figure, size in zip(self._figures, ("", "-narrow"), strict=True)
            )
        return Plot(self._name, title, told, (wide, narrow))


def is_narrow(axes: Axes) -> bool:
    figure = axes.get_figure(root=True)
    return figure is not None and figure.get_figwidth() < WIDTH


def days(at: datetime) -> float:
    """Since 1970: where an instant is on an axis of dates."""
    return (at - _EPOCH) / timedelta(days=1)


def bars_over_time(
    axes: Axes,
    instants: Sequence[datetime],
    heights: Sequence[float],
    step_s: int,
    colour: str,
    label: str,
    bottoms: Sequence[float],
) -> None:
    axes.bar(
        [days(at) for at in instants],
        heights,
        bottom=bottoms,
        width=step_s / 86_400 * 0.9,
        align="edge",
        color=colour,
        label=label,
    )


def over(axes: Axes, from_at: datetime, to_at: datetime) -> None:
    """An axis of all of this time, whether something was drawn in it or not."""
    most = 4 if is_narrow(axes) else 9
    step_s, ticks = _ticks(from_at, to_at, most)
    axes.set_xlim(days(from_at), days(to_at))
    axes.set_xticks([days(at) for at in ticks], [f"{at:{_tick_form(step_s)}}" for at in ticks])
    same_day = from_at.date() == (to_at - timedelta(milliseconds=1)).date()
    if step_s < _DAY_S:
        axes.set_xlabel(f"{from_at:%Y-%m-%d}" if same_day else f"since {from_at:%Y-%m-%d %H:%M}")


def _ticks(from_at: datetime, to_at: datetime, most: int) -> tuple[float, list[datetime]]:
    """At most so many instants, at whole numbers of the shortest step that makes so few."""
    begin, lasts_s = days(from_at) * _DAY_S, (to_at - from_at).total_seconds()
    step_s = next((each for each in _TICKS_S if lasts_s / each <= most), _TICKS_S[-1])
    first = math.ceil(begin / step_s - 1e-9)
    whole = [first + n for n in range(int(lasts_s / step_s) + 1)]
    ticks = [_EPOCH + timedelta(seconds=round(number * step_s, 3)) for number in whole]
    return step_s, [at for at in ticks if at <= to_at]


def _tick_form(step_s: float) -> str:
    if step_s < 1:
        return "%H:%M:%S.%f"
    if step_s < _MINUTE_S:
        return "%H:%M:%S"
    if step_s < 6 * _HOUR_S:
        return "%H:%M"
    return "%b %d %H:%M" if step_s < _DAY_S else "%b %d" if step_s < 180 * _DAY_S else "%Y-%m"


def rows(
    axes: Axes,
    names: Sequence[str],
    lengths: Sequence[float],
    colours: Sequence[str],
    notes: Sequence[Note],
) -> None:
    bars = axes.barh(range(len(names)), lengths, height=0.66, color=list(colours))
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1}  # over the lines of the grid
    labels = [UNITS[note.unit](note.value) for note in notes]
    written = axes.bar_label(bars, labels=labels, padding=4, fontsize=8, color=MUTED, bbox=box)
    for text, note in zip(written, notes, strict=True):
        text.set_gid(_FACT + json.dumps(attributes(*note)))
    axes.margins(x=0.3 if is_narrow(axes) else 0.12)
    axes.set_xlim(left=0)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    name_rows(axes, names)


def limit(axes: Axes, at: float) -> None:
    """A line across all rows."""
    axes.axvline(at, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=1.5)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    length = NARROW_LABEL if is_narrow(axes) else LABEL
    shown = [words.shortened(printable(name), length) for name in names]
    axes.set_yticks(range(len(names)), shown)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(len(names) - 0.4, -0.6)


def legend(axes: Axes) -> None:
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=2 if is_narrow(axes) else 4,
        borderaxespad=0,
        handlelength=1,
        handleheight=0.8,
    )


# -- as SVG


def _svg(figure: Figure, name: str, title: str, text: Html) -> Html:
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
    told = element("title", title, id=f"{name}-title") + element(
        "desc", Html(re.sub("<[^>]*>", "", text)), id=f"{name}-text"
    )
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
        own = each.attrib.get("id", "")
        if own.startswith(_FACT):
            facts = json.loads(own.removeprefix(_FACT))
            each.attrib |= {key.replace("_", "-"): value for key, value in facts.items()}
        if own not in used:
            each.attrib.pop("id", None)
        else:
            each.attrib["id"] = f"{name}-{each.attrib['id']}"
        for key, value in each.attrib.items():
            if key.endswith("href") or "url(#" in value:
                each.attrib[key] = reference.sub(rf"#{name}-\1", value)
