from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routebook.journal.errors import BadRecord, BadSegment, JournalError, NewerSchema
from routebook.journal.folder import ACTIVE, Span
from routebook.journal.reader import follow, last_lines, node_of, read, segments
from routebook.journal.record import decode
from support.journals import NODE, NOON_MS, chained, lay, record, seqs, span_of


def append(folder: Path, lines: bytes) -> None:
    with (folder / ACTIVE).open("ab") as file:
        file.write(lines)


def test_all_records_come_in_order(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5), closed=span_of(6, 7), active=span_of(8, 9))
    assert list(read(tmp_path)) == span_of(1, 9)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        pytest.param(None, None, range(1, 10), id="all"),
        pytest.param(4, None, range(4, 10), id="from-the-start-of-a-segment"),
        pytest.param(5, 6, range(5, 7), id="over-an-edge"),
        pytest.param(None, 1, range(1, 2), id="the-first"),
        pytest.param(9, 9, range(9, 10), id="the-last"),
        pytest.param(10, None, (), id="behind-the-end"),
        pytest.param(5, 4, (), id="nothing"),
    ],
)
def test_records_are_found_by_number(
    tmp_path: Path, first: int | None, last: int | None, expected: range
) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5), closed=span_of(6, 7), active=span_of(8, 9))
    assert seqs(read(tmp_path, from_seq=first, to_seq=last)) == list(expected)


def test_records_are_found_by_time_although_the_clock_was_set_back(tmp_path: Path) -> None:
    times = [[100, 200, 900], [300, 50, 60], [400, 500]]
    numbers = iter(range(1, 9))
    records = [[record(next(numbers), wall_ms=ms) for ms in segment] for segment in times]
    lay(tmp_path, *records, active=[record(9, wall_ms=200)])
    assert seqs(read(tmp_path, from_ms=50, to_ms=100)) == [1, 5, 6]
    assert seqs(read(tmp_path, from_ms=800)) == [3]
    assert seqs(read(tmp_path, from_ms=200, to_ms=400)) == [2, 4, 7, 9]


def test_segments_out_of_time_are_not_opened(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 6), span_of(7, 9))
    (tmp_path / Span(1, 3).packed).write_bytes(b"damaged")
    (tmp_path / Span(7, 9).packed).write_bytes(b"damaged")
    between = read(tmp_path, from_ms=NOON_MS + 4000, to_ms=NOON_MS + 6999)
    assert seqs(between) == [4, 5, 6]


def test_a_segment_with_a_bad_manifest_is_read_all_the_same(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 6))
    (tmp_path / Span(1, 3).manifest).write_text("{}")
    assert seqs(read(tmp_path, from_ms=NOON_MS + 2000, to_ms=NOON_MS + 4000)) == [2, 3, 4]


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 3))
    append(tmp_path, b'{"v":1,"seq":4,"no')
    assert seqs(read(tmp_path)) == [1, 2, 3]


def test_records_that_are_there_twice_come_once(tmp_path: Path) -> None:
    """Sealed, and the plain file not yet gone; or a copy that somebody made."""
    lay(tmp_path, span_of(1, 3), active=span_of(4, 5))
    (tmp_path / Span(1, 3).plain).write_bytes(b"".join(chained(span_of(1, 3))))
    (tmp_path / Span(2, 3).plain).write_bytes(b"".join(chained(span_of(2, 3))))
    assert seqs(read(tmp_path)) == [1, 2, 3, 4, 5]


def test_damage_raises_with_its_place(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 3))
    append(tmp_path, b"garbage\n")
    with pytest.raises(BadRecord, match=r"active\.jsonl line 4: not a record"):
        list(read(tmp_path))
    (tmp_path / ACTIVE).write_bytes(chained(span_of(1, 1))[0].replace(b'"v":1', b'"v":2'))
    with pytest.raises(NewerSchema):
        list(read(tmp_path))


def test_damage_can_be_passed_over(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 500), span_of(501, 600), span_of(601, 610), active=span_of(611, 612))
    packed = tmp_path / Span(1, 500).packed
    packed.write_bytes(packed.read_bytes()[:-1000])
    (tmp_path / Span(501, 600).packed).unlink()
    append(tmp_path, b"garbage\n" + b"".join(chained(span_of(613, 614))))
    told: list[JournalError] = []
    found = seqs(read(tmp_path, damaged=told.append))
    first = found.index(601)
    assert found[:first] == list(range(1, first + 1))
    assert found[first:] == list(range(601, 615))
    assert [type(error) for error in told] == [BadSegment, BadSegment, BadRecord]
    assert f"ends too early, after line {first}" in str(told[0])
    assert str(told[1]) == f"{Span(501, 600).packed} is missing"


