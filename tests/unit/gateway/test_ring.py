"""The ring of events: what a reader has not, and what it has missed."""

import asyncio

import pytest

from routebook.gateway import ring
from routebook.gateway.ring import EVENT, EventRing


def filled(count: int) -> EventRing:
    events = EventRing()
    for number in range(count):
        events.add(EVENT, "n", f"n.b.{number}", b"{}")
    return events


async def test_a_reader_has_what_is_after_its_place() -> None:
    events = filled(5)
    assert [e.number for e in events.after(2).entries] == [3, 4, 5]
    assert events.after(5) == ([], 0)
    assert [e.number for e in events.after(0, at_most=2).entries] == [1, 2]
    assert events.find("n", "n.b.3") == 4
    assert events.find("n", "n.b.9") is None


async def test_who_fell_behind_is_told_how_many_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring, "MAX_ENTRIES", 3)
    events = filled(10)
    unread = events.after(2)
    assert [e.number for e in unread.entries] == [8, 9, 10]
    assert unread.missed == 5


async def test_bytes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "MAX_BYTES", 4)
    events = filled(10)
    assert [e.number for e in events.after(0).entries] == [9, 10]


async def test_all_who_wait_are_woken_by_one_event() -> None:
    events = filled(1)
    waiting = [asyncio.create_task(events.wait_beyond(1)) for _ in range(3)]
    await asyncio.sleep(0)
    events.add(EVENT, "n", "n.b.1", b"{}")
    await asyncio.gather(*waiting)
