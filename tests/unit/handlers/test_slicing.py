"""What can grow is answered in slices: counted here, not timed."""

from collections.abc import Generator
from typing import Any

import pytest

from routebook.events import TopicsChanged
from routebook.handlers.dispatch import dispatch
from routebook.handlers.order import MAX_ORDER_BYTES, ORDER_NAMESPACE
from routebook.handlers.services import Caller, HandlerResult
from routebook.slices import Slices, finished
from routebook.state.errors import TableFull
from routebook.state.kv import KvChange, KvStore
from routebook.state.revision import Revision
from routebook.state.topics import TOPICS_A_SLICE
from routebook.wire.command import Command, Reply
from support.builders import broker_fields, mapping_info, registration_body
from support.desk import Desk

MANY = 10_000
TOPICS = [f"topic-{number}" for number in range(MANY)]


def answer(desk: Desk, code: int, **fields: str) -> HandlerResult:
    request = Command(code, 0, 1, 513, None, dict(fields), b"")
    return dispatch(request, desk.services, Caller(99, "admin"))


def slices_of(answer: HandlerResult) -> tuple[int, Reply]:
    """How many slices an answer takes beyond those taken at once, and the reply."""
    if isinstance(answer, Reply):
        return 0, answer
    assert isinstance(answer, Generator)
    count = 0
    while True:
        try:
            next(answer)
        except StopIteration as done:
            return count, done.value
        count += 1


@pytest.fixture(scope="module")
def full() -> Desk:
    desk = Desk(max_kv_bytes=1_000_000)
    desk.register(body=registration_body({t: {"topicSysFlag": 3, "perm": 4} for t in TOPICS}))
    for number in range(2000):
        desk.register(f"b{number}", addr=f"a{number}:1", link=7, body=registration_body([]))
    changes = [KvChange("space", t, "v", "p") for t in TOPICS]
    desk.kv.apply(changes)
    return desk


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        pytest.param(206, {}, id="all-topics"),
        pytest.param(224, {"cluster": "c1"}, id="topics-of-a-cluster"),
        pytest.param(311, {}, id="unit-topics"),
        pytest.param(106, {}, id="cluster-info"),
        pytest.param(327, {"brokerName": "broker-a"}, id="add-write-permission"),
        pytest.param(219, {"namespace": "space"}, id="key-value-list"),
        pytest.param(19_004, {"brokerName": "broker-a", "lookOnly": "true"}, id="write-state"),
    ],
)
def test_an_answer_about_much_takes_many_slices(
    full: Desk, code: int, fields: dict[str, str]
) -> None:
    slices, reply = slices_of(answer(full, code, **fields))
    assert reply.code == 0
    assert slices >= 3


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (206, {}),
        (224, {"cluster": "c1"}),
        (311, {}),
        (106, {}),
        (304, {}),
        (205, {"brokerName": "broker-a"}),
        (327, {"brokerName": "broker-a"}),
        (216, {"topic": "orders"}),
        (104, {key: value or "" for key, value in broker_fields().items()}),
    ],
)
def test_an_answer_about_little_is_given_at_once(code: int, fields: dict[str, str]) -> None:
    desk = Desk()
    desk.register()
    assert isinstance(answer(desk, code, **fields), Reply)


def test_a_list_is_whole_though_topics_come_and_go_while_it_is_made() -> None:
    desk = Desk()
    desk.register(body=registration_body(TOPICS))
    names = desk.routes.topics.names()
    next(names)
    desk.register("late", addr="l:1", link=2, body=registration_body(["new-1", "new-2"]))
    answer(desk, 216, topic="topic-1")
    assert set(TOPICS) - {"topic-1"} <= set(finished(names))


@pytest.mark.parametrize("code", [206, 311])
def test_who_is_gone_is_passed_over_in_slices_too(code: int) -> None:
    """A topic of many brokers that have all just gone costs a look at each."""
    desk = Desk()
    for number in range(150):
        desk.register(
            f"b{number}", addr=f"a{number}:1", link=7, body=registration_body(TOPICS[:500])
        )
    desk.close(7)
    slices, reply = slices_of(answer(desk, code))
    assert reply.body == b'{"topicList":[]}'
    assert slices >= 3


def test_permissions_are_taken_also_when_nobody_waits_for_the_answer() -> None:
    desk = Desk()
    desk.register(body=registration_body(TOPICS))
    waiting: list[Slices[Any]] = []
    desk.services.carry_on = waiting.append
    wiping = answer(desk, 205, brokerName="broker-a")
    assert isinstance(wiping, Generator)
    wiping.close()
    assert desk.perms(TOPICS[-1]) == {"broker-a": 6}
    (rest,) = waiting
    finished(rest)
    assert desk.perms(TOPICS[-1]) == {"broker-a": 4}
    changed = [e for e in desk.events if isinstance(e, TopicsChanged) and e.cause == "admin"]
    assert sum(len(event.changes) for event in changed) == MANY


def registering(desk: Desk, counter: int) -> Slices[Reply]:
    request = Command(
        103, 0, 1, 513, None, broker_fields(), registration_body(TOPICS, counter=counter)
    )
    slices = dispatch(request, desk.services, Caller(1, "peer-1"))
    assert isinstance(slices, Generator)
    return slices


