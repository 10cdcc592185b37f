"""What a journal holds, in numbers."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from routebook.disk import folder_size
from routebook.events import JournalRecovered, RecordsLost
from routebook.journal.errors import JournalError
from routebook.journal.folder import list_folder
from routebook.journal.manifest import read_removed
from routebook.journal.reader import Damage, Progress, Range, read_lines
from routebook.journal.record import Place, decode, place_of

_DAY_MS = 86_400_000


@dataclass(slots=True)
class Stats:
    """``days`` are counted from 1970, UTC. ``leaps``: kills; ``lost``: records that are nowhere.

    ``removed_seq`` is the last record that retention took away.
    """

    nodes: list[str] = field(default_factory=list)
    records: int = 0
    line_bytes: int = 0
    first: Place | None = None
    last: Place | None = None
    types: Counter[str] = field(default_factory=Counter)
    type_bytes: Counter[str] = field(default_factory=Counter)
    days: Counter[int] = field(default_factory=Counter)
    leaps: int = 0
    lost: int = 0
    segments: int = 0
    snapshots: int = 0
    file_bytes: int = 0
    removed_seq: int = 0


def stats_of(
    folder: Path, *, progress: Progress | None = None, damaged: Damage | None = None
) -> Stats:
    """Read all of ``folder``. Raises JournalError as ``read`` does."""
    stats = Stats()
    for line in read_lines(folder, Range(), progress=progress, damaged=damaged):
        place = place_of(line.text)
        stats.records += 1
        stats.line_bytes += len(line.text)
        stats.types[place.type] += 1
        stats.type_bytes[place.type] += len(line.text)
        stats.days[place.wall_ms // _DAY_MS] += 1
        stats.first = stats.first or place
        stats.last = place
        if place.node not in stats.nodes:
            stats.nodes.append(place.node)
        if place.type in (JournalRecovered.__name__, RecordsLost.__name__):
            _count_loss(stats, line.text, damaged)
    listing = list_folder(folder)
    stats.segments = len(listing.sealed) + len(listing.plain) + listing.active
    stats.snapshots = len(listing.snapshots)
    stats.file_bytes = folder_size(folder)
    removed = read_removed(folder)
    stats.removed_seq = removed.last_seq if removed else 0
    return stats


def _count_loss(stats: Stats, line: bytes, damaged: Damage | None) -> None:
    try:
        event = decode(line).event
    except JournalError as error:
        if damaged is None:
            raise
        damaged(error)
        return
    if isinstance(event, JournalRecovered):
        stats.leaps += 1
    elif isinstance(event, RecordsLost):
        stats.lost += event.count