def test_progress_ends_with_all_there_is(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 30), span_of(31, 60), active=span_of(61, 62))
    told: list[tuple[int, int]] = []
    list(read(tmp_path, progress=lambda done, total: told.append((done, total))))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0
    told.clear()
    list(read(tmp_path, from_ms=NOON_MS + 61_000, progress=lambda *done: told.append(done)))
    assert told[-1][0] == told[-1][1] > 0


def test_the_last_lines_come_from_as_many_files_as_it_takes(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5), closed=span_of(6, 7), active=span_of(8, 9))
    for count in range(11):
        found = [decode(line.text).seq for line in last_lines(tmp_path, count)]
        assert found == list(range(1, 10))[9 - min(count, 9) :]


def test_a_folder_knows_its_node_and_its_segments(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), span_of(4, 5), active=span_of(6, 6))
    assert node_of(tmp_path) == NODE
    assert [manifest.span for manifest in segments(tmp_path)] == [Span(1, 3), Span(4, 5)]


def test_a_folder_with_nothing_but_an_active_segment_knows_its_node(tmp_path: Path) -> None:
    assert node_of(lay(tmp_path, active=span_of(1, 1))) == NODE


def test_an_empty_folder_has_no_node(tmp_path: Path) -> None:
    assert list(read(tmp_path)) == []
    with pytest.raises(JournalError, match="holds no records"):
        node_of(tmp_path)


# -- a node that writes meanwhile


def followed(
    folder: Path, steps: Iterator[Callable[[], object]], *, from_seq: int = 1
) -> list[int]:
    """What is read when the next of ``steps`` is taken whenever there is nothing new."""

    def wait() -> bool:
        step = next(steps, None)
        if step is not None:
            step()
        return step is not None

    return [decode(line.text).seq for line in follow(folder, from_seq=from_seq, wait=wait)]


def test_following_goes_on_with_what_is_written(tmp_path: Path) -> None:
    lines = chained(span_of(1, 6))
    lay(tmp_path, active=span_of(1, 2))
    steps = iter(
        [
            lambda: append(tmp_path, lines[2][:30]),
            lambda: append(tmp_path, lines[2][30:]),
            lambda: append(tmp_path, lines[3] + lines[4] + lines[5][:-1]),
            lambda: append(tmp_path, b"\n"),
        ]
    )
    assert followed(tmp_path, steps, from_seq=2) == [2, 3, 4, 5, 6]


def test_following_goes_on_in_the_next_segment(tmp_path: Path) -> None:
    lines = chained(span_of(1, 9))
    lay(tmp_path, active=span_of(1, 2))

    def rotate() -> None:
        append(tmp_path, lines[2])
        (tmp_path / ACTIVE).rename(tmp_path / Span(1, 3).plain)
        append(tmp_path, lines[3])

    def rotate_twice_and_seal() -> None:
        (tmp_path / ACTIVE).unlink()
        lay(tmp_path, span_of(1, 3), span_of(4, 5), closed=span_of(6, 7), active=span_of(8, 9))

    steps = iter([rotate, lambda: None, rotate_twice_and_seal, lambda: None])
    assert followed(tmp_path, steps) == list(range(1, 10))


def test_following_waits_for_a_node_to_start(tmp_path: Path) -> None:
    steps = iter(
        [lambda: lay(tmp_path, span_of(1, 2)), lambda: lay(tmp_path, active=span_of(3, 3))]
    )
    assert followed(tmp_path, steps) == [1, 2, 3]


def test_an_active_segment_closed_between_two_looks_is_not_skipped(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 2), active=span_of(3, 4))
    reading = read(tmp_path)
    assert next(reading).seq == 1
    # While segment 1-2 is read, 3-4 is closed, sealed, and a new one begun.
    (tmp_path / ACTIVE).unlink()
    lay(tmp_path, span_of(1, 2), span_of(3, 4), active=span_of(5, 5))
    assert seqs(reading) == [2, 3, 4, 5]


def test_a_segment_removed_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 2), span_of(3, 4))
    reading = read(tmp_path)
    assert next(reading).seq == 1
    for name in (Span(1, 2).packed, Span(1, 2).manifest):
        (tmp_path / name).unlink()
    assert seqs(reading) == [2, 3, 4]