@pytest.mark.parametrize("steps", range(2, 24, 4))
def test_a_registration_under_way_when_permissions_are_taken_does_not_give_them_back(
    steps: int,
) -> None:
    desk = Desk()
    finished(registering(desk, 1))
    slices = registering(desk, 2)
    for _ in range(steps):
        next(slices)
    slices_of(answer(desk, 205, brokerName="broker-a"))
    finished(slices)
    perms = {desk.perms(topic)["broker-a"] for topic in TOPICS[::500]}
    assert len(perms) == 1, "all topics are open or all are closed"


@pytest.mark.parametrize("steps", range(0, 12, 3))
def test_permissions_being_taken_give_way_to_a_registration_that_says_all_anew(steps: int) -> None:
    desk = Desk()
    finished(registering(desk, 1))
    wiping = answer(desk, 205, brokerName="broker-a")
    assert isinstance(wiping, Generator)
    for _ in range(steps):
        next(wiping, None)
    finished(registering(desk, 2))
    slices_of(wiping)
    assert {desk.perms(topic)["broker-a"] for topic in TOPICS[::500]} == {6}


def test_mappings_are_taken_over_a_few_a_slice() -> None:
    desk = Desk()
    mappings = {f"t{n}": mapping_info(f"t{n}") for n in range(1000)}
    body = registration_body([f"t{n}" for n in range(1000)], mappings=mappings)
    request = Command(103, 0, 1, 513, None, broker_fields(), body)
    slices, reply = slices_of(dispatch(request, desk.services, Caller(1, "p")))
    assert reply.code == 0
    assert slices >= 10
    assert len(desk.routes.topics.mappings("t999")) == 1


# -- the order table


def ordered(desk: Desk, keys: int, value: str = "broker-a:4") -> None:
    desk.kv.apply([KvChange(ORDER_NAMESPACE, f"t{n}", value, "p") for n in range(keys)])


def test_the_order_table_is_encoded_once_for_all_registrations() -> None:
    desk = Desk()
    ordered(desk, 5000)
    first = desk.register("a", addr="a:1")
    again = desk.register("a", addr="a:1")
    other = desk.register("b", addr="b:1")
    assert first.body.startswith(b'{"table":{"t0":"broker-a:4",')
    assert again.body is first.body
    assert other.body is first.body


def test_a_change_of_the_order_table_is_told_with_the_next_registration() -> None:
    desk = Desk()
    desk.register()
    for keys in (1, 2):
        ordered(desk, keys)
        assert desk.register().body.count(b"broker-a:4") == keys
    desk.kv.apply([KvChange(ORDER_NAMESPACE, "t0", None, "p")])
    assert desk.register().body == b'{"table":{"t1":"broker-a:4"}}'


def test_an_unchanged_registration_is_answered_at_once_however_long_the_order_table() -> None:
    desk = Desk()
    ordered(desk, 5000)
    desk.register(link=1)
    request = Command(103, 0, 1, 513, None, broker_fields(), registration_body())
    assert isinstance(dispatch(request, desk.services, Caller(1, "peer-1")), Reply)


def test_an_order_table_no_broker_can_use_is_refused_before_it_is_there() -> None:
    kv = KvStore(Revision(), 10**9, max_table_bytes={ORDER_NAMESPACE: MAX_ORDER_BYTES})
    kv.apply([KvChange(ORDER_NAMESPACE, "a", "v" * (MAX_ORDER_BYTES - 2), "p")])
    assert kv.check(KvChange(ORDER_NAMESPACE, "", "w", "p"))
    with pytest.raises(TableFull, match="ORDER_TOPIC_CONFIG exceed the limit of 1048576"):
        kv.check(KvChange(ORDER_NAMESPACE, "b", "w", "p"))
    assert kv.check(KvChange("OTHER", "b", "w", "p")), "other namespaces are not concerned"
    assert kv.check(KvChange(ORDER_NAMESPACE, "a", "v", "p")), "it may shrink"
    assert kv.check(KvChange(ORDER_NAMESPACE, "a", None, "p"))


def test_what_a_registration_leaves_out_is_looked_for_a_few_topics_a_slice() -> None:
    desk = Desk(delete_topic_with_broker_registration=True)
    desk.register("b", body=registration_body(TOPICS))
    fields = broker_fields("b")
    body = registration_body(TOPICS[5:], counter=2)
    before = len(desk.events)
    request = Command(103, 0, 1, 513, None, dict(fields), body)
    count, reply = slices_of(dispatch(request, desk.services, Caller(1, "peer-1")))
    assert reply.code == 0
    dropped = [e for e in desk.events[before:] if isinstance(e, TopicsChanged)]
    assert [change.topic for event in dropped for change in event.changes] == TOPICS[:5]
    plain = Desk()
    plain.register("b", body=registration_body(TOPICS))
    without, _ = slices_of(dispatch(request, plain.services, Caller(1, "peer-1")))
    assert count >= without + MANY // TOPICS_A_SLICE, "slices of their own"
