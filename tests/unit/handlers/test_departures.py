"""Many leave at once: work by the number of those who leave, a few a slice."""

import pytest

from routebook.events import BrokerConflict, BrokerLeft, BrokerRegistered, Cause, TopicsChanged
from routebook.slices import carried_out
from routebook.state.departures import LEFT_A_SLICE
from routebook.state.topics import CLEARED_A_SLICE, MOST_HOLES, PERMISSIONS_A_SLICE
from routebook.wire.codes import RequestCode, ResponseCode
from support.builders import registration_body
from support.desk import Desk

MANY = 10 * LEFT_A_SLICE
EMPTY = registration_body([])


def crowd(link: int = 1, *, many: int = MANY) -> Desk:
    """Many empty brokers on one connection."""
    desk = Desk()
    for number in range(many):
        desk.register(f"b{number}", addr=f"a{number}:1", link=link, body=EMPTY)
    return desk


def test_those_who_lived_by_one_connection_leave_a_few_a_slice() -> None:
    desk = crowd()
    slices = list(desk.routes.close_link(1, Cause.CONNECTION_CLOSED, "p"))
    assert [len(events) for events in slices] == [LEFT_A_SLICE] * 10
    assert not desk.routes.members.live()


def test_a_broker_heard_of_over_another_connection_before_its_turn_stays() -> None:
    desk = crowd()
    leaving = desk.routes.close_link(1, Cause.CONNECTION_CLOSED, "p")
    next(leaving)
    fields = {"clusterName": "c1", "brokerAddr": f"a{MANY - 1}:1"}
    desk.ask(RequestCode.BROKER_HEARTBEAT, dict(fields), link=2)
    desk.register(f"b{MANY - 2}", addr=f"a{MANY - 2}:1", link=3, body=EMPTY)
    events, _ = carried_out(leaving)
    assert len(events) == MANY - LEFT_A_SLICE - 2
    assert {member.known.addr for member in desk.routes.members.live()} == {
        f"a{MANY - 1}:1",
        f"a{MANY - 2}:1",
    }
    desk.close(2)
    desk.close(3)
    # Who registered lives by its connection; a heartbeat may be anybody's.
    assert {member.known.addr for member in desk.routes.members.live()} == {f"a{MANY - 1}:1"}


def test_a_silent_broker_heard_of_before_its_turn_stays() -> None:
    desk = crowd()
    desk.now_ms += 200_000
    leaving = desk.routes.expire(desk.now_ms)
    next(leaving)
    fields = {"clusterName": "c1", "brokerAddr": f"a{MANY - 1}:1"}
    desk.ask(RequestCode.BROKER_HEARTBEAT, dict(fields), link=1)
    carried_out(leaving)
    assert [member.known.addr for member in desk.routes.members.live()] == [f"a{MANY - 1}:1"]
    assert desk.expire(200_000) == [1], "and has a deadline again"


def test_what_the_departed_held_is_cleared_away_by_its_size_not_by_their_number() -> None:
    desk = Desk()
    for number in range(50):
        body = registration_body([f"t{number}-{n}" for n in range(10)])
        desk.register(f"b{number}", addr=f"a{number}:1", link=1, body=body)
    desk.close(1)
    turns = 1
    while desk.routes.topics.clear_some():
        turns += 1
    assert turns <= 1 + 50 * 11 // CLEARED_A_SLICE
    assert desk.routes.topics.known == 0


def test_empty_brokers_leave_nothing_to_clear_away() -> None:
    desk = crowd()
    desk.close(1)
    assert not desk.routes.topics.clear_some()


def test_lists_leave_out_the_departed_before_they_are_cleared_away() -> None:
    desk = Desk()
    topics = {f"t{n}": {"topicSysFlag": 1} for n in range(CLEARED_A_SLICE + 1)}
    desk.register("a", addr="a:1", link=1, body=registration_body(topics))
    desk.register("b", addr="b:1", link=2, body=registration_body({"t0": {}, "u": {}}))
    desk.close(1)
    assert desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["t0", "u"]
    assert desk.topic_list(RequestCode.GET_UNIT_TOPIC_LIST) == []
    assert desk.topic_list(RequestCode.GET_TOPICS_BY_CLUSTER, cluster="c1") == ["t0", "u"]
    assert desk.routes.topics.known == CLEARED_A_SLICE + 2, "nothing is cleared away by asking"


