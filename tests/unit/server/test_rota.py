"""Long answers: who has the next slice, and who finds no room."""

import pytest

from routebook.server.rota import Lane, Room, Rota

REGISTRATION, LARGE, CALL = Lane.REGISTRATION, Lane.LARGE, Lane.CALL


def worked_off(rota: Rota[str], *, lane: Lane = REGISTRATION) -> list[str]:
    """Everybody of a lane, each done with one slice."""
    done = []
    while picked := rota.pick():
        found, worker = picked
        if found is lane:
            done.append(worker)
        rota.leave(found)
    return done


def filled(*workers: tuple[str, str], lane: Lane = REGISTRATION) -> Rota[str]:
    rota: Rota[str] = Rota()
    for host, worker in workers:
        assert rota.put(lane, host, worker)
    return rota


def test_those_of_one_host_have_their_turns_in_the_order_they_came() -> None:
    assert worked_off(filled(("h", "a"), ("h", "b"), ("h", "c"))) == ["a", "b", "c"]


@pytest.mark.parametrize("lane", list(Lane))
def test_hosts_take_turns(lane: Lane) -> None:
    rota = filled(("h", "a"), ("h", "b"), ("h", "c"), ("i", "d"), ("j", "e"), lane=lane)
    assert worked_off(rota, lane=lane) == ["a", "d", "e", "b", "c"]


def test_a_newcomer_waits_for_one_answer_of_a_host_that_sent_a_hundred() -> None:
    rota = filled(*(("flood", f"f{number}") for number in range(100)))
    rota.leave(REGISTRATION)
    assert rota.put(REGISTRATION, "other", "mine")
    assert worked_off(rota)[:2] == ["f1", "mine"]


def test_an_open_answer_has_all_slices_of_its_lane_until_it_is_given() -> None:
    rota = filled(("h", "a"), ("i", "b"))
    assert [rota.pick() for _ in range(5)] == [(REGISTRATION, "a")] * 5
    rota.leave(REGISTRATION)
    assert rota.pick() == (REGISTRATION, "b")


def test_lanes_take_turns_and_registrations_have_two_of_four() -> None:
    rota = filled(("h", "r"))
    rota.put(LARGE, "h", "l")
    rota.put(CALL, "h", "c")
    picked = [rota.pick() for _ in range(8)]
    assert [worker for _, worker in filter(None, picked)] == ["r", "c", "r", "l"] * 2


def test_an_empty_lane_gives_its_slices_away() -> None:
    rota = filled(("h", "l"), lane=LARGE)
    assert [rota.pick() for _ in range(3)] == [(LARGE, "l")] * 3
    rota.leave(LARGE)
    assert (rota.pick(), len(rota)) == (None, 0)


def test_beyond_its_room_a_host_is_refused_and_others_are_not() -> None:
    rota: Rota[str] = Rota(dict.fromkeys(Lane, Room(total=4, host=2)))
    assert [rota.put(CALL, "flood", "f") for _ in range(4)] == [True, True, False, False]
    assert rota.put(CALL, "other", "a")
    assert rota.put(REGISTRATION, "flood", "b"), "lanes have rooms of their own"
    assert rota.put(CALL, "third", "c")
    assert not rota.put(CALL, "fourth", "d"), "nor is there any for all together"
    assert rota.status() == {
        "waiting": {"registrations": 1, "large_registrations": 0, "calls": 4},
        "refused": {"registrations": 0, "large_registrations": 0, "calls": 3},
    }


def test_room_is_there_again_when_an_answer_is_given() -> None:
    rota: Rota[str] = Rota(dict.fromkeys(Lane, Room(total=1, host=1)))
    assert rota.put(CALL, "h", "a")
    assert not rota.put(CALL, "h", "b")
    rota.leave(CALL)
    assert rota.put(CALL, "h", "b")
