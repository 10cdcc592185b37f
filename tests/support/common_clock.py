"""The common clock in plain Python, for what is worked out a second time."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

Row = dict[str, Any]
Key = tuple[Any, ...]

DAY_MS = 86_400_000
UNSEEN = ("node_restarted", "lost_track")


def day_of(ms: int) -> date:
    return datetime.fromtimestamp(ms / 1000, UTC).date()


def wall_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


class Clocks:
    def __init__(self, skew: Iterable[Row]) -> None:
        self._rows = list(skew)

    def ms(self, node: str, at: datetime) -> int:
        """On the common clock."""
        row = self._last(node, at.date())
        return wall_ms(at) - (row["offset_ms"] if row else 0)

    def uncertainty_ms(self, node: str, ms: int) -> int:
        row = self._last(node, day_of(ms))
        return row["uncertainty_ms"] if row else 1000

    def _last(self, node: str, day: date) -> Row | None:
        rows = [row for row in self._rows if row["node"] == node and row["day"] <= day]
        return max(rows, key=lambda row: row["day"], default=None)
