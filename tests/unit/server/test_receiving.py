"""Those who sent much are read from by turns, also after one whose turn fails."""

from collections import deque
from collections.abc import Callable

import pytest

from routebook.server.receiving import READS_A_TURN, Receiving


class Loop:
    """Turns are taken when the test says so."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()
        self.receiving = Receiving(self._soon.append)

    def turn(self) -> None:
        for _ in range(len(self._soon)):
            self._soon.popleft()()


class Sender:
    def __init__(self, read: list["Sender"], *, fails: bool = False) -> None:
        self._read = read
        self._fails = fails

    def read_on(self) -> None:
        if self._fails:
            raise LookupError("no socket")
        self._read.append(self)


def test_a_few_are_read_from_in_each_turn() -> None:
    loop = Loop()
    read: list[Sender] = []
    for _ in range(2 * READS_A_TURN + 1):
        loop.receiving.put(Sender(read))
    for expected in (READS_A_TURN, 2 * READS_A_TURN, 2 * READS_A_TURN + 1):
        loop.turn()
        assert len(read) == expected


def test_one_whose_turn_fails_does_not_keep_the_others_waiting_for_ever() -> None:
    loop = Loop()
    read: list[Sender] = []
    loop.receiving.put(Sender(read, fails=True))
    loop.receiving.put(Sender(read))
    with pytest.raises(LookupError):
        loop.turn()
    loop.turn()
    assert len(read) == 1
