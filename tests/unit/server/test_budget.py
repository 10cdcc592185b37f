from routebook.server.budget import FREE_BYTES, InputBudget


class Sender:
    """A connection as the budget sees it."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.host = host
        self.held = False
        self.turned_away = False

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False

    def turn_away(self) -> None:
        self.turned_away = True


BIG = 10 * FREE_BYTES


def test_remainders_are_free() -> None:
    budget = InputBudget(BIG)
    for _ in range(100):
        budget.charge(Sender(), FREE_BYTES)
    assert budget.used == 0


def test_beyond_the_limit_newcomers_are_held_and_the_first_goes_on() -> None:
    budget = InputBudget(BIG)
    first, second = Sender(), Sender()
    budget.charge(first, BIG)
    budget.charge(second, BIG)
    budget.charge(first, 2 * BIG)
    assert (first.held, second.held) == (False, True)
    budget.charge(first, 0)
    assert not second.held
    assert budget.used == BIG


def test_the_oldest_is_let_go_when_the_first_is_gone_though_the_limit_is_still_exceeded() -> None:
    budget = InputBudget(BIG)
    senders = [Sender() for _ in range(4)]
    for sender in senders:
        budget.charge(sender, BIG)
    assert [sender.held for sender in senders] == [False, True, True, True]
    budget.forget(senders[0])
    assert [sender.held for sender in senders[1:]] == [False, True, True]


def test_a_held_sender_that_disconnects_is_forgotten() -> None:
    budget = InputBudget(BIG)
    first, second = Sender(), Sender()
    budget.charge(first, BIG)
    budget.charge(second, BIG)
    budget.forget(second)
    budget.forget(first)
    assert budget.used == 0


def test_a_held_sender_whose_frame_was_carried_out_is_read_again() -> None:
    budget = InputBudget(BIG)
    first, second = Sender(), Sender()
    budget.charge(first, BIG)
    budget.charge(second, BIG)
    budget.charge(second, 0)
    assert not second.held
    assert budget.used == BIG


def test_the_host_that_holds_most_is_turned_away_when_first_reads_are_too_much() -> None:
    budget = InputBudget(10 * BIG, most=15 * BIG)
    oldest, honest = Sender("10.0.0.1"), Sender("10.0.0.2")
    budget.charge(oldest, 3 * BIG)
    budget.charge(honest, 2 * BIG)
    strangers = [Sender("10.0.0.9") for _ in range(40)]
    for stranger in strangers:
        budget.charge(stranger, BIG)
    assert budget.used <= 15 * BIG
    assert not oldest.turned_away
    assert not honest.turned_away
    assert sum(stranger.turned_away for stranger in strangers) == 30
    for stranger in strangers:
        budget.forget(stranger)
    assert budget.used == 5 * BIG
    assert not honest.held


def test_the_first_frame_of_all_is_never_turned_away_though_its_host_holds_most() -> None:
    budget = InputBudget(4 * BIG, most=6 * BIG)
    first, second = Sender("10.0.0.1"), Sender("10.0.0.2")
    budget.charge(first, 5 * BIG)
    budget.charge(second, 2 * BIG)
    assert (first.turned_away, second.turned_away) == (False, True)
    assert budget.used == 5 * BIG


def test_a_host_that_has_little_buffered_is_not_held_for_what_another_has() -> None:
    budget = InputBudget(16 * BIG, most=32 * BIG)
    flood = [Sender("flood") for _ in range(20)]
    for sender in flood:
        budget.charge(sender, BIG)
    other = Sender("other")
    budget.charge(other, BIG)
    assert not other.held
    assert sum(sender.held for sender in flood) == 4
    budget.charge(other, 3 * BIG)
    assert other.held, "more than an eighth is not little"


def test_many_hosts_that_have_little_each_hold_no_more_than_there_is() -> None:
    budget = InputBudget(16 * BIG, most=32 * BIG)
    senders = [Sender(f"host-{number}") for number in range(40)]
    for sender in senders:
        budget.charge(sender, BIG)
    assert budget.used <= 32 * BIG
    assert sum(sender.turned_away for sender in senders) == 8
