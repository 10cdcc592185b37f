"""Time listened passes only while the node is awake, and what it slept through is told."""

from routebook.state.listening import (
    CATCH_UP_MS,
    NOISE_MS,
    SETTLE_MS,
    TICK_MS,
    TOLD_EVERY_MS,
    ListeningClock,
    Reading,
    Stall,
)

MONO_MS, WALL_MS = 1_000_000, 1_700_000_000_000


class Day:
    """A listening that is ticked as a loop would, and what it tells."""

    def __init__(self) -> None:
        self.reading = Reading(MONO_MS, MONO_MS, WALL_MS)
        self.listening = ListeningClock(self.reading)
        self.told: list[Stall] = []

    def pass_by(self, ms: int, *, suspended_ms: int = 0, set_ms: int = 0) -> None:
        mono_ms, boot_ms, wall_ms = self.reading
        slept_ms = ms + suspended_ms
        self.reading = Reading(mono_ms + ms, boot_ms + slept_ms, wall_ms + slept_ms + set_ms)
        self.listening.tick(self.reading)
        if stall := self.listening.take_stall():
            self.told.append(stall)

    def be_awake(self, ms: int) -> None:
        for _ in range(ms // TICK_MS):
            self.pass_by(TICK_MS)

    @property
    def listened_ms(self) -> int:
        return self.listening.now_ms(self.reading.mono_ms) - MONO_MS


def test_time_listened_is_true_time_while_the_node_is_awake() -> None:
    day = Day()
    for late_ms in (0, 3, NOISE_MS, 1, 80):
        day.pass_by(TICK_MS + late_ms)
    assert day.listened_ms == day.reading.mono_ms - MONO_MS
    assert day.told == []
    assert day.listening.paused_ms == 0


def test_a_process_that_was_stopped_lost_no_more_than_a_tick() -> None:
    day = Day()
    day.be_awake(1000)
    day.pass_by(135_000)
    assert day.listened_ms == 1000 + TICK_MS + NOISE_MS
    [stall] = day.told
    assert (stall.from_ms, stall.to_ms) == (WALL_MS + 1000, WALL_MS + 136_000)
    assert (stall.longest_ms, stall.clock_ms) == (135_000 - TICK_MS, 0)


def test_between_two_ticks_time_stands_still_once_one_is_overdue() -> None:
    listening = Day().listening
    assert listening.now_ms(MONO_MS + 100) == MONO_MS + 100
    assert listening.now_ms(MONO_MS + 3_600_000) == MONO_MS + TICK_MS + NOISE_MS


def test_a_machine_that_was_suspended_is_a_stall_of_the_clock() -> None:
    day = Day()
    day.pass_by(TICK_MS, suspended_ms=60_000)
    [stall] = day.told
    assert (stall.longest_ms, stall.clock_ms) == (60_000, 60_000)
    assert stall.to_ms - stall.from_ms == 60_000 + TICK_MS
    assert day.listening.catching_up


def test_a_clock_that_is_set_is_told_and_nobody_was_asleep() -> None:
    day = Day()
    day.pass_by(TICK_MS, set_ms=3_600_000)
    day.be_awake(TOLD_EVERY_MS)
    day.pass_by(TICK_MS, set_ms=-7_200_000)
    assert [(stall.longest_ms, stall.clock_ms) for stall in day.told] == [
        (0, 3_600_000),
        (0, -7_200_000),
    ]
    assert day.told[1].to_ms < day.told[1].from_ms
    assert not day.listening.catching_up
    assert day.listening.paused_ms == 0


def test_a_clock_set_forward_and_back_at_once_is_told() -> None:
    day = Day()
    day.pass_by(TICK_MS, set_ms=2000)
    day.pass_by(TICK_MS, set_ms=60_000)
    day.pass_by(TICK_MS, set_ms=-60_000)
    day.be_awake(TOLD_EVERY_MS)
    assert [stall.clock_ms for stall in day.told] == [2000, 0]


def test_a_host_that_swaps_does_not_flood_the_journal() -> None:
    day = Day()
    for _ in range(60):
        day.pass_by(2000 + TICK_MS)
        day.be_awake(TICK_MS)
    assert 60 * 2000 // TOLD_EVERY_MS <= len(day.told) + 1 <= 60 * 3000 // TOLD_EVERY_MS
    assert day.told[0].longest_ms == 2000
    for earlier, later in zip(day.told, day.told[1:], strict=False):
        assert 0 < later.from_ms - earlier.to_ms <= TICK_MS
    assert day.listening.paused_ms == 60 * 2000
    assert day.listening.count == len(day.told)


def test_pauses_too_short_to_be_told_are_told_when_they_do_not_end() -> None:
    day = Day()
    for _ in range(10):
        day.pass_by(600)
        day.be_awake(TICK_MS)
    assert day.told
    day = Day()
    for _ in range(10):
        day.pass_by(600)
        day.be_awake(5000)
    assert day.told == []
    assert day.listening.paused_ms == 10 * (600 - TICK_MS)


def test_what_was_not_told_yet_is_told_at_the_end() -> None:
    day = Day()
    day.pass_by(5000)
    day.pass_by(3000)
    assert len(day.told) == 1
    last = day.listening.take_stall(last=True)
    assert last is not None
    assert last.to_ms - last.from_ms == 3000


def test_nothing_is_concluded_from_silence_until_all_were_heard() -> None:
    day = Day()
    listening = day.listening
    day.pass_by(10_000)
    at_ms = listening.now_ms(day.reading.mono_ms)
    assert not listening.settles(at_ms, behind=False)
    assert listening.heard_ms == MONO_MS
    assert listening.gave_up
    day.be_awake(SETTLE_MS)
    at_ms = listening.now_ms(day.reading.mono_ms)
    assert not listening.settles(at_ms, behind=True)
    assert listening.settles(at_ms, behind=False)
    assert listening.heard_ms == at_ms
    listening.caught_up()
    assert not listening.catching_up


def test_a_node_that_stalls_all_the_time_concludes_something_at_last() -> None:
    day = Day()
    settled = 0
    for _ in range(3 * CATCH_UP_MS // (TICK_MS + NOISE_MS)):
        day.pass_by(5000)
        if day.listening.settles(day.listening.now_ms(day.reading.mono_ms), behind=True):
            settled += 1
            day.listening.caught_up()
    assert settled == 2


def test_a_short_stall_makes_nobody_give_up() -> None:
    day = Day()
    day.pass_by(2000)
    assert day.listening.catching_up
    assert not day.listening.gave_up
    day.pass_by(2000)
    assert day.listening.gave_up


def test_what_happens_before_it_listens_is_no_stall() -> None:
    day = Day()
    begun = Reading(MONO_MS + 60_000, MONO_MS + 60_000, WALL_MS + 60_000)
    day.listening.begin(begun)
    day.listening.tick(
        Reading(begun.mono_ms + TICK_MS, begun.boot_ms + TICK_MS, begun.wall_ms + 250)
    )
    assert day.listening.take_stall(last=True) is None
    assert not day.listening.catching_up
