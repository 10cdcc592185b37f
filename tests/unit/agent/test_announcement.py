"""Announcements: what they hold, how they are cut, which version each part carries."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from routebook.agent.announcement import (
    IN_A_THREAD,
    MAX_SINGLES,
    PART_BYTES,
    Announcement,
    Announcer,
    whole_table,
)
from routebook.agent.settings import BrokerSettings
from routebook.agent.topics import TopicTable
from routebook.wire.broker_requests import Topic
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import Command
from routebook.wire.registration import DataVersion
from support.recording import registration_of

BEGIN_MS = 1_700_000_000_000
VERSION = DataVersion(4, 1, BEGIN_MS)


def settings(**values: Any) -> BrokerSettings:
    return BrokerSettings(name="broker-a", addr="10.0.0.1:10911", **values)


def topics(count: int, **values: Any) -> list[Topic]:
    return [Topic(f"topic-{number:06d}", **values) for number in range(count)]


def announced(offered: Iterable[Topic], *, permission: int = 6, **values: Any) -> Announcement:
    return whole_table(
        list(offered),
        settings(**values),
        version=VERSION,
        permission=permission,
        mapping_version=VERSION,
    )


def announcer(offered: Iterable[Topic] = (), **values: Any) -> tuple[Announcer, TopicTable]:
    chosen = settings(**values)
    table = TopicTable(offered, permission=chosen.permission, state_version=0, now_ms=BEGIN_MS)
    return Announcer(chosen, table), table


def names(command: Command) -> list[str]:
    return list(registration_of(command).topics)


def counts(announcement: Announcement) -> list[int]:
    return [len(names(part)) for part in announcement.parts]


def stamps(announcement: Announcement) -> list[int]:
    """Milliseconds each part is behind the table's version."""
    behind = []
    for part in announcement.parts:
        version = registration_of(part).data_version
        assert version is not None
        assert version.timestamp is not None
        assert (version.counter, version.state_version) == (VERSION.counter, VERSION.state_version)
        behind.append(BEGIN_MS - version.timestamp)
    return behind


def test_a_table_that_fits_goes_in_one_request_with_its_true_version() -> None:
    announcement = announced(topics(1000))
    assert counts(announcement) == [1000]
    assert stamps(announcement) == [0]
    assert announcement.opening is None
    assert not announcement.split


@pytest.mark.parametrize("compressed", [False, True])
def test_a_table_of_a_chosen_size_is_cut_and_only_the_last_part_has_the_true_version(
    compressed: bool,
) -> None:
    announcement = announced(topics(2000), split_topics=800, compressed=compressed)
    assert counts(announcement) == [800, 800, 400]
    assert stamps(announcement) == [2, 1, 0]
    assert [name for part in announcement.parts for name in names(part)] == [
        topic.name for topic in topics(2000)
    ]


@pytest.mark.parametrize(
    ("topic_count", "split_topics", "parts"),
    [
        (800, 800, [800]),
        (801, 800, [800, 1]),
        (250, 120, [120, 120, 10]),
        (5, 2, [2, 2, 1]),
        (0, 2, [0]),
    ],
)
def test_no_part_holds_more_topics_than_chosen(
    topic_count: int, split_topics: int, parts: list[int]
) -> None:
    assert counts(announced(topics(topic_count), split_topics=split_topics)) == parts


def test_a_table_beyond_the_frame_limit_is_cut_into_parts_of_a_few_megabytes() -> None:
    announcement = announced(topics(2500, attributes={"a": "x" * 8000}))
    sizes = [len(part.body) for part in announcement.parts]
    assert len(sizes) == 5
    assert max(sizes) < PART_BYTES + 2 * 1024 * 1024
    assert sum(counts(announcement)) == 2500
    assert stamps(announcement) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize(("count", "opened"), [(0, False), (1, True), (2, False)])
def test_a_single_topic_is_opened_with_an_empty_registration(count: int, opened: bool) -> None:
    announcement = announced(topics(count))
    assert counts(announcement) == [count]
    assert (announcement.opening is not None) is opened
    if announcement.opening is not None:
        opening = registration_of(announcement.opening)
        assert opening.topics == {}
        # Older than the table: a 4.9 server would take the topic for known otherwise.
        assert opening.data_version == DataVersion(4, 1, BEGIN_MS - 1)


def test_a_read_only_broker_registers_copies_without_write_permission() -> None:
    offered = [Topic("orders", perm=7, sys_flag=1), Topic("payments", perm=2)]
    read = registration_of(announced(offered, permission=4).parts[0]).topics
    assert {name: (topic.perm, topic.topic_sys_flag) for name, topic in read.items()} == {
        "orders": (4, 0),
        "payments": (0, 0),
    }
    assert offered[0].perm == 7


