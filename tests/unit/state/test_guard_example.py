"""The example of docs/guard.md: a switch dies between a node and 14 of its 20 brokers."""

from routebook.events import BrokerLeft, GuardEngaged, GuardReleased
from routebook.settings import GuardSettings
from support.silence import Silence

DEFAULTS = GuardSettings()
LOST = range(14)
OTHERS = range(14, 20)


class Story:
    """Broker 3 registers 6 s after every half minute, and so on; the node looks every second."""

    def __init__(self) -> None:
        self.silence = Silence(
            20,
            timeout_ms=120_000,
            window_ms=DEFAULTS.window_s * 1000,
            hold_ms=DEFAULTS.hold_s * 1000,
        )
        self.noon_ms = self.silence.now_ms + 60_000
        # At noon the switch dies, with those that would register just then.
        self.live_until("11:59:59", {*LOST, *OTHERS})

    def ms_at(self, clock: str) -> int:
        hours, minutes, seconds = map(int, clock.split(":"))
        return self.noon_ms + ((hours - 12) * 3600 + minutes * 60 + seconds) * 1000

    def live_until(self, clock: str, speaking: set[int]) -> None:
        silence = self.silence
        while silence.now_ms < self.ms_at(clock):
            silence.pass_time(1000)
            second = (silence.now_ms - self.noon_ms) // 1000 % 30
            silence.hear(*(n for n in speaking & silence.live if 2 * n % 30 == second))


def test_the_example_goes_as_told() -> None:
    story = Story()
    silence = story.silence
    assert min(silence.member(n).heard_ms for n in LOST) == story.ms_at("11:59:30")

    story.live_until("12:01:30", set(OTHERS))
    assert silence.of(GuardEngaged) == []
    story.live_until("12:01:31", set(OTHERS))
    first = silence.of(GuardEngaged)[0]
    assert [suspect.broker for suspect in first.suspects] == ["b0"]
    assert (first.silent, first.live, first.limit) == (14, 20, 10)

    story.live_until("12:02:01", set(OTHERS))
    assert silence.held == set(LOST)
    until_ms = silence.table.guard.until_ms
    assert until_ms == story.ms_at("12:11:31")
    story.live_until("12:05:59", set(OTHERS))
    assert silence.live == {*LOST, *OTHERS}

    back = {*range(13), *OTHERS}
    story.live_until("12:06:14", back)
    assert silence.table.guard.until_ms == until_ms
    story.live_until("12:06:15", back)
    assert silence.table.guard.until_ms < until_ms
    story.live_until("12:06:30", back)
    assert silence.held == {13}
    story.live_until("12:07:14", back)
    assert silence.held == {13}
    story.live_until("12:07:15", back)
    assert silence.live == back
    [released] = silence.of(GuardReleased)
    assert (released.reason, released.returned, released.dropped) == ("evidence", 13, 1)


def test_had_the_switch_stayed_dead_all_would_have_gone_when_the_hold_was_over() -> None:
    story = Story()
    silence = story.silence
    story.live_until("12:11:30", set(OTHERS))
    assert silence.held == set(LOST)
    story.live_until("12:11:31", set(OTHERS))
    assert silence.live == set(OTHERS)


def test_ten_of_twenty_would_have_been_dropped() -> None:
    story = Story()
    silence = story.silence
    story.live_until("12:02:01", {*range(10, 20)})
    assert silence.live == set(range(10, 20))
    assert silence.of(GuardEngaged) == []


def test_brokers_that_die_every_twenty_seconds_are_dropped_one_by_one() -> None:
    story = Story()
    silence = story.silence
    for number in range(20):
        minutes, seconds = divmod(20 * number, 60)
        story.live_until(f"12:{minutes}:{seconds}", set(range(number, 20)))
    story.live_until("12:10:00", set())

    assert silence.of(GuardEngaged) == []
    assert len(silence.of(BrokerLeft)) == 20
