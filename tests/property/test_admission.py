"""Whoever sends what, and how fast: the shares of a journal hold, and nothing goes uncounted."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from routebook.events import Cause, Event, NodeStopped
from routebook.journal.admission import DAY_MS, MAX_PEERS, Admission, Verdict
from support.journals import (
    broker_conflict,
    heartbeat_gaps,
    request_refused,
    topics_changed,
)

ROOM = 64 * 1024 * 1024
KEPT_MS = 30 * DAY_MS
NOISE, WINDOWS, CHANGES = "noise", "windows", "changes"


class Step(NamedTuple):
    kind: str
    peer: str
    size: int
    wait_ms: int


def steps() -> st.SearchStrategy[list[Step]]:
    """Bursts and pauses of a few peers; records of all sizes."""
    return st.lists(
        st.builds(
            Step,
            st.sampled_from([NOISE, WINDOWS, CHANGES]),
            st.sampled_from(["10.0.0.1:5", "10.0.0.1:6", "10.0.0.2:5", "[2001:db8::1]:7"]),
            st.integers(300, 2_000_000),
            st.sampled_from([0, 0, 0, 1, 1000, 60_000, DAY_MS // 24, DAY_MS]),
        ),
        max_size=200,
    )


def event_of(step: Step) -> Event:
    if step.kind == NOISE:
        return request_refused(peer=step.peer)
    return heartbeat_gaps() if step.kind == WINDOWS else topics_changed("a", peer=step.peer)


@given(steps())
def test_no_kind_of_record_takes_more_than_its_share(taken: list[Step]) -> None:
    admission = Admission(room=ROOM, kept_ms=KEPT_MS, now_ms=0)
    admission.packing = 1.0
    written = {NOISE: 0, WINDOWS: 0, CHANGES: 0}
    now_ms = 0
    for step in taken:
        now_ms += step.wait_ms
        verdict = admission.judge(event_of(step), step.size, now_ms=now_ms, wall_ms=now_ms)
        if verdict is Verdict.WRITE:
            written[step.kind] += step.size
        largest = 2_000_000  # one that is larger than what is left of a full bucket may pass
        assert written[NOISE] <= ROOM / 8 * max(1, now_ms / KEPT_MS) + largest
        assert written[WINDOWS] <= ROOM / 4 * max(1, now_ms / KEPT_MS) + largest
        assert written[CHANGES] <= ROOM / 2 * (1 + now_ms / DAY_MS) + largest


@given(steps())
def test_what_is_not_written_is_counted(taken: list[Step]) -> None:
    admission = Admission(room=ROOM, kept_ms=KEPT_MS, now_ms=0)
    counted = told = now_ms = 0
    for step in taken:
        now_ms += step.wait_ms
        verdict = admission.judge(event_of(step), step.size, now_ms=now_ms, wall_ms=now_ms)
        counted += verdict is Verdict.COUNT
        assert (verdict is Verdict.LOSE) <= (step.kind == CHANGES)
        if (rest := admission.rest(revision=1, now_ms=now_ms)) is not None:
            assert rest.count == rest.refused + rest.conflicts + rest.windows > 0
            assert sum(noise.records for noise in rest.peers) <= rest.count
            told += rest.count
    if (rest := admission.rest(revision=1, now_ms=now_ms, last=True)) is not None:
        told += rest.count
    assert told == counted == admission.counted


@given(st.integers(1, 200), st.integers(1, 1000))
def test_one_loud_peer_leaves_room_for_the_others(size: int, flood: int) -> None:
    admission = Admission(room=ROOM, kept_ms=KEPT_MS, now_ms=0)
    for _ in range(flood):
        admission.judge(broker_conflict(peer="10.0.0.66:1"), 500 * size, now_ms=0, wall_ms=0)
        admission.judge(topics_changed("a", peer="10.0.0.66:1"), 500 * size, now_ms=0, wall_ms=0)
    for event in (
        request_refused(peer="10.0.0.1:1"),
        topics_changed("a", peer="10.0.0.1:1"),
        heartbeat_gaps(),
    ):
        assert admission.judge(event, 700, now_ms=0, wall_ms=0) is Verdict.WRITE


def test_peers_are_forgotten_when_there_are_too_many() -> None:
    admission = Admission(room=ROOM, kept_ms=KEPT_MS, now_ms=0)
    for number in range(MAX_PEERS + 100):
        peer = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}:1"
        admission.judge(request_refused(peer=peer), 700, now_ms=0, wall_ms=0)
    assert admission.peers == MAX_PEERS


def test_what_a_node_says_of_itself_is_written_in_a_flood_too() -> None:
    admission = Admission(room=ROOM, kept_ms=KEPT_MS, now_ms=0)
    for number in range(200):
        flood = topics_changed("a", peer=f"10.0.0.{number}:1")
        admission.judge(flood, ROOM, now_ms=0, wall_ms=0)
    assert admission.lost > 0
    assert not admission.has_room_to_restate(0)
    stopped = NodeStopped(revision=1, cause=Cause.STOP, peer="", brokers=1, topics=1)
    assert admission.judge(stopped, 700, now_ms=0, wall_ms=0) is Verdict.WRITE
    assert admission.has_room_to_restate(DAY_MS)