def test_the_topics_of_a_group_without_its_master_are_closed_in_slices() -> None:
    desk = Desk()
    body = registration_body([f"t{n}" for n in range(3 * PERMISSIONS_A_SLICE)])
    desk.register("b", 0, addr="m:1", link=1, body=body, enableActingMaster="true")
    desk.register("b", 1, addr="s:1", link=2, body=body, enableActingMaster="true")
    slices = list(desk.routes.close_link(1, Cause.CONNECTION_CLOSED, "p"))
    changed = [e for events in slices for e in events if isinstance(e, TopicsChanged)]
    assert [len(event.changes) for event in changed] == [PERMISSIONS_A_SLICE] * 3
    assert len(slices) == 3
    assert desk.perms(f"t{3 * PERMISSIONS_A_SLICE - 1}") == {"b": 4}


def test_a_master_that_is_back_before_all_topics_are_closed_finds_them_open() -> None:
    desk = Desk()
    body = registration_body([f"t{n}" for n in range(3 * PERMISSIONS_A_SLICE)])
    desk.register("b", 0, addr="m:1", link=1, body=body, enableActingMaster="true")
    desk.register("b", 1, addr="s:1", link=2, body=body, enableActingMaster="true")
    leaving = desk.routes.close_link(1, Cause.CONNECTION_CLOSED, "p")
    next(leaving)
    desk.register("b", 0, addr="m:1", link=3, body=body, enableActingMaster="true")
    carried_out(leaving)
    assert {desk.perms(topic)["b"] for topic in ("t0", "t450", "t899")} == {6}


def test_a_group_is_no_larger_than_any_rocketmq_has_and_a_refusal_leaves_no_trace() -> None:
    desk = Desk()
    for number in range(64):
        desk.register("b", number, addr=f"a{number}:1", link=1)
    before = len(desk.events)
    reply = desk.register("b", 64, addr="a64:1", link=1)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "64 brokers" in (reply.remark or "")
    assert "maxBrokersPerGroup" in (reply.remark or "")
    assert len(desk.events) == before + 1
    assert len(desk.routes.members.live()) == 64
    moved = desk.register("b", 65, addr="a63:1", link=1)
    assert moved.code == ResponseCode.SUCCESS, "a member of a full group may change its id"
    replaced = desk.register("b", 0, addr="other:1", link=1)
    assert replaced.code == ResponseCode.SUCCESS, "and an id may change hands"


@pytest.mark.parametrize("ids", [1, 64])
def test_an_event_lists_no_more_addresses_than_a_group_may_have(ids: int) -> None:
    desk = Desk()
    for number in range(200):
        desk.register("b", number % ids, addr=f"a{number}:1", link=1)
    desk.close(1)
    told = [e for e in desk.events if isinstance(e, BrokerRegistered | BrokerLeft)]
    assert max(len(e.addrs_before) + len(e.addrs_after) for e in told) <= 2 * ids


def test_a_name_in_many_clusters_is_one_conflict_for_each_registration() -> None:
    desk = Desk()
    for number in range(100):
        desk.register("b", addr="a:1", cluster=f"c{number}", link=number)
    conflicts = [event for event in desk.events if isinstance(event, BrokerConflict)]
    assert len(conflicts) == 99
    assert conflicts[0].reason.startswith("cluster c0 has a broker of this name")
    assert conflicts[-1].reason.startswith("clusters c0, c1, c2 and 96 more have a broker")
    assert conflicts[-1].other == "a:1, a:1, a:1"


def test_a_topic_of_thousands_is_let_go_by_each_without_looking_for_those_who_went_before() -> None:
    desk = Desk()
    body = registration_body(["wide", "other"])
    groups = 2 * MOST_HOLES + 10
    for number in range(groups):
        desk.register(f"b{number}", addr=f"a{number}:1", link=1, body=body)
    first = desk.routes.topics._queues["wide"]
    desk.close(1)
    tables = {id(first)}
    kept = [first]  # so that none has the place of another
    while desk.routes.topics.clear_some():
        now = desk.routes.topics._queues.get("wide")
        if now is not None and id(now) not in tables:
            tables.add(id(now))
            kept.append(now)
    assert len(tables) == 2, "made anew after so many left"
    assert desk.routes.topics.known == 0
    assert desk.routes.topics._holes == {}
