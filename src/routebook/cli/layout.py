"""How a table is laid out in the width there is; no word and no address is ever broken.

A table that is too wide is tried with shorter times, then without columns that say nothing, then
without those its command can do without, and at last as a list, a line for each cell. A line below
says what is missing. Prose goes on in the next line; where there is no terminal nothing is narrow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from routebook.documents.columns import Kind
from routebook.words import to_second

GAP = "  "
READABLE = 16  # columns; prose in fewer is no pleasure
_BOLD, _DIM = Style(bold=True), Style(dim=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """``empty``: there is nothing to tell. ``wall_ms`` is that of a moment."""

    text: str
    style: str = ""
    empty: bool = False
    wall_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column as it is shown; the one of the lowest ``drop`` goes first, None: never."""

    heading: str
    kind: Kind
    drop: int | None
    cells: Sequence[Cell]

    @property
    def empty(self) -> bool:
        return all(cell.empty for cell in self.cells)

    @property
    def wanted(self) -> int:
        texts = (line for cell in self.cells for line in cell.text.split("\n"))
        return max(map(cell_len, (self.heading, *texts)))

    @property
    def least(self) -> int:
        heading = _longest_word(self.heading)
        if self.kind is Kind.VALUE:
            return max(heading, min(self.wanted, READABLE))
        if self.kind is not Kind.PROSE:
            texts = (line for cell in self.cells for line in cell.text.split("\n"))
            return max(heading, *map(cell_len, texts), 0)
        words = max((_longest_word(cell.text) for cell in self.cells), default=0)
        return max(heading, words, min(self.wanted, READABLE))


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a table, and a line below it."""

    columns: Sequence[ShownColumn]
    below: str = ""

    def fits(self, width: int) -> bool:
        gaps = len(GAP) * (len(self.columns) - 1)
        return sum(column.least for column in self.columns) + gaps <= width


class TableView:
    """A renderable: the table in the width that the console has, or a list from the start."""

    def __init__(
        self, title: str | None, columns: Sequence[ShownColumn], *, as_list: bool = False
    ) -> None:
        self._title = title
        self._columns = columns
        self._as_list = as_list

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if self._title is not None:
            yield from _prose(self._title, width, _BOLD)
        attempts = () if self._as_list else _attempts(self._columns)
        found = next((laid for laid in attempts if laid.fits(width)), None)
        if found is None:
            yield from _vertical(console, self._columns, width)
            return
        yield from _horizontal(console, found.columns, width)
        if found.below:
            yield from _prose(found.below, width, _DIM)


def _attempts(columns: Sequence[ShownColumn]) -> Iterator[Layout]:
    yield Layout(columns)
    short, times = _short_times(columns)
    yield Layout(short, times)
    left = [column for column in short if not column.empty] or list(short)
    yield Layout(left, times)
    gone: list[str] = []
    while droppable := [column for column in left if column.drop is not None]:
        first = min(droppable, key=lambda column: column.drop or 0)
        left = [column for column in left if column is not first]
        gone.append(first.heading)
        room = f"not shown for want of room: {', '.join(gone)}"
        yield Layout(left, f"{times}; {room}" if times else room)


def _short_times(columns: Sequence[ShownColumn]) -> tuple[list[ShownColumn], str]:
    """``03:12:04`` where all are of one day, else ``11-15 03:12:04``; and which day it is."""
    moments = {
        to_second(cell.wall_ms)
        for column in columns
        for cell in column.cells
        if cell.wall_ms is not None
    }
    days, years = {text[:10] for text in moments}, {text[:4] for text in moments}
    if len(years) != 1 or not all(text.endswith("Z") for text in moments):
        return list(columns), ""
    begins = len("2026-11-15T") if len(days) == 1 else len("2026-")

    def shortened(cell: Cell) -> Cell:
        if cell.wall_ms is None:
            return cell
        return replace(cell, text=to_second(cell.wall_ms)[begins:-1].replace("T", " "))

    short = [replace(each, cells=tuple(map(shortened, each.cells))) for each in columns]
    return short, f"times of {min(days)}, UTC" if len(days) == 1 else f"times of {min(years)}, UTC"


def _horizontal(console: Console, columns: Sequence[ShownColumn], width: int) -> RenderResult:
    widths = _widths(columns, width)
    headings = [
        _wrapped(column.heading, room) for column, room in zip(columns, widths, strict=True)
    ]
    deepest = max(map(len, headings), default=1)
    aligned = [[""] * (deepest - len(lines)) + lines for lines in headings]
    right = [column.kind is Kind.NUMBER for column in columns]
    yield from _lines(aligned, widths, right, [_BOLD] * len(columns))
    yield Segment("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    yield Segment.line()
    styles: dict[str, Style] = {}
    for row in zip(*(column.cells for column in columns), strict=True):
        for cell in row:
            if cell.style not in styles:
                styles[cell.style] = console.get_style(cell.style or "none")
        wide = [
            column.kind is Kind.VALUE and _longest_word(cell.text) > room
            for column, cell, room in zip(columns, row, widths, strict=True)
        ]
        wrapped = [
            [""] if below else _wrapped(cell.text, room)
            for cell, room, below in zip(row, widths, wide, strict=True)
        ]
        yield from _lines(wrapped, widths, right, [styles[cell.style] for cell in row])
        for cell in compress(row, wide):
            yield from _prose(cell.text, width, styles[cell.style], indent=GAP)


def _widths(columns: Sequence[ShownColumn], width: int) -> list[int]:
    """What each wants; where there is too little room prose gets what others leave."""
    wanted = [column.wanted for column in columns]
    room = width - len(GAP) * (len(columns) - 1)
    if sum(wanted) <= room:
        return wanted
    widths = [column.least for column in columns]
    for _ in range(room - sum(widths)):
        short = [n for n in range(len(widths)) if widths[n] < wanted[n]]
        widths[min(short, key=lambda n: widths[n] / wanted[n])] += 1
    return widths


def _lines(
    cells: Sequence[Sequence[str]],
    widths: Sequence[int],
    right: Sequence[bool],
    styles: Sequence[Style],
) -> Iterator[Segment]:
    for number in range(max(map(len, cells), default=0)):
        texts = [lines[number] if number < len(lines) else "" for lines in cells]
        last = max((place for place, text in enumerate(texts) if text), default=0)
        for place, text in enumerate(texts[: last + 1]):
            blanks = Segment(" " * (widths[place] - cell_len(text)))
            if right[place]:
                yield blanks
            yield Segment(text, styles[place])
            if place < last:
                yield Segment(GAP) if right[place] else Segment(blanks.text + GAP)
        yield Segment.line()


def _vertical(console: Console, columns: Sequence[ShownColumn], width: int) -> RenderResult:
    """A line for each cell that says something, its heading before it."""
    headings = max(cell_len(column.heading) for column in columns)
    room = width - headings - len(GAP)
    for number, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if number:
            yield Segment.line()
        for column, cell in zip(columns, row, strict=True):
            if cell.empty:
                continue
            style = console.get_style(cell.style or "none")
            if _longest_word(cell.text) > room:  # it needs the whole width, and has it
                cells = [[column.heading], [""]]
                yield from _lines(cells, [headings, 0], [False] * 2, [_BOLD, style])
                yield from _prose(cell.text, width, style)
            else:
                cells = [[column.heading], _wrapped(cell.text, room)]
                yield from _lines(cells, [headings, room], [False] * 2, [_BOLD, style])


def _prose(text: str, width: int, style: Style, indent: str = "") -> Iterator[Segment]:
    """Indented if that breaks no word."""
    indent = indent if _longest_word(text) + len(indent) <= width else ""
    for line in _wrapped(text, width - len(indent)):
        yield Segment(indent)
        yield Segment(line, style)
        yield Segment.line()


def _wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of that width, parted at blanks; only a word wider than it is cut."""
    if "\n" not in text and cell_len(text) <= width:
        return [text]
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            longer = f"{line} {word}" if line else word
            if cell_len(longer) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            *whole, line = chop_cells(word, max(width, 1)) or [""]
            lines += whole
        lines.append(line)
    return lines


def _longest_word(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=0)


def moment(wall_ms: int) -> Cell:
    return Cell(to_second(wall_ms), wall_ms=wall_ms)
