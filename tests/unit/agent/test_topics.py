"""The table of one broker: its version, what changed since another, its permission."""

import pytest

from routebook.agent.topics import CHANGES_KEPT, MAX_LISTED, MAX_REMOVED, TopicTable, restricted
from routebook.wire.broker_requests import Topic
from routebook.wire.registration import DataVersion

BEGIN_MS = 1_700_000_000_000


def table(*names: str, permission: int = 6, state_version: int = 0) -> TopicTable:
    return TopicTable(
        map(Topic, names), permission=permission, state_version=state_version, now_ms=BEGIN_MS
    )


def test_every_change_moves_the_version() -> None:
    topics = table("orders", state_version=5)
    assert topics.version == DataVersion(0, 5, BEGIN_MS)
    assert topics.put(Topic("payments"), now_ms=BEGIN_MS + 1)
    assert topics.version == DataVersion(1, 5, BEGIN_MS + 1)
    assert topics.remove("orders", now_ms=BEGIN_MS + 2)
    assert topics.version == DataVersion(2, 5, BEGIN_MS + 2)
    assert topics.set_permission(4, now_ms=BEGIN_MS + 3)
    assert topics.version == DataVersion(3, 5, BEGIN_MS + 3)
    assert topics.replace([Topic("orders")], now_ms=BEGIN_MS + 3)
    assert topics.version == DataVersion(4, 5, BEGIN_MS + 3)
    assert list(topics.topics) == ["orders"]


def test_what_changes_nothing_leaves_the_version_alone() -> None:
    topics = table("orders")
    assert not topics.put(Topic("orders"), now_ms=BEGIN_MS + 1)
    assert not topics.remove("payments", now_ms=BEGIN_MS + 1)
    assert not topics.set_permission(6, now_ms=BEGIN_MS + 1)
    assert not topics.replace([Topic("orders")], now_ms=BEGIN_MS + 1)
    assert topics.mark_ordered(["payments"], now_ms=BEGIN_MS + 1) == frozenset()
    assert topics.version == DataVersion(0, 0, BEGIN_MS)


def test_only_what_changed_has_to_be_announced() -> None:
    topics = table("orders")
    topics.put(Topic("payments"), now_ms=BEGIN_MS)
    topics.put(Topic("orders", read_queues=2), now_ms=BEGIN_MS)
    topics.put(Topic("orders", read_queues=3), now_ms=BEGIN_MS)
    assert topics.changed_since(3) == []
    assert topics.changed_since(2) == [Topic("orders", read_queues=3)]
    assert topics.changed_since(0) == [Topic("orders", read_queues=3), Topic("payments")]


def test_a_removed_topic_is_announced_without_permission() -> None:
    topics = table("orders", "payments")
    topics.remove("orders", now_ms=BEGIN_MS)
    assert topics.changed_since(0) == [Topic("orders", perm=0)]
    assert topics.removed_since(0) == [Topic("orders", perm=0)]
    assert topics.changed_since(1) == []
    assert topics.removed_since(1) == []


def test_a_topic_that_came_back_is_not_announced_as_removed() -> None:
    topics = table("orders")
    topics.remove("orders", now_ms=BEGIN_MS)
    topics.put(Topic("orders"), now_ms=BEGIN_MS)
    assert topics.changed_since(0) == [Topic("orders")]
    assert topics.removed_since(0) == []


def test_replacing_announces_what_came_what_changed_and_what_went() -> None:
    topics = table("stays", "changes", "goes")
    topics.replace([Topic("stays"), Topic("changes", perm=4), Topic("comes")], now_ms=BEGIN_MS + 1)
    assert topics.changed_since(0) == [
        Topic("changes", perm=4),
        Topic("comes"),
        Topic("goes", perm=0),
    ]


def test_a_change_of_permission_concerns_everything() -> None:
    topics = table("orders")
    topics.set_permission(4, now_ms=BEGIN_MS)
    topics.put(Topic("payments"), now_ms=BEGIN_MS)
    assert topics.changed_since(0) is None
    assert topics.changed_since(1) == [Topic("payments")]


def test_whoever_is_too_far_behind_gets_everything() -> None:
    topics = table()
    for number in range(CHANGES_KEPT + 1):
        topics.put(Topic("orders", read_queues=number), now_ms=BEGIN_MS)
    assert topics.changed_since(0) is None
    assert topics.changed_since(1) == [Topic("orders", read_queues=CHANGES_KEPT)]


@pytest.mark.parametrize(("more", "listed"), [(MAX_LISTED, True), (MAX_LISTED + 1, False)])
def test_a_change_of_very_many_topics_concerns_everything(more: int, listed: bool) -> None:
    topics = table()
    topics.replace([Topic(f"t{number}") for number in range(more)], now_ms=BEGIN_MS)
    assert (topics.changed_since(0) is not None) is listed


def test_many_changes_of_many_topics_concern_everything() -> None:
    topics = table()
    topics.replace([Topic(f"a{number}") for number in range(MAX_LISTED)], now_ms=BEGIN_MS)
    topics.put(Topic("one-more"), now_ms=BEGIN_MS)
    assert topics.changed_since(0) is None


def test_the_memory_of_removed_topics_is_bounded() -> None:
    topics = table()
    for number in range(MAX_REMOVED + 5):
        topics.put(Topic(f"t{number}"), now_ms=BEGIN_MS)
        topics.remove(f"t{number}", now_ms=BEGIN_MS)
    removed = topics.removed_since(0)
    assert len(removed) == MAX_REMOVED
    assert removed[-1].name == f"t{MAX_REMOVED + 4}"


def test_ordered_topics_are_marked_once_and_never_cleared() -> None:
    topics = table("orders", "payments")
    assert topics.mark_ordered(["orders", "elsewhere"], now_ms=BEGIN_MS) == {"orders"}
    assert topics.topics["orders"] == Topic("orders", order=True)
    assert topics.version.counter == 1
    assert topics.mark_ordered(["orders"], now_ms=BEGIN_MS) == frozenset()
    assert topics.mark_ordered([], now_ms=BEGIN_MS) == frozenset()
    assert topics.topics["orders"].order
    assert topics.version.counter == 1


FULL = Topic("T", 3, 2, perm=7, sys_flag=1, order=True, attributes={"a": "b"})


@pytest.mark.parametrize(
    ("permission", "whole_table", "said"),
    [
        pytest.param(6, True, FULL, id="read-write"),
        pytest.param(7, False, FULL, id="with-inherit"),
        pytest.param(4, True, Topic("T", 3, 2, perm=4), id="read-only-table"),
        pytest.param(4, False, Topic("T", 3, 2, perm=4, sys_flag=1), id="read-only-change"),
        pytest.param(2, True, Topic("T", 3, 2, perm=2), id="write-only-table"),
        pytest.param(3, False, Topic("T", 3, 2, perm=3, sys_flag=1), id="write-only-change"),
        pytest.param(0, True, Topic("T", 3, 2, perm=0), id="nothing-table"),
    ],
)
def test_a_broker_that_lacks_read_or_write_registers_what_is_left(
    permission: int, whole_table: bool, said: Topic
) -> None:
    assert restricted(FULL, permission, whole_table=whole_table) == said
