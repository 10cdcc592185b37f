"""Journals of several nodes compared: their clocks, who was a witness when, and who said what."""

from pathlib import Path

import pytest

from routebook.events import Cause, NodeStarted
from routebook.history.comparing.comparison import ComparisonAnswer, comparison_of
from routebook.history.comparing.divergences import Ending
from routebook.history.comparing.skew import Skew
from routebook.history.finding.clocks import ClockReading
from routebook.history.finding.journals import Journal, Served
from routebook.history.finding.witness import Silent
from routebook.journal.errors import JournalError
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.words import time_of_day
from support.journal_folders import write_journal
from support.stories import Story, ms

BROKERS = ("broker-a", "broker-b", "broker-c")


def node(number: int, *, start: str = "03:00:00", ahead_ms: int = 0) -> Story:
    """A node that started cold."""
    return Story(node=f"ns-{number}", clock_ahead_ms=ahead_ms, awake=True).at(start).start()


def all_register(story: Story, time: str, *, version: int = 1) -> Story:
    story.at(time)
    for broker in BROKERS:
        story.wait(0.02).register(broker, version=version)
    return story


def compared(folder: Path, *stories: Story) -> ComparisonAnswer:
    return comparison_of([opened(folder / s.node, s.records) for s in stories])


def opened(folder: Path, records: list[Record], served: Served | None = None) -> Journal:
    return Journal(write_journal(folder, records), lambda stage, done, total: None, served)


def skews(answer: ComparisonAnswer) -> list[Skew]:
    return [clock.skew for clock in answer.clocks]


def found(answer: ComparisonAnswer) -> list[tuple[str, str, str, Ending]]:
    return [
        (time_of_day(d.since_ms), time_of_day(d.until_ms), d.broker, d.ending)
        for d in answer.comparison.divergences
    ]


def reasons(answer: ComparisonAnswer, name: str) -> list[Silent | None]:
    return [each.silence.reason if each.silence else None for each in answer.blind[name]]


def test_a_freeze_is_no_skew_and_the_real_disagreement_stays(tmp_path: Path) -> None:
    """Brokers restarted while ns-3 was frozen; it took their registrations when it woke."""
    stories = [node(1), node(2), node(3)]
    for story in stories:
        all_register(story, "03:01:00")
    for story in stories[:2]:
        all_register(story, "03:10:01", version=2)
    stories[2].at("03:10:00").stall(since="03:10:00", until="03:12:15")
    all_register(stories[2], "03:12:15", version=2)
    stories[2].at("03:20:00").lose()  # which is a disagreement
    stories[2].at("03:20:30").register(version=2)
    for story in stories:
        story.at("03:30:00").heartbeats()

    answer = compared(tmp_path, *stories)

    assert skews(answer) == [Skew(0, 100, 6, 6), Skew(0, 100, 3, 3)]
    assert found(answer) == [("03:20:00Z", "03:20:30Z", "broker-a", Ending.CONVERGED)]
    assert reasons(answer, "ns-3") == [Silent.STALLED]


def test_one_registration_that_a_freeze_delayed_is_no_skew(tmp_path: Path) -> None:
    here, there = node(1), node(2)
    here.at("03:10:01").register(version=2).at("03:30:00").heartbeats()
    there.at("03:10:00").stall(since="03:10:00", until="03:12:15").register(version=2)
    there.at("03:30:00").heartbeats()

    answer = compared(tmp_path, here, there)

    assert skews(answer) == [Skew(None, 0, 0, 0)]
    assert not answer.clocks_known


def test_a_node_that_joins_late_is_not_taken_to_have_another_clock(tmp_path: Path) -> None:
    """All brokers tell it at once what they told the others an hour ago."""
    here, late = all_register(node(1), "03:00:30"), node(2, start="04:00:00")
    all_register(late, "04:00:05")
    for story in (here, late):
        story.at("04:10:00").register(version=2, same_connection=True)
        story.at("04:20:00").heartbeats()

    answer = compared(tmp_path, here, late)

    assert skews(answer) == [Skew(0, 2000, 1, 1, assumed=True)]
    assert found(answer) == [
        ("04:00:00Z", "04:00:05Z", broker, Ending.CONVERGED) for broker in BROKERS
    ]


