"""A view told as events is the same view to whoever hears them, at every record."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from routebook.events import GroupRestated, StateRestated
from routebook.journal import restating
from routebook.journal.before import TOO_LARGE, Before, before, decoded, encoded, main
from routebook.journal.record import Record, decode
from routebook.journal.restating import restated
from routebook.journal.view import View
from support.journals import lay, record
from support.telling import full_day, played, records_of

LIMIT = 1 << 20


def heard(view: View) -> View:
    """What somebody believes who hears all of ``view``, and has it from there when each began."""
    other = View()
    for event in restated(view):
        other.tell(event, wall_ms=view.wall_ms)
    for known in view.groups.listed():
        found = other.groups.find(*known.key)
        assert found is not None
        for broker_id, member in known.members.items():
            found.members[broker_id].since_ms = member.since_ms
    return other


def test_the_same_is_believed_after_every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restating, "QUEUES_A_PART", 2)
    records = records_of(full_day())
    for count in range(len(records) + 1):
        view = played(records[:count])
        other = heard(view)
        assert other.groups == view.groups
        assert other.kv == view.kv
        assert other.generation == view.generation
        assert not other.contradictions


def test_what_is_asked_for_is_told_alone() -> None:
    view = played(records_of(full_day()))
    group = next(g for g in view.groups.listed() if g.queues)
    topic = next(iter(group.queues))
    *groups, state = restated(view, topic=topic)
    assert isinstance(state, StateRestated)
    assert state.groups == len(groups) == len(view.groups)
    for event in groups:
        assert isinstance(event, GroupRestated)
        assert {change.topic for change in event.queues} <= {topic}
        assert {mapping.topic for mapping in event.mappings} <= {topic}
    *groups, state = restated(view, broker=group.broker)
    assert {event.broker for event in groups if isinstance(event, GroupRestated)} == {group.broker}
    assert (state.groups, state.kv) == (len(groups), {})  # type: ignore[union-attr]
    *groups, state = restated(view, broker="nobody")
    assert groups == []


# -- before a record of a journal


def whole(found: Before, later: Sequence[Record]) -> View:
    assert found.why is None
    return played([*map(decode, found.lines), *later])


@pytest.mark.parametrize("how", ["sealed", "closed", "active"])
def test_it_is_what_a_replay_up_to_there_gives(tmp_path: Path, how: str) -> None:
    records = records_of(full_day())
    third = len(records) // 3
    first, rest = records[:third], records[third:]
    if how == "sealed":
        lay(tmp_path, first, rest)
    elif how == "closed":
        lay(tmp_path, first, closed=rest)
    else:
        lay(tmp_path, first, active=rest)
    all_of_it = played(records)
    for number, following in enumerate(records[1:], 1):
        found = before(tmp_path, following.seq, limit=LIMIT)
        assert found.from_seq == records[number - 1].seq
        assert decode(found.lines[-1]) == records[number - 1]
        view = whole(found, records[number:])
        assert view.route("orders") == all_of_it.route("orders")
        assert view.kv == all_of_it.kv
        assert view.groups.by_key.keys() == all_of_it.groups.by_key.keys()


def test_a_record_that_is_not_about_it_is_part_of_the_state(tmp_path: Path) -> None:
    records = records_of(full_day())
    lay(tmp_path, records)
    number = next(n for n, r in enumerate(records) if getattr(r.event, "broker", None))
    found = before(tmp_path, records[number + 1].seq, limit=LIMIT, broker="nobody")
    assert found.from_seq == records[number + 1].seq
    assert [type(decode(line).event) for line in found.lines] == [StateRestated]
    assert decode(found.lines[0]).seq == records[number].seq


def test_there_is_none_where_records_are_missing(tmp_path: Path) -> None:
    lay(tmp_path, [record(seq) for seq in range(5, 9)])
    found = before(tmp_path, 8, limit=LIMIT)
    assert (found.lines, found.from_seq) == ([], 8)
    assert found.why is not None
    assert "missing" in found.why
    assert "missing" in (before(tmp_path, 5, limit=LIMIT).why or "")


def test_one_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    records = records_of(full_day())
    lay(tmp_path, records)
    assert before(tmp_path, records[-1].seq, limit=100) == Before([], records[-1].seq, TOO_LARGE)


def test_a_process_tells_the_same(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    records = records_of(full_day())
    lay(tmp_path, records)
    seq = records[-1].seq
    assert main([str(tmp_path), str(seq), str(LIMIT), "", ""]) == 0
    found = before(tmp_path, seq, limit=LIMIT)
    assert decoded(capfdbinary.readouterr().out) == found == decoded(encoded(found))
    assert main([str(tmp_path / "nowhere"), str(seq), str(LIMIT)]) == 0
    nowhere = decoded(capfdbinary.readouterr().out)
    assert nowhere.why is not None
    assert "nowhere" in nowhere.why
    assert main([]) == 2
