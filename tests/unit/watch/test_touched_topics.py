"""What waits to be marked is bounded by what is watched, however fast events come."""

import gc
import weakref

import pytest

from routebook.events import BrokerLeft, BrokerUpdated, Cause, QueueChange, TopicsChanged
from routebook.events import RegistrationCompleted as Completed
from routebook.watch.touched_topics import TouchedTopics


class Topics(dict[str, None]):
    """Those of a group; it can be seen whether they are still held."""


class Node:
    """Groups with their topics, and what is watched of them."""

    def __init__(self, *watched: str) -> None:
        self.watched = dict.fromkeys(watched)
        self.groups: dict[str, Topics] = {}
        self.touched = TouchedTopics(
            self.watched, lambda cluster, name: self.groups[name], lambda topics: None
        )
        self.revision = 0

    def has(self, name: str, *topics: str) -> "weakref.ref[Topics]":
        self.groups[name] = Topics(dict.fromkeys(topics))
        return weakref.ref(self.groups[name])

    def _about(self, name: str) -> dict[str, object]:
        self.revision += 1
        member = {"cluster": "c", "broker": name, "broker_id": 0, "addr": "127.0.0.1:1"}
        return {"revision": self.revision, "cause": Cause.REGISTER, "peer": "p", **member}

    def update(self, name: str) -> None:
        event = BrokerUpdated(**self._about(name), generation=1, before={}, after={})  # type: ignore[arg-type]
        self.touched.note(event, 0)

    def leave(self, name: str) -> None:
        event = BrokerLeft(
            **self._about(name),  # type: ignore[arg-type]
            generation=1,
            addrs_before={},
            addrs_after={},
            topics_lost=1,
        )
        self.touched.note(event, 0)

    def change(self, name: str, *topics: str) -> None:
        self.revision += 1
        changes = tuple(QueueChange(topic, None, (8, 8, 6, 0)) for topic in topics)
        self.touched.note(
            TopicsChanged(
                revision=self.revision,
                cause=Cause.REGISTER,
                peer="p",
                cluster="c",
                broker=name,
                changes=changes,
            ),
            0,
        )

    def complete(self, name: str) -> None:
        event = Completed(**self._about(name), generation=1, topics=1, data_version=None)  # type: ignore[arg-type]
        self.touched.note(event, 0)

    def walks(self) -> list[list[str]]:
        """Do all that waits; the topics each walk marks."""
        done: list[list[str]] = []
        while (walk := self.touched.take()) is not None:
            assert self.touched.settled(self.revision) < self.revision
            done.append([topic for some in walk.slices(self.watched) for topic in some])
            self.touched.done(walk)
        assert self.touched.settled(self.revision) == self.revision
        return done


def test_a_group_waits_once_however_often_it_changes() -> None:
    node = Node("orders", "stock")
    node.has("a", "orders", "stock")
    node.has("b", "stock")
    for _ in range(1000):
        node.update("a")
        node.update("b")
    assert node.touched.settled(node.revision) == 0
    assert node.walks() == [["orders", "stock"], ["stock"]]


def test_a_change_after_its_walk_began_waits_for_another() -> None:
    node = Node("orders")
    node.has("a", "orders")
    node.update("a")
    walk = node.touched.take()
    assert walk is not None
    node.update("a")
    node.touched.done(walk)
    assert node.touched.settled(node.revision) == 1
    assert node.walks() == [["orders"]]


def test_topics_that_are_named_wait_together() -> None:
    node = Node("orders", "stock")
    for _ in range(1000):
        node.change("a", "orders")
        node.change("b", "stock")
    assert node.walks() == [["orders", "stock"]]


def test_registrations_that_are_complete_wait_together_before_all_others() -> None:
    node = Node("orders", "stock", "mail")
    node.change("c", "mail")
    for _ in range(1000):
        node.change("a", "orders", "stock")
        node.complete("a")
    assert node.touched.settled(node.revision) == 0
    assert node.walks() == [["orders", "stock"], ["mail"]]


def test_groups_that_left_are_let_go_of_when_they_have_more_topics_than_are_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("routebook.watch.touched_topics.MAX_WAITING", 100)
    node = Node("orders", "stock")
    held = []
    for number in range(50):
        held.append(node.has(f"b{number}", "orders", *(f"{number}-{each}" for each in range(30))))
        node.leave(f"b{number}")
    node.groups.clear()
    gc.collect()
    assert sum(topics() is not None for topics in held) <= 3
    assert node.touched.settled(node.revision) == 0
    assert node.walks() == [["orders", "stock"]]


def test_one_large_group_is_walked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routebook.watch.touched_topics.MAX_WAITING", 100)
    node = Node("orders", "stock")
    node.has("a", "orders", *(f"a-{each}" for each in range(1000)))
    node.has("b", "stock")
    node.leave("a")
    walk = node.touched.take()
    assert walk is not None
    node.leave("b")
    assert [topic for some in walk.slices(node.watched) for topic in some] == ["orders"]
    node.touched.done(walk)
    assert node.walks() == [["stock"]]