@pytest.mark.parametrize("boots", [False, True], ids=["restarted", "machine-booted"])
def test_a_restart_is_no_skew(tmp_path: Path, boots: bool) -> None:
    here, there = all_register(node(1), "03:01:00"), all_register(node(2), "03:01:00")
    there.at("03:10:00").stop().at("03:11:00")
    if boots:
        there.boot_machine()
    there.start(recovering=True)
    all_register(there, "03:11:10")
    for story in (here, there):
        story.at("03:30:00").heartbeats()

    answer = compared(tmp_path, here, there)

    assert skews(answer) == [Skew(0, 100, 3, 3)] + [Skew(None, 0, 0, 0)] * boots
    assert found(answer) == []
    assert reasons(answer, "ns-2") == [None if boots else Silent.STOPPED]


@pytest.mark.parametrize("hours", [-30, -5, 5])
def test_a_clock_that_is_hours_wrong_is_measured_whatever_the_day(
    tmp_path: Path, hours: int
) -> None:
    here, there = node(1), node(2, ahead_ms=hours * 3_600_000)
    for story in (here, there):
        all_register(story, "03:01:00")
        for hour in range(4, 10):
            story.at(f"0{hour}:00:00").register(version=hour, same_connection=True)
    there.at("09:30:00").lose().at("09:31:00").register(version=9)
    for story in (here, there):
        story.at("09:40:00").heartbeats()

    answer = compared(tmp_path, here, there)

    assert skews(answer)[0].offset_ms == hours * 3_600_000
    assert found(answer) == [("09:30:00Z", "09:31:00Z", "broker-a", Ending.CONVERGED)]


def test_where_nothing_was_seen_by_both_nothing_is_compared(tmp_path: Path) -> None:
    here, there = node(1).at("03:01:00").register(), node(2, ahead_ms=-600_000)
    there.at("03:20:00").register("broker-z")
    answer = compared(tmp_path, here.at("03:30:00"), there)
    assert (answer.clocks_known, skews(answer)) == (False, [Skew(None, 0, 0, 0)])
    assert answer.comparison.compared_ms == 0


def test_a_jump_within_a_node_is_never_skew(tmp_path: Path) -> None:
    """Its clock is set forward by two minutes; before and after it is compared by what it saw."""
    here, there = node(1), node(2)
    for story in (here, there):
        all_register(story, "03:01:00")
    there.at("03:10:00").heartbeats()
    there.clock_ahead_ms = 120_000
    there.at("03:10:10").heartbeats()
    for story in (here, there):
        for minute in (14, 15, 16):
            story.at(f"03:{minute}:00").register(version=minute, same_connection=True)
    there.at("03:20:00").lose().at("03:20:30").register(version=16)
    for story in (here, there):
        story.at("03:30:00").heartbeats()

    answer = compared(tmp_path, here, there)

    assert [skew.offset_ms for skew in skews(answer)] == [0, 120_000]
    assert found(answer) == [("03:20:00Z", "03:20:30Z", "broker-a", Ending.CONVERGED)]


def test_an_epoch_whose_clock_nobody_knows_is_not_compared(tmp_path: Path) -> None:
    here, there = node(1), node(2)
    for story in (here, there):
        all_register(story, "03:01:00")
    there.at("03:10:00").heartbeats()
    there.clock_ahead_ms = 120_000
    there.at("03:10:10").heartbeats().at("03:20:00").lose()
    here.at("03:30:00").heartbeats()

    answer = compared(tmp_path, here, there.at("03:25:00").register(version=1))

    assert [skew.offset_ms for skew in skews(answer)] == [0, None]
    assert found(answer) == []


def test_what_happened_by_a_clock_nobody_knows_is_not_put_before_it_was_set(
    tmp_path: Path,
) -> None:
    here, there = node(1).at("03:01:00").register(version=1), node(2)
    there.at("03:01:00").register(version=1).at("03:10:00").heartbeats()
    there.clock_ahead_ms = -45_000
    there.at("03:10:05").heartbeats().at("03:20:00").lose()

    answer = compared(tmp_path, here.at("03:30:00").heartbeats(), there)

    assert [skew.offset_ms for skew in skews(answer)] == [0, None]
    assert found(answer) == []


