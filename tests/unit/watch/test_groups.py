"""GroupBook: what changed since when, and digests that stay true however they came about."""

import random

import pytest

from routebook.slices import finished
from routebook.watch import groups
from routebook.watch.groups import UNKNOWN, GroupBook
from support.builders import registration_body
from support.desk import Desk

WIPE, ADD, DELETE_TOPIC = 205, 327, 216


def names(book: GroupBook, since: int | None) -> tuple[bool, list[str], list[str]]:
    changed = book.look(since)
    return changed.full, [g.name for g in changed.groups], [name for _, name in changed.gone]


def digests(desk: Desk, book: GroupBook | None = None) -> dict[str, str]:
    """Of all groups, as ``book`` has them, or worked out anew."""
    book = book or GroupBook(desk.routes, lambda: desk.revision.value)
    pieces = desk.services.renderer.pieces
    return {
        group.name: finished(book.digest(group, pieces.broker(group, standard=True)))
        for group in book.look(None).groups
    }


def test_the_first_look_sees_all_and_the_next_only_what_changed() -> None:
    desk = Desk()
    book = desk.services.groups
    desk.register("broker-a")
    desk.register("broker-b", addr="10.0.0.2:10911")
    assert names(book, None) == (True, ["broker-a", "broker-b"], [])
    since = desk.revision.value
    assert names(book, since) == (False, [], [])
    desk.register("broker-b", addr="10.0.0.2:10911", body=registration_body(["new"], counter=2))
    assert names(book, since) == (False, ["broker-b"], [])
    assert names(book, desk.revision.value) == (False, [], [])


def test_a_group_that_is_gone_is_told_to_be_so_once() -> None:
    desk = Desk()
    book = desk.services.groups
    desk.register("broker-a", link=5)
    book.look(None)
    since = desk.revision.value
    desk.close(5)
    assert names(book, since) == (False, [], ["broker-a"])
    assert names(book, desk.revision.value) == (False, [], [])


def test_who_was_away_for_long_is_told_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_GONE", 2)
    desk = Desk()
    book = desk.services.groups
    book.look(None)
    since = desk.revision.value
    for number in range(4):
        desk.register(f"broker-{number}", addr=f"10.0.1.{number}:10911", link=number + 1)
    book.look(since)
    full, told, gone = names(book, since)
    assert (full, len(told), gone) == (True, 4, [])


def test_a_digest_depends_on_content_alone() -> None:
    one, other = Desk(), Desk()
    one.register("broker-a", body=registration_body(["t1", "t2", "t3"]))
    other.register("broker-a", body=registration_body(["t3", "t2"]))
    assert [*digests(one)] == [*digests(other)] == ["broker-a"]
    assert digests(one) != digests(other)
    other.register("broker-a", body=registration_body(["t3", "t2", "t1"], counter=2))
    assert digests(one) == digests(other)
    assert all(len(digest) == 16 for digest in digests(one).values())


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        pytest.param(WIPE, {"brokerName": "broker-a"}, id="permission"),
        pytest.param(DELETE_TOPIC, {"topic": "orders"}, id="topic"),
    ],
)
def test_a_digest_changes_with_what_clients_are_told(code: int, fields: dict[str, str]) -> None:
    desk = Desk()
    desk.register("broker-a")
    before = digests(desk, desk.services.groups)
    desk.ask(code, dict(fields))
    assert digests(desk, desk.services.groups) != before
    desk.ask(ADD, {"brokerName": "broker-a"})
    if code == WIPE:
        assert digests(desk, desk.services.groups) == before


@pytest.mark.parametrize("seed", range(5))
def test_digests_kept_by_differences_are_those_worked_out_anew(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOST_PENDING", 20)
    rng = random.Random(seed)
    desk = Desk()
    book = desk.services.groups
    for counter in range(60):
        name = f"broker-{rng.randrange(3)}"
        match rng.randrange(6):
            case 0:
                desk.ask(rng.choice((WIPE, ADD)), {"brokerName": name})
            case 1:
                desk.ask(DELETE_TOPIC, {"topic": f"t{rng.randrange(12)}"})
            case 2:
                desk.close(rng.randrange(1, 4))
            case _:
                topics = {
                    f"t{number}": {"readQueueNums": rng.randrange(1, 4)}
                    for number in rng.sample(range(12), rng.randrange(2, 12))
                }
                number = int(name[-1])
                desk.register(
                    name,
                    addr=f"10.0.2.{number}:10911",
                    link=number + 1,
                    body=registration_body(topics, counter=counter + 1),
                )
        if rng.randrange(3):
            assert digests(desk, book) == digests(desk)


def test_so_many_topics_are_hashed_at_a_look_and_the_rest_at_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "TOPICS_A_LOOK", 3)
    desk = Desk()
    book = desk.services.groups
    for number in range(3):
        desk.register(
            f"broker-{number}",
            addr=f"10.0.3.{number}:10911",
            body=registration_body([f"t{each}" for each in range(4)]),
        )
    first = digests(desk, book)
    assert [first[f"broker-{n}"] == UNKNOWN for n in range(3)] == [False, True, True]
    since = desk.revision.value
    pieces = desk.services.renderer.pieces
    owed = []
    for _ in range(3):
        changed = book.look(since)  # nothing changed, but digests are owed
        owed.append(len(changed.groups))
        for group in changed.groups:
            finished(book.digest(group, pieces.broker(group, standard=True)))
    assert owed == [2, 1, 0]
    assert book.look(since).groups == []


def test_a_change_while_a_digest_is_worked_out_has_it_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "TOPICS_A_SLICE", 2)
    desk = Desk()
    book = desk.services.groups
    desk.register("broker-a", body=registration_body([f"t{number}" for number in range(6)]))
    [group] = book.look(None).groups
    piece = desk.services.renderer.pieces.broker(group, standard=True)
    working = book.digest(group, piece)
    next(working)
    desk.ask(DELETE_TOPIC, {"topic": "t0"})
    assert finished(working) == UNKNOWN
    assert finished(book.digest(group, piece)) == digests(desk)["broker-a"]
