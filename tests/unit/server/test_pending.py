"""How many answers may wait, by kind and host."""

import pytest

from routebook.server.pending import KINDS, SHARES, Awaited, Pending, Share
from routebook.server.scheduler import Room
from routebook.wire.codes import RequestCode

CHANGE, LOOK_BACK, CALL = Awaited.CHANGE, Awaited.LOOK_BACK, Awaited.CALL


def rooms(total: int, host: int) -> Pending:
    return Pending(dict.fromkeys(Awaited, Room(total, host)))


def test_a_host_has_its_share_and_no_more() -> None:
    pending = rooms(total=5, host=2)
    assert [pending.enter(CHANGE, "flood") for _ in range(4)] == [True, True, False, False]
    assert pending.enter(CHANGE, "other")
    assert pending.status()["refused"]["changes"] == 2


def test_all_hosts_together_have_no_more_than_there_is() -> None:
    pending = rooms(total=3, host=2)
    assert [pending.enter(CALL, f"host-{number}") for number in range(5)] == [True] * 3 + [
        False
    ] * 2


def test_kinds_have_rooms_of_their_own() -> None:
    pending = rooms(total=1, host=1)
    assert [pending.enter(kind, "h") for kind in Awaited] == [True] * 3
    assert [pending.enter(kind, "h") for kind in Awaited] == [False] * 3


def test_who_leaves_makes_room_and_is_forgotten() -> None:
    pending = rooms(total=1, host=1)
    for number in range(100):
        assert pending.enter(LOOK_BACK, f"host-{number}")
        pending.leave(LOOK_BACK, f"host-{number}")
    assert pending.status()["waiting"] == {"short_calls": 0, "changes": 0, "looks_back": 0}
    assert not pending._by_host


@pytest.mark.parametrize("code", sorted(SHARES))
def test_what_a_cluster_lives_by_is_no_call_and_has_no_room_to_be_full(code: RequestCode) -> None:
    assert SHARES[code] is not Share.CALLS
    assert code not in KINDS
