"""When a node was awake, when it was down, and when nobody knows."""

from routebook.events import Cause, NodeStalled, RouteQueries
from routebook.history.finding.witness import (
    ClockJumped,
    MadeUp,
    NothingRecorded,
    Silence,
    Silences,
    Silent,
    apply,
    jump_ms,
    longest_pause_ms,
    watched,
)
from routebook.journal.view import View
from support.stories import Story, ms


def silences(story: Story) -> list[Silence]:
    found, view, asked = [], View(), Silences(None)
    for record in watched(story.records):
        silence = asked.next(record, listed=bool(view.groups.members()))
        apply(view, record)
        if silence is not None:
            found.append(silence)
    return found


def made_up(story: Story) -> list[MadeUp]:
    return [r.event for r in watched(story.records) if isinstance(r.event, MadeUp)]


def test_a_pause_is_too_long_after_two_windows_and_never_below_ten_seconds() -> None:
    assert [longest_pause_ms(each) for each in (None, 60_000, 300_000, 1000)] == [
        120_000,
        120_000,
        600_000,
        10_000,
    ]


def test_a_clock_may_drift_and_jitter_but_not_jump() -> None:
    assert [jump_ms(1000, 0), jump_ms(1001, 0), jump_ms(0, 1002)] == [0, 1001, -1002]
    assert jump_ms(1_002_000, 1_000_000) == 0  # a second, and a thousandth
    assert jump_ms(1_002_001, 1_000_000) == 2001


def test_a_node_that_records_in_every_window_is_awake() -> None:
    story = Story().at("03:00:00").start().register()
    for minute in range(1, 30, 2):
        story.at(f"03:{minute:02}:00").heartbeats()
    assert silences(story) == []


def test_a_node_that_lists_brokers_and_records_nothing_is_not_believed_to_be_awake() -> None:
    story = Story().at("03:10:00").start().register()
    story.at("05:10:00").heartbeats()
    assert silences(story) == [Silence(ms("03:10:00"), ms("05:10:00"), Silent.SILENT)]


def windows(story: Story, *times: str, window_s: int) -> Story:
    for time in times:
        story.at(time).add(
            RouteQueries(
                revision=0,
                cause=Cause.WINDOW,
                peer="",
                window_ms=1000 * window_s,
                topics=(),
                others=0,
            )
        )
    return story


def test_the_last_window_before_a_stop_is_short_and_says_nothing_of_others() -> None:
    story = Story().at("03:00:00").start().register()
    windows(story, "03:05:00", "03:10:00", window_s=300)
    windows(story, "03:14:30", window_s=1).stop()
    assert silences(story) == []
    story.at("03:15:00").start(recovering=True).at("03:19:00").heartbeats()
    assert [silence.reason for silence in silences(story)] == [Silent.STOPPED]


def test_a_run_of_a_window_and_a_half_says_nothing_of_windows() -> None:
    story = Story().at("03:00:00").start().register()
    windows(story, "03:00:29", window_s=9).stop()
    assert silences(story) == []


def test_a_node_without_brokers_has_nothing_to_record() -> None:
    story = Story().at("03:10:00").start()
    story.at("05:10:00").register()
    assert silences(story) == []
    assert isinstance(made_up(story)[0], NothingRecorded)  # its reader decides


def test_a_stall_is_unknown_time_and_explains_the_pause_it_ends() -> None:
    story = Story().at("03:10:00").start().register().at("03:11:00").heartbeats()
    story.at("03:15:00").stall(since="03:11:20")
    assert silences(story) == [Silence(ms("03:11:20"), ms("03:15:00"), Silent.STALLED)]


def test_a_clock_set_forward_leaves_a_time_that_nobody_was_awake_in() -> None:
    story = Story().at("03:10:00").start().register()
    story.clock_ahead_ms = 7_200_000
    story.at("03:10:30").heartbeats()
    assert silences(story) == [
        Silence(ms("03:10:00"), ms("05:10:30"), Silent.CLOCK, clock_ms=7_200_000)
    ]


def test_a_clock_set_back_ends_one_stretch_and_begins_another() -> None:
    story = Story().at("03:10:00").start().register()
    story.clock_ahead_ms = -600_000
    story.at("03:10:30").heartbeats()
    [silence] = silences(story)
    assert (silence.reason, silence.clock_ms, silence.lasted_ms) == (Silent.CLOCK, -600_000, 0)


def test_a_suspended_machine_says_so_itself() -> None:
    story = Story().at("03:10:00").start().register()
    story.clock_ahead_ms = 3_600_000
    story.at("03:10:10").add(
        NodeStalled(
            revision=0,
            cause=Cause.STALL,
            peer="",
            from_ms=ms("03:10:05"),
            to_ms=ms("04:10:10"),
            longest_ms=3_605_000,
            clock_ms=3_600_000,
        )
    )
    assert [silence.reason for silence in silences(story)] == [Silent.STALLED]
    assert isinstance(made_up(story)[0], ClockJumped)  # all the same another epoch


def test_an_orderly_stop_is_known_to_be_down() -> None:
    story = Story().at("03:10:00").start().register()
    story.at("03:11:00").stop().at("03:50:00").start(recovering=True)
    assert silences(story) == [Silence(ms("03:11:00"), ms("03:50:00"), Silent.STOPPED)]


def test_a_node_that_was_killed_stopped_at_some_moment_after_its_last_sign_of_life() -> None:
    story = Story().at("08:36:00").start().register().at("08:36:20").heartbeats()
    story.be_killed(down_s=57, alive="08:37:12")
    assert silences(story) == [
        Silence(
            ms("08:37:12"), ms("08:37:17"), Silent.KILLED, recorded_ms=ms("08:36:20"), signs=True
        )
    ]


def test_without_a_sign_of_life_it_is_the_last_record() -> None:
    story = Story().at("08:36:20").start().register()
    story.be_killed(down_s=57)
    assert silences(story) == [Silence(ms("08:36:20"), ms("08:37:17"), Silent.KILLED)]


def test_a_sign_of_life_before_the_last_record_says_no_more_than_the_record() -> None:
    story = Story().at("08:36:20").start().register()
    story.be_killed(down_s=57, alive="08:36:19")
    assert silences(story) == [Silence(ms("08:36:20"), ms("08:37:17"), Silent.KILLED, signs=True)]


def epochs(story: Story) -> int:
    """How many stretches of its clock there are."""
    return 1 + sum(isinstance(event, ClockJumped) for event in made_up(story))


def test_a_restart_does_not_set_the_clock_and_a_new_machine_may() -> None:
    story = Story().at("03:10:00").start().at("03:11:00").stop()
    story.at("03:20:00").start()
    assert epochs(story) == 1
    story.boot_machine().at("03:30:00").start()
    assert epochs(story) == 2
    assert silences(story)[-1].reason is Silent.KILLED  # and not the clock
