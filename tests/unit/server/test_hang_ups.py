"""Of those who hang up together a few are closed in each turn, and nobody is forgotten."""

from collections import deque
from collections.abc import Callable

from routebook.server.hang_ups import CLOSED_A_TURN, HangUps


class Loop:
    """Turns are taken when the test says so."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], None]] = deque()
        self.hang_ups = HangUps(self.soon.append)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1

    def hang_up(self, count: int) -> None:
        for _ in range(count):
            if self.hang_ups.may_close(self):
                self.close()

    def turn(self) -> int:
        """How many are closed in it."""
        before = self.closed
        for _ in range(len(self.soon)):
            self.soon.popleft()()
        return self.closed - before


def test_whoever_hangs_up_alone_is_closed_at_once() -> None:
    loop = Loop()
    for number in range(1, 4):
        loop.hang_up(1)
        assert loop.closed == number
        assert loop.turn() == 0
    assert not loop.soon


def test_of_thousands_a_few_are_closed_in_each_turn() -> None:
    loop = Loop()
    loop.hang_up(5 * CLOSED_A_TURN + 1)
    assert loop.closed == CLOSED_A_TURN
    assert [loop.turn() for _ in range(5)] == [CLOSED_A_TURN] * 4 + [1]
    loop.turn()
    assert not loop.soon


def test_those_who_wait_come_first() -> None:
    loop = Loop()
    loop.hang_up(CLOSED_A_TURN + 10)
    assert loop.turn() == 10
    loop.hang_up(CLOSED_A_TURN)
    assert loop.closed == 2 * CLOSED_A_TURN, "what the turn has room for"
    assert loop.turn() == 10