async def test_everything_is_encoded_once_for_all_who_need_it() -> None:
    say, table = announcer(topics(3))
    first = await say.everything(None)
    assert await say.everything(None) is first
    assert await say.everything(table.version) is first
    table.put(Topic("new"), now_ms=BEGIN_MS + 1)
    second = await say.everything(None)
    assert second.version == table.version
    assert "new" in names(second.parts[0])


async def test_a_large_table_says_the_same_as_a_small_one() -> None:
    say, _ = announcer(topics(IN_A_THREAD + 1))
    assert counts(await say.everything(None)) == [IN_A_THREAD + 1]


async def test_a_node_that_knew_a_removed_topic_is_told_and_others_are_not() -> None:
    say, table = announcer(topics(3), announce="full")
    before = table.version
    table.remove("topic-000001", now_ms=BEGIN_MS + 1)
    assert names((await say.everything(None)).parts[0]) == ["topic-000000", "topic-000002"]
    told = registration_of((await say.everything(before)).parts[0]).topics
    assert {name: topic.perm for name, topic in told.items()} == {
        "topic-000000": 6,
        "topic-000001": 0,
        "topic-000002": 6,
    }
    assert names((await say.everything(table.version)).parts[0]) == [
        "topic-000000",
        "topic-000002",
    ]


def test_an_incremental_change_registers_the_changed_topics_with_the_full_version() -> None:
    say, table = announcer(topics(3))
    before = table.version
    table.put(Topic("new", sys_flag=1), now_ms=BEGIN_MS + 1)
    changes = say.changes(before, server_version=Version.V5_5_0)
    assert changes is not None
    (part,) = changes.parts
    said = registration_of(part)
    assert list(said.topics) == ["new"]
    assert said.data_version == table.version == changes.version


def test_an_incremental_change_of_a_read_only_broker_keeps_system_flags() -> None:
    say, table = announcer(topics(3), permission=4)
    before = table.version
    table.put(Topic("new", sys_flag=1, perm=6), now_ms=BEGIN_MS + 1)
    changes = say.changes(before, server_version=Version.V5_5_0)
    assert changes is not None
    new = registration_of(changes.parts[0]).topics["new"]
    assert (new.perm, new.topic_sys_flag) == (4, 1)


def test_a_single_topic_change_is_a_topic_registration() -> None:
    say, table = announcer(topics(3), announce="single", permission=5)
    before = table.version
    table.put(Topic("new", 4, 2, sys_flag=2), now_ms=BEGIN_MS + 1)
    changes = say.changes(before, server_version=Version.V5_5_0)
    assert changes is not None
    (part,) = changes.parts
    assert part.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV
    assert part.ext_fields == {"topic": "new"}
    assert json.loads(part.body)["queueDatas"] == [
        {
            "brokerName": "broker-a",
            "perm": 4,
            "readQueueNums": 4,
            "topicSysFlag": 2,
            "writeQueueNums": 2,
        }
    ]


def test_a_server_that_does_not_know_topic_registrations_gets_an_ordinary_one() -> None:
    say, table = announcer(topics(3), announce="single")
    before = table.version
    table.put(Topic("new"), now_ms=BEGIN_MS + 1)
    changes = say.changes(before, server_version=Version.V4_9_4)
    assert changes is not None
    assert [names(part) for part in changes.parts] == [["new"]]


@pytest.mark.parametrize(
    ("announce", "changed", "everything"),
    [
        ("full", 1, True),
        ("single", MAX_SINGLES, False),
        ("single", MAX_SINGLES + 1, True),
        ("incremental", MAX_SINGLES + 1, False),
    ],
)
def test_some_changes_are_announced_by_saying_everything(
    announce: str, changed: int, everything: bool
) -> None:
    say, table = announcer(announce=announce)
    before = table.version
    table.replace(topics(changed), now_ms=BEGIN_MS + 1)
    assert (say.changes(before, server_version=Version.V5_5_0) is None) is everything


@pytest.mark.parametrize(
    ("values", "asks"),
    [({}, False), ({"force": False}, True), ({"split_topics": 2}, True)],
)
async def test_a_split_table_or_an_unforced_round_asks_before_it_sends(
    values: dict[str, Any], asks: bool
) -> None:
    say, _ = announcer(topics(3), **values)
    await say.everything(None)
    assert say.asks_first is asks


@pytest.mark.parametrize(
    ("heartbeat", "code"),
    [("query", RequestCode.QUERY_DATA_VERSION), ("light", RequestCode.BROKER_HEARTBEAT)],
)
def test_there_are_two_kinds_of_heartbeat(heartbeat: str, code: RequestCode) -> None:
    say, _ = announcer(heartbeat=heartbeat)
    assert say.heartbeat().code == code
