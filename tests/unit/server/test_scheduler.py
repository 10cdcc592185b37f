"""Long answers: who has the next slice, and who finds no room."""

import pytest

from routebook.server.scheduler import Lane, Room, Scheduler

REGISTRATION, LARGE, CALL = Lane.REGISTRATION, Lane.LARGE, Lane.CALL


def worked_off(scheduler: Scheduler[str], *, lane: Lane = REGISTRATION) -> list[str]:
    """Everybody of a lane, each done with one slice."""
    done = []
    while picked := scheduler.pick():
        found, worker = picked
        if found is lane:
            done.append(worker)
        scheduler.leave(found)
    return done


def filled(*workers: tuple[str, str], lane: Lane = REGISTRATION) -> Scheduler[str]:
    scheduler: Scheduler[str] = Scheduler()
    for host, worker in workers:
        assert scheduler.put(lane, host, worker)
    return scheduler


def test_those_of_one_host_have_their_turns_in_the_order_they_came() -> None:
    assert worked_off(filled(("h", "a"), ("h", "b"), ("h", "c"))) == ["a", "b", "c"]


@pytest.mark.parametrize("lane", list(Lane))
def test_hosts_take_turns(lane: Lane) -> None:
    scheduler = filled(("h", "a"), ("h", "b"), ("h", "c"), ("i", "d"), ("j", "e"), lane=lane)
    assert worked_off(scheduler, lane=lane) == ["a", "d", "e", "b", "c"]


def test_a_newcomer_waits_for_one_answer_of_a_host_that_sent_a_hundred() -> None:
    scheduler = filled(*(("flood", f"f{number}") for number in range(100)))
    scheduler.leave(REGISTRATION)
    assert scheduler.put(REGISTRATION, "other", "mine")
    assert worked_off(scheduler)[:2] == ["f1", "mine"]


def test_an_open_answer_has_all_slices_of_its_lane_until_it_is_given() -> None:
    scheduler = filled(("h", "a"), ("i", "b"))
    assert [scheduler.pick() for _ in range(5)] == [(REGISTRATION, "a")] * 5
    scheduler.leave(REGISTRATION)
    assert scheduler.pick() == (REGISTRATION, "b")


def test_lanes_take_turns_and_registrations_have_two_of_four() -> None:
    scheduler = filled(("h", "r"))
    scheduler.put(LARGE, "h", "l")
    scheduler.put(CALL, "h", "c")
    picked = [scheduler.pick() for _ in range(8)]
    assert [worker for _, worker in filter(None, picked)] == ["r", "c", "r", "l"] * 2


def test_an_empty_lane_gives_its_slices_away() -> None:
    scheduler = filled(("h", "l"), lane=LARGE)
    assert [scheduler.pick() for _ in range(3)] == [(LARGE, "l")] * 3
    scheduler.leave(LARGE)
    assert (scheduler.pick(), len(scheduler)) == (None, 0)


def test_beyond_its_room_a_host_is_refused_and_others_are_not() -> None:
    scheduler: Scheduler[str] = Scheduler(dict.fromkeys(Lane, Room(total=4, host=2)))
    assert [scheduler.put(CALL, "flood", "f") for _ in range(4)] == [True, True, False, False]
    assert scheduler.put(CALL, "other", "a")
    assert scheduler.put(REGISTRATION, "flood", "b"), "lanes have rooms of their own"
    assert scheduler.put(CALL, "third", "c")
    assert not scheduler.put(CALL, "fourth", "d"), "nor is there any for all together"
    assert scheduler.status() == {
        "waiting": {"registrations": 1, "large_registrations": 0, "calls": 4},
        "refused": {"registrations": 0, "large_registrations": 0, "calls": 3},
    }


def test_room_is_there_again_when_an_answer_is_given() -> None:
    scheduler: Scheduler[str] = Scheduler(dict.fromkeys(Lane, Room(total=1, host=1)))
    assert scheduler.put(CALL, "h", "a")
    assert not scheduler.put(CALL, "h", "b")
    scheduler.leave(CALL)
    assert scheduler.put(CALL, "h", "b")
