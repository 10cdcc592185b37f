"""Findings about topics that people made."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from routebook.audit.checks import topics
from routebook.audit.findings import Finding, Severity
from routebook.audit.survey import Survey
from routebook.wire.answers import TopicQueues, WriteState
from routebook.wire.registration import MappingInfo
from support.views import N1, N2, group, queues, route, survey, view

A, B = group("broker-a"), group("broker-b")
SLAVE = group("broker-s", {1: "10.0.0.2:10911"})
Check = Callable[[Survey], Iterator[Finding]]


def findings(check: Check, held: Iterable[TopicQueues]) -> list[Finding]:
    return list(check(survey(view(N1, [A, B, SLAVE], {"t": held}))))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param([queues(perm=4)], True, id="read-only"),
        pytest.param([queues(perm=4), queues("broker-b")], False, id="writable-elsewhere"),
        pytest.param([queues(write=0)], False, id="no-write-queues"),
        pytest.param([queues(perm=0)], False, id="no-permission"),
        pytest.param([queues(perm=4), queues("broker-b", perm=0)], True, id="closed-elsewhere"),
        pytest.param([queues("broker-s")], False, id="no-master"),
        pytest.param([queues(perm=4), queues("broker-s")], True, id="the-other-has-no-master"),
        pytest.param([queues("gone")], False, id="ghost"),
        pytest.param([queues(read=0, write=0, perm=4)], False, id="no-queues"),
    ],
)
def test_a_topic_no_master_takes_messages_for_is_an_error(
    held: list[TopicQueues], told: bool
) -> None:
    found = findings(topics.read_only, held)
    assert [(one.severity, one.subject) for one in found] == [(Severity.ERROR, "topic t")] * told


def held_by_node(*taken: str, kept: tuple[str, ...] = (), topics: int = 3) -> Survey:
    """Topics t, u and archive of broker-a, not one of them writable; what the node says of them."""
    topics_held = {name: [queues(perm=4)] for name in ("t", "u", "archive")}
    state = WriteState(topics, 0, taken, kept)
    return replace(survey(view(N1, [A], topics_held)), write_states={N1: {"broker-a": state}})


def subjects(check: Check, of: Survey) -> list[tuple[Severity, str]]:
    return [(one.severity, one.subject) for one in check(of)]


def test_a_topic_that_its_broker_registered_read_only_is_no_error() -> None:
    drained = held_by_node("t", "u", kept=("archive",))
    assert subjects(topics.read_only, drained) == [(Severity.ERROR, "2 topics")]
    assert subjects(topics.deliberate_read_only, drained) == [(Severity.INFO, "topic archive")]


def test_a_broker_that_registers_all_topics_read_only_is_not_called_drained() -> None:
    closed = held_by_node(kept=("archive", "t", "u"))
    assert subjects(topics.read_only, closed) == []
    assert subjects(topics.deliberate_read_only, closed) == [(Severity.INFO, "3 topics")]
    (found,) = topics.drained_brokers(closed)
    assert found.severity is Severity.INFO
    assert "the broker registers them so" in found.evidence


@pytest.mark.parametrize(
    ("taken", "severity"),
    [
        pytest.param(("t",), Severity.INFO, id="one-of-many-by-hand"),
        pytest.param(("t", "u", "v"), Severity.ERROR, id="drained-before-a-topic-was-made"),
    ],
)
def test_a_topic_made_read_only_by_hand_is_no_error(
    taken: tuple[str, ...], severity: Severity
) -> None:
    held = {"t": [queues(perm=4)], "new": [queues()]}
    state = WriteState(4, 0, taken, ())
    told = replace(survey(view(N1, [A], held)), write_states={N1: {"broker-a": state}})
    found = [*topics.read_only(told), *topics.deliberate_read_only(told)]
    assert [(one.severity, one.subject) for one in found] == [(severity, "topic t")]


def test_without_a_node_that_knows_a_broker_with_anything_writable_was_not_drained() -> None:
    held = {"t": [queues(perm=4)], "TBW102": [queues(perm=7)]}
    told = survey(view(N1, [A], held))
    assert subjects(topics.read_only, told) == []
    assert subjects(topics.deliberate_read_only, told) == [(Severity.INFO, "topic t")]


def test_the_evidence_says_who_holds_a_read_only_topic_and_how() -> None:
    (found,) = findings(topics.read_only, [queues(perm=4), queues("broker-b", write=0)])
    assert found.evidence == ("t: broker-a R-- 8 write queues, broker-b RW- 0 write queues",)


def test_a_topic_read_only_on_some_nodes_says_which() -> None:
    (found,) = topics.read_only(
        survey(view(N1, [A], {"t": [queues()]}), view(N2, [A], {"t": [queues(perm=4)]}))
    )
    assert found.evidence == ("t: broker-a R-- 8 write queues, says only 192.168.1.2:9876",)


def test_a_broker_with_no_writable_topic_is_drained() -> None:
    held = {
        "t": [queues(perm=4), queues("broker-b")],
        "u": [queues(perm=4)],
        "TBW102": [queues(perm=5)],
    }
    (found,) = topics.drained_brokers(survey(view(N1, [A, B], held)))
    assert (found.severity, found.subject) == (Severity.WARNING, "broker broker-a")
    assert found.evidence == ("2 topics, none of them writable there, says 192.168.1.1:9876",)
    assert "routebook undrain broker-a" in found.remedy


def test_a_broker_drained_on_some_nodes_says_which_are_left() -> None:
    (found,) = topics.drained_brokers(
        survey(view(N1, [A], {"t": [queues(perm=4)]}), view(N2, [A], {"t": [queues()]}))
    )
    assert found.evidence == (
        "1 topic, none of them writable there, says 192.168.1.1:9876",
        "not so, says 192.168.1.2:9876",
    )


def test_a_broker_with_one_writable_topic_is_not_drained_and_its_others_are_worth_knowing() -> None:
    views = view(N1, [A, B], {"t": [queues(perm=4), queues("broker-b")], "u": [queues()]})
    assert not list(topics.drained_brokers(survey(views)))
    (found,) = topics.partly_read_only(survey(views))
    assert (found.severity, found.evidence) == (Severity.INFO, ("t: broker-a R--",))


def test_topics_of_a_drained_broker_are_not_told_one_by_one() -> None:
    views = view(N1, [A, B], {"t": [queues(perm=4), queues("broker-b")]})
    assert not list(topics.partly_read_only(survey(views)))


@pytest.mark.parametrize(
    "check", [topics.drained_brokers, topics.partly_read_only], ids=lambda check: check.__name__
)
def test_a_group_without_master_is_neither_drained_nor_read_only(check: Check) -> None:
    acting = group("broker-s", {0: "10.0.0.2:10911"}, acting_master=True)
    told = route("t", [queues("broker-s", perm=4), queues()], [A, acting])
    assert not list(check(survey(view(N1, [A, SLAVE], routes=[told]))))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param([queues(perm=0)], True, id="closed"),
        pytest.param([queues(perm=1)], True, id="inherit-bit-only"),
        pytest.param([queues(perm=0), queues("broker-b", perm=4)], False, id="open-elsewhere"),
        pytest.param([], False, id="no-queues"),
    ],
)
def test_a_topic_nobody_may_use_is_worth_knowing(held: list[TopicQueues], told: bool) -> None:
    found = findings(topics.closed, held)
    assert [one.severity for one in found] == [Severity.INFO] * told


def test_what_is_left_of_a_deleted_topic_counts_for_nothing_else() -> None:
    held = {
        "t": [queues(perm=0, write=32), queues("broker-b", perm=0)],
        "u": [queues(), queues("broker-b", perm=0, write=32)],
    }
    views = view(N1, [A, B], held)
    found = [one for check in TOPIC_CHECKS for one in check(survey(views))]
    assert [(one.check, one.subject) for one in found] == [
        ("closed-topics", "topic t"),
        ("single-broker-topics", "topic u"),
    ]


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param([queues(perm=2)], True, id="write-only"),
        pytest.param([queues(read=0)], True, id="no-read-queues"),
        pytest.param([queues(perm=2), queues("broker-b")], False, id="readable-elsewhere"),
        pytest.param([queues(perm=0)], False, id="nothing-allowed"),
    ],
)
def test_a_topic_nobody_can_read_is_told(held: list[TopicQueues], told: bool) -> None:
    found = findings(topics.write_only, held)
    assert [one.severity for one in found] == [Severity.WARNING] * told


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param([queues(read=0, write=0)], True, id="none"),
        pytest.param([], True, id="no-broker"),
        pytest.param([queues(read=0, write=0), queues("broker-b")], False, id="elsewhere"),
        pytest.param([queues(read=8, write=0)], False, id="read-queues"),
        pytest.param([queues(read=0, write=0, perm=0)], False, id="closed"),
    ],
)
def test_a_topic_without_queues_is_told(held: list[TopicQueues], told: bool) -> None:
    assert bool(findings(topics.without_queues, held)) is told


@pytest.mark.parametrize(
    ("held", "evidence"),
    [
        pytest.param([queues(read=4)], ("t: broker-a 8 write, 4 read",), id="fewer-read"),
        pytest.param([queues(write=4)], (), id="fewer-written"),
        pytest.param([queues(read=4, perm=4)], (), id="not-written"),
        pytest.param(
            [queues(perm=2), queues("broker-b")],
            ("t: broker-a 8 write, 0 read",),
            id="one-not-readable",
        ),
        pytest.param([queues(perm=2)], (), id="none-readable"),
    ],
)
def test_queues_written_and_not_read_are_an_error(
    held: list[TopicQueues], evidence: tuple[str, ...]
) -> None:
    found = findings(topics.unread_queues, held)
    assert tuple(line for one in found for line in one.evidence) == evidence


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        pytest.param((8, 4), False, id="twice"),
        pytest.param((9, 4), True, id="more-than-twice"),
        pytest.param((8, 0), False, id="none-on-one"),
    ],
)
def test_more_than_twice_the_queues_on_one_broker_is_told(
    counts: tuple[int, int], told: bool
) -> None:
    held = [queues(write=counts[0]), queues("broker-b", write=counts[1])]
    found = findings(topics.skewed, held)
    assert [one.evidence for one in found] == [("t: broker-a 9, broker-b 4",)] * told


def test_a_topic_on_one_broker_is_worth_knowing() -> None:
    pair = group("broker-a", {0: "10.0.0.1:1", 1: "10.0.0.2:1"})
    held = {"t": [queues()], "u": [queues(), queues("broker-b")]}
    (found,) = topics.on_one_broker(survey(view(N1, [pair, B], held)))
    assert (found.severity, found.subject) == (Severity.INFO, "topic t")
    assert found.evidence == ("t: broker-a with 1 slave",)


@pytest.mark.parametrize(
    "check",
    [topics.unread_queues, topics.skewed, topics.on_one_broker],
    ids=lambda check: check.__name__,
)
def test_static_topics_have_no_queue_numbers_to_judge(check: Check) -> None:
    held = [queues(read=1, write=16), queues("broker-b", read=1, write=2)]
    static = replace(
        route("t", held, [A, B]), mappings={"broker-a": MappingInfo("t", "broker-a", 4)}
    )
    assert not list(check(survey(view(N1, [A, B], routes=[static]))))


SYSTEM = [
    "TBW102",
    "SELF_TEST_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "BenchmarkTest",
    "OFFSET_MOVED_EVENT",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "rmq_sys_REVIVE_LOG_c1",
    "%RETRY%group",
    "%DLQ%group",
    "c1",
    "c1_REPLY_TOPIC",
    "broker-a",
]
TOPIC_CHECKS: list[Check] = [
    topics.read_only,
    topics.drained_brokers,
    topics.partly_read_only,
    topics.closed,
    topics.write_only,
    topics.without_queues,
    topics.unread_queues,
    topics.skewed,
    topics.on_one_broker,
]


@pytest.mark.parametrize("check", TOPIC_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "held",
    [
        pytest.param([queues(perm=4)], id="read-only"),
        pytest.param([queues(perm=2)], id="write-only"),
        pytest.param([queues(read=0, write=0)], id="no-queues"),
        pytest.param([queues(read=1, write=32), queues("broker-b", write=1)], id="skewed"),
    ],
)
def test_system_topics_are_not_judged(check: Check, held: list[TopicQueues]) -> None:
    assert not list(check(survey(view(N1, [A, B], dict.fromkeys(SYSTEM, held)))))


def test_topics_that_only_look_like_system_topics_are_judged() -> None:
    names = ["orders_REPLY_TOPIC", "tbw102", "RETRY%group", "sys_rmq_x"]
    (found,) = topics.on_one_broker(survey(view(N1, [A], {name: [queues()] for name in names})))
    assert found.subject == "4 topics"
