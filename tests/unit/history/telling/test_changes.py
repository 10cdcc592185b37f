"""What is different between two views, a line for a broker."""

from collections.abc import Callable

import pytest

from routebook.history.telling.changes import AlikeTopics, BrokerChange, Change, Changes, changes
from routebook.state.model import QueueShape
from support.stories import Story

TOPICS = ["orders", "payments", "audit"]


def between(
    story: Story, happen: Callable[[Story], object], *, topic: str | None = None
) -> Changes:
    before = story.view()
    happen(story)
    return changes(before, story.view(), topic=topic)


def running() -> Story:
    return Story().start().register(topics=TOPICS).register("broker-b", topics=TOPICS[:2])


def test_nothing_that_matters_to_clients_is_no_difference() -> None:
    found = between(running(), lambda s: s.heartbeats().register(topics=TOPICS).stop())
    assert not found


def test_a_broker_that_went_is_one_line_with_a_count() -> None:
    found = between(running(), lambda s: s.lose())
    assert found == Changes(
        (BrokerChange("c", "broker-a", Change.WENT, ("id 0 (10.0.0.1:10911)",), 3, ()),),
        came=(),
        went=("audit",),
    )


def test_a_broker_that_came_is_one_line_with_a_count() -> None:
    found = between(running(), lambda s: s.register("broker-c", topics=["orders", "refunds"]))
    assert found == Changes(
        (BrokerChange("c", "broker-c", Change.CAME, ("id 0 (10.0.0.3:10911)",), 2, ()),),
        came=("refunds",),
        went=(),
    )


def test_a_broker_that_left_and_is_back_is_no_difference() -> None:
    assert not between(running(), lambda s: s.lose().register(topics=TOPICS))


def test_topics_that_changed_alike_stand_together() -> None:
    shapes = dict.fromkeys(TOPICS, QueueShape(8, 8, 4, 0)) | {"audit": QueueShape(4, 8, 6, 1)}
    found = between(running(), lambda s: s.register(topics=shapes, same_connection=True))
    assert found.brokers == (
        BrokerChange(
            "c",
            "broker-a",
            Change.CHANGED,
            (),
            3,
            (
                AlikeTopics("permission RW- to R--", ("orders", "payments")),
                AlikeTopics("read queues 8 to 4, flags 0 to 1", ("audit",)),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("happen", "details"),
    [
        (lambda s: s.register(broker_id=1, host=9, topics=TOPICS), ("id 1 (10.0.0.9:10911) came",)),
        (
            lambda s: s.register(host=7, topics=TOPICS),
            (
                "id 0: addr 10.0.0.1:10911 to 10.0.0.7:10911, ha addr 10.0.0.1:10912 to"
                " 10.0.0.7:10912",
            ),
        ),
        (lambda s: s.register(acting_master=True, topics=TOPICS), ("acting master no to yes",)),
    ],
)
def test_members_that_changed_are_described(
    happen: Callable[[Story], object], details: tuple[str, ...]
) -> None:
    [change] = between(running(), happen).brokers
    assert (change.change, change.details, change.topics) == (Change.CHANGED, details, 0)


def test_of_one_topic_only_its_brokers_are_told() -> None:
    def happen(story: Story) -> None:
        story.lose().register("broker-c", topics=["refunds", "returns"])

    found = between(running(), happen, topic="orders")

    assert [(b.broker, b.change, b.topics) for b in found.brokers] == [("broker-a", Change.WENT, 1)]
    assert (found.came, found.went) == ((), ())
