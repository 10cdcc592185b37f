import random
import weakref

import pytest

from routebook.deadlines import CARRIED_A_TIME, Deadlines


@pytest.mark.parametrize(("now_ms", "due"), [(99, []), (100, []), (101, ["a"])])
def test_a_deadline_passes_after_its_time(now_ms: int, due: list[str]) -> None:
    deadlines: Deadlines[str, int] = Deadlines()
    deadlines.set("a", 100)
    assert deadlines.due(now_ms) == due


def test_a_deadline_can_be_moved_both_ways_and_dropped() -> None:
    deadlines: Deadlines[str, int] = Deadlines()
    for key in "abc":
        deadlines.set(key, 100)
    deadlines.set("a", 200)
    deadlines.set("b", 50)
    deadlines.drop("c")
    assert deadlines.next_at() == 50
    assert deadlines.due(60) == ["b"]
    assert deadlines.due(150) == []
    assert deadlines.due(201) == ["a"]
    assert len(deadlines) == 0


def test_moving_a_deadline_back_and_forth_does_not_grow_the_heap() -> None:
    deadlines: Deadlines[str, int] = Deadlines()
    for turn in range(10_000):
        deadlines.set("a", 1_000_000 - turn)
    assert len(deadlines._heap) <= 66
    assert deadlines.due(1_000_001) == ["a"]


def test_many_keys_are_cleared_away_a_few_at_a_time() -> None:
    deadlines: Deadlines[int, int] = Deadlines()
    for key in range(2000):
        deadlines.set(key, 1000 + key)
    carried: list[int] = []
    for key in range(1990):
        before = len(deadlines._new)
        deadlines.drop(key)
        carried.append(len(deadlines._new) - before)
    assert max(carried) == CARRIED_A_TIME
    assert len(deadlines._heap) <= 2 * 10 + 64 + CARRIED_A_TIME
    assert deadlines.due(5000) == list(range(1990, 2000))


def test_a_few_may_be_taken_at_a_time() -> None:
    deadlines: Deadlines[int, int] = Deadlines()
    for key in range(10):
        deadlines.set(key, key)
    deadlines.set(0, 50)
    assert deadlines.due(20, 4) == [1, 2, 3], "one was moved, and looked at all the same"
    assert deadlines.next_at() == 4
    assert deadlines.due(20, 100) == [4, 5, 6, 7, 8, 9]
    assert deadlines.next_at() == 50


def test_whatever_is_set_and_dropped_everything_is_due_at_its_time() -> None:
    chance = random.Random(7)
    deadlines: Deadlines[int, int] = Deadlines()
    expected: dict[int, int] = {}
    swaps, now_ms = 0, 0
    for _ in range(20_000):
        key, heap = chance.randrange(300), deadlines._heap
        if chance.random() < 0.4:
            deadlines.drop(key)
            expected.pop(key, None)
        else:
            expected[key] = now_ms + chance.randrange(1, 2000)
            deadlines.set(key, expected[key])
        swaps += deadlines._heap is not heap
        now_ms += chance.random() < 0.3
        due = {k for k, at_ms in expected.items() if at_ms < now_ms}
        assert set(deadlines.due(now_ms)) == due
        for k in due:
            del expected[k]
    assert swaps > 10, "heaps were made anew on the way"


@pytest.mark.parametrize("number", [1, 5, 100, 500])
def test_nobody_who_is_gone_is_held_on_to(number: int) -> None:
    class Key:
        """With more behind it."""

    deadlines: Deadlines[Key, int] = Deadlines()
    keys = [Key() for _ in range(number)]
    for at_ms, key in enumerate(keys):
        deadlines.set(key, at_ms)
    held = weakref.WeakSet(keys)
    for key in keys:
        deadlines.drop(key)
    del key
    keys.clear()
    deadlines.due(0)
    assert not held
