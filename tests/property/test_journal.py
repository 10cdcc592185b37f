"""Records and journals of anything, read after anything happened to them."""

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from routebook.events import Cause, KvChanged, QueueChange, TopicsChanged
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE
from routebook.journal.lock import Note
from routebook.journal.reader import Range, read, read_lines
from routebook.journal.record import Record, decode, encode, hash_of, place_of, true_hash
from routebook.journal.repair import repair
from routebook.journal.verify import verify
from support.journals import chained, numbered, span_of

NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SHAPES = st.none() | st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
CHANGES = st.builds(QueueChange, TEXTS, SHAPES, SHAPES, SHAPES)
EVENTS = st.builds(
    TopicsChanged,
    revision=NUMBERS,
    cause=st.sampled_from(Cause),
    peer=TEXTS,
    cluster=TEXTS,
    broker=TEXTS,
    changes=st.lists(CHANGES, unique_by=lambda change: change.topic).map(tuple),
) | st.builds(KvChanged, revision=NUMBERS, namespace=TEXTS, key=TEXTS, peer=TEXTS)
RECORDS = st.builds(Record, st.integers(1, 2**62), NUMBERS, NUMBERS, TEXTS, EVENTS)


@given(RECORDS, st.binary(min_size=8, max_size=8))
def test_a_record_reads_as_it_was_written(record: Record, previous: bytes) -> None:
    line = encode(record, previous)
    assert line.count(b"\n") == 1
    assert hash_of(line) == true_hash(line, previous)
    found = decode(line)
    if isinstance(record.event, TopicsChanged) and isinstance(found.event, TopicsChanged):
        # Topics that changed alike stand together; their order says nothing.
        assert set(found.event.changes) == set(record.event.changes)
        found = replace(found, event=replace(found.event, changes=record.event.changes))
    assert found == record


@given(st.text().map(lambda key: replace(numbered(1), key=key)))
def test_any_name_can_be_written(event: KvChanged) -> None:
    found = decode(encode(Record(1, 2, 3, "n", event))).event
    assert isinstance(found, KvChanged)
    assert found.key == event.key.encode(errors="replace").decode()


@st.composite
def nearly_records(draw: st.DrawFn) -> bytes:
    """A line with one stretch overwritten."""
    line = encode(draw(RECORDS))
    start, noise = draw(st.integers(0, len(line))), draw(st.binary(max_size=8))
    return line[:start] + noise + line[start + len(noise) :]


@given(nearly_records() | st.binary())
def test_any_bytes_are_a_record_or_a_journal_error(line: bytes) -> None:
    try:
        decode(line)
    except JournalError:
        pass


LINES = chained(span_of(1, 6))
WHOLE = b"".join(LINES)


@st.composite
def damage(draw: st.DrawFn) -> bytes:
    """The lines with a stretch before the last two overwritten, cut out or put in."""
    start = draw(st.integers(0, len(WHOLE) - len(LINES[-1]) - len(LINES[-2])))
    gone = draw(st.integers(0, 400))
    put = draw(st.binary(max_size=20) | st.sampled_from(LINES))
    rest = WHOLE[start + gone :]
    assume(rest.endswith(LINES[-1]))
    return WHOLE[:start] + put + rest


@settings(max_examples=100)
@given(damage())
def test_whatever_is_done_to_the_lines_is_found_and_can_be_lived_with(content: bytes) -> None:
    assume(content != WHOLE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / ACTIVE).write_bytes(content)
        assert not verify(folder).sound
        told: list[JournalError] = []
        list(read(folder, damaged=told.append))

        found = repair(folder, Note(pid=1))
        assert found.unclean
        numbers = [place_of(line.text).seq for line in read_lines(folder, Range())]
        assert all(before < after for before, after in pairwise(numbers))
        assert found.last_seq == max(numbers, default=0)
