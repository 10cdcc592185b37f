"""QueryTally: how often each topic was asked for since it was last looked at.

A cell belongs to a topic until the tally is taken. Whoever answers a question many times over
(the memo) keeps the cell and counts in it directly; after a take it must ask for a new one.
"""

from collections.abc import Iterable, Iterator

from routebook.events import QueryCount

MAX_TOPICS = 20_000  # anybody can ask for any name
MAX_NAME = 255
KNOWN, UNKNOWN, NOT_READY = 0, 1, 2

Cell = list[int]


class QueryTally:
    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}
        self._others: Cell = [0, 0, 0]
        self._taken: Cell = [0, 0, 0]  # all that was counted before

    def cell(self, topic: str) -> Cell:
        """Where questions for ``topic`` are counted."""
        cell = self._cells.get(topic)
        if cell is None:
            if len(self._cells) >= MAX_TOPICS or len(topic) > MAX_NAME:
                return self._others
            cell = self._cells[topic] = [0, 0, 0]
        return cell

    def take(self) -> tuple[Iterator[QueryCount], int]:
        """What was counted, by topic and for those too many to list; counting begins anew."""
        cells, self._cells = self._cells, {}
        others, self._others = self._others, [0, 0, 0]
        self._taken = _summed((self._taken, others, *cells.values()))
        counts = (QueryCount(topic, *cell) for topic, cell in cells.items() if any(cell))
        return counts, sum(others)

    def totals(self) -> Cell:
        """All questions since the node began: known, unknown, not ready."""
        return _summed((self._taken, self._others, *self._cells.values()))


def _summed(cells: Iterable[Cell]) -> Cell:
    return list(map(sum, zip(*cells, strict=True)))
