from routebook.server.unread_answers import UnreadAnswers


class Reader:
    """A connection as the budget sees it."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
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


def test_a_host_with_many_connections_is_one_peer_and_has_its_share_only() -> None:
    unread = UnreadAnswers(100, of_one_host=50)
    deaf, slow = [Reader() for _ in range(300)], Reader("10.0.0.2")
    unread.charge(slow, 40)
    for reader in deaf:
        unread.charge(reader, 10)
    assert slow.given_up == 0
    assert [reader.given_up for reader in deaf] == [10] * 295 + [0] * 5
    assert unread.by_host == {"10.0.0.1": 50, "10.0.0.2": 40}


def test_when_all_have_too_much_the_host_with_most_is_given_up_first() -> None:
    unread = UnreadAnswers(100)
    few, many = Reader("10.0.0.2"), [Reader() for _ in range(7)]
    unread.charge(few, 30)  # has not read for longest
    for reader in many:
        unread.charge(reader, 10)
    late = Reader("10.0.0.3")
    unread.charge(late, 5)
    assert (few.given_up, late.given_up) == (0, 0)
    assert [reader.given_up for reader in many] == [10, 0, 0, 0, 0, 0, 0]


def test_of_a_host_that_has_read_nothing_is_left() -> None:
    unread, first, second = UnreadAnswers(100), Reader(), Reader()
    unread.charge(first, 10)
    unread.charge(second, 20)
    unread.forget(first)
    assert (unread.used, unread.by_host) == (20, {"10.0.0.1": 20})
    unread.forget(second)
    assert (unread.used, unread.by_host) == (0, {})
