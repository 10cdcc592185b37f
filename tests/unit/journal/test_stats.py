from pathlib import Path

import pytest

from routebook.events import Cause, RecordsLost
from routebook.journal.errors import BadRecord, JournalError
from routebook.journal.folder import ACTIVE, Span, list_folder, snapshot_name
from routebook.journal.retention import remove
from routebook.journal.stats import Stats, stats_of
from support.journals import DAY_MS, NODE, NOON_MS, chained, lay, record, recovered, span_of

LOST = RecordsLost(revision=1, cause=Cause.JOURNAL, peer="", count=40, since_ms=NOON_MS)


def test_a_journal_in_numbers(tmp_path: Path) -> None:
    later = [record(2**21, recovered(3), wall_ms=NOON_MS + DAY_MS), record(2**21 + 1, LOST)]
    lay(tmp_path, span_of(1, 3), closed=later, active=span_of(2**21 + 2, 2**21 + 2))
    (tmp_path / snapshot_name(3)).write_bytes(b"x" * 100)
    (tmp_path / "notes.txt").write_bytes(b"x" * 50)
    stats = stats_of(tmp_path)
    assert (stats.nodes, stats.records) == ([NODE], 6)
    assert stats.first is not None
    assert stats.last is not None
    assert (stats.first.seq, stats.last.seq) == (1, 2**21 + 2)
    assert stats.types == {"KvChanged": 4, "JournalRecovered": 1, "RecordsLost": 1}
    assert sum(stats.type_bytes.values()) == stats.line_bytes
    assert stats.line_bytes == sum(map(len, chained([*span_of(1, 3), *later, record(2**21 + 2)])))
    assert sorted(stats.days.values()) == [1, 2, 3]
    assert (stats.leaps, stats.lost) == (1, 40)
    assert (stats.segments, stats.snapshots, stats.removed_seq) == (3, 1, 0)
    assert stats.file_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_an_empty_folder_in_numbers(tmp_path: Path) -> None:
    assert stats_of(tmp_path) == Stats()


def test_what_retention_removed_is_known(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5))
    remove(tmp_path, [Span(1, 3)], list_folder(tmp_path), now_ms=0)
    assert stats_of(tmp_path).removed_seq == 3


def test_damage_raises_or_is_told(tmp_path: Path) -> None:
    bad = chained([record(1, LOST)])[0].replace(b'"count":40', b'"count":"x"')
    (tmp_path / ACTIVE).write_bytes(bad + b"garbage\n")
    with pytest.raises(BadRecord):
        stats_of(tmp_path)
    told: list[JournalError] = []
    stats = stats_of(tmp_path, damaged=told.append)
    assert (len(told), stats.records, stats.lost) == (2, 1, 0)
