import pytest

from routebook.state.deadlines import Deadlines


@pytest.mark.parametrize(("now_ms", "due"), [(99, []), (100, []), (101, ["a"])])
def test_a_deadline_passes_after_its_time(now_ms: int, due: list[str]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 100)
    assert deadlines.due(now_ms) == due


def test_a_deadline_can_be_moved_both_ways_and_dropped() -> None:
    deadlines: Deadlines[str] = Deadlines()
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
    deadlines: Deadlines[str] = Deadlines()
    for turn in range(10_000):
        deadlines.set("a", 1_000_000 - turn)
    assert len(deadlines._heap) <= 66
    assert deadlines.due(1_000_001) == ["a"]
