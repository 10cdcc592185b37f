from routebook.server.unread import UnreadAnswers


class Reader:
    """A connection as the budget sees it."""

    def __init__(self) -> None:
        self.given_up = 0

    def give_up(self, unread: int) -> None:
        self.given_up += unread


def test_within_the_limit_nobody_is_given_up() -> None:
    unread, readers = UnreadAnswers(100), [Reader() for _ in range(10)]
    for reader in readers:
        unread.charge(reader, 10)
    assert unread.used == 100
    assert not any(reader.given_up for reader in readers)


def test_who_has_not_read_for_longest_is_given_up_first() -> None:
    unread, first, second, third = UnreadAnswers(100), Reader(), Reader(), Reader()
    unread.charge(first, 40)
    unread.charge(second, 40)
    unread.charge(first, 50)  # more for the same reader makes it no younger
    unread.charge(third, 40)
    assert (first.given_up, second.given_up, third.given_up) == (50, 0, 0)
    assert unread.used == 80


def test_who_has_read_begins_anew() -> None:
    unread, first, second = UnreadAnswers(100), Reader(), Reader()
    unread.charge(first, 40)
    unread.charge(second, 40)
    unread.forget(first)
    unread.charge(first, 70)
    assert (first.given_up, second.given_up) == (0, 40)
    unread.forget(first)
    unread.forget(first)
    assert unread.used == 0


def test_one_answer_beyond_the_limit_is_given_up_itself() -> None:
    unread, only = UnreadAnswers(100), Reader()
    unread.charge(only, 101)
    assert (only.given_up, unread.used) == (101, 0)