def test_a_node_that_may_have_been_frozen_disagrees_with_nobody(tmp_path: Path) -> None:
    here, there = all_register(node(1), "03:10:00"), all_register(node(2), "03:10:00")
    here.at("04:00:00").lose().at("04:01:00").register(version=1)
    there.now_ms = ms("05:10:00")
    there.heartbeats()

    answer = compared(tmp_path, here.at("05:10:00").heartbeats(), there)

    assert found(answer) == []
    assert reasons(answer, "ns-2") == [Silent.SILENT]


# -- records without a state before them


def test_a_node_that_does_not_say_what_it_believed_makes_no_finding(tmp_path: Path) -> None:
    here, there = all_register(node(1), "03:01:00"), all_register(node(2), "03:01:00")
    for story in (here, there):
        for minute in (11, 12, 13):
            story.at(f"03:{minute}:00").register(version=minute, same_connection=True)
        story.at("03:30:00").heartbeats()
    some = [record for record in there.records if record.wall_ms >= ms("03:10:30")]
    served = Served(None, ms("03:30:01"), "it is an old one")
    journals = [opened(tmp_path / "1", here.records), opened(tmp_path / "2", some, served)]

    answer = comparison_of(journals)

    assert answer.partial == {"ns-2": "it is an old one"}
    assert (answer.comparison.divergences, answer.comparison.compared_ms) == ((), 0)


def test_with_the_state_before_its_records_a_node_is_compared(tmp_path: Path) -> None:
    here, there = all_register(node(1), "03:01:00"), all_register(node(2), "03:01:00")
    known, seen = there.view(), len(there.records)
    for story in (here, there):
        for minute in (11, 12, 13):
            story.at(f"03:{minute}:00").register(version=minute, same_connection=True)
    there.at("03:20:00").lose("broker-b").at("03:21:00").register("broker-b", version=1)
    for story in (here, there):
        story.at("03:30:00").heartbeats()
    served = Served(known, ms("03:30:01"))
    journals = [
        opened(tmp_path / "1", here.records),
        opened(tmp_path / "2", there.records[seen:], served),
    ]

    answer = comparison_of(journals)

    assert answer.partial == {}
    assert found(answer) == [("03:20:00Z", "03:21:00Z", "broker-b", Ending.CONVERGED)]
    assert known == View() or known.seq == seen  # and is left as it was


# -- whom not to compare


def test_nodes_of_two_fleets_are_not_compared(tmp_path: Path) -> None:
    stories = [Story(node=f"ns-{fleet}", awake=True) for fleet in ("east", "west")]
    for story in stories:
        story.add(
            NodeStarted(
                revision=0,
                cause=Cause.START,
                peer="",
                version="1.0",
                address="10.0.1.1:9876",
                brokers=0,
                topics=0,
                fleet=story.node[3:],
            )
        )
        all_register(story, "03:01:00")
    with pytest.raises(JournalError) as refused:
        compared(tmp_path, *stories)
    assert str(refused.value) == (
        "ns-east is of fleet east and ns-west of fleet west: only nodes of one fleet have brokers"
        " in common"
    )


def test_nodes_that_are_asked_tell_of_all_the_time_up_to_then(tmp_path: Path) -> None:
    """One has just restarted and sends what was since; the others had nothing to write since."""
    quiet, restarted = all_register(node(1), "03:00:05"), node(2, start="03:10:00")
    all_register(restarted, "03:10:01")
    reading = ClockReading(0, 1)
    asked_ms = ms("03:10:20")
    answer = comparison_of(
        [
            opened(tmp_path / story.node, story.records, Served(View(), asked_ms, reading=reading))
            for story in (quiet, restarted)
        ]
    )
    assert (answer.from_ms, answer.to_ms) == (ms("03:10:00"), asked_ms)
    assert found(answer) == [
        ("03:10:00Z", "03:10:01Z", broker, Ending.CONVERGED) for broker in BROKERS
    ]
