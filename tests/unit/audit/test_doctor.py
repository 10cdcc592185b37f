"""All checks together: silent on a healthy cluster, readable on a large one."""

from routebook.audit.doctor import diagnose
from routebook.audit.findings import EXAMPLES, Finding, Severity, examples, in_order
from routebook.words import counted
from support.views import N1, N2, group, queues, survey, view

A = group("broker-a", {0: "192.168.2.1:10911", 1: "192.168.2.2:10911"})
B = group("broker-b", {0: "192.168.2.3:10911", 1: "192.168.2.4:10911"})
SYSTEM = {
    "TBW102": [queues(perm=7), queues("broker-b", perm=7)],
    "broker-a": [queues(read=1, write=1, perm=7)],
    "broker-b": [queues("broker-b", read=1, write=1, perm=7)],
    "rmq_sys_SYNC_BROKER_MEMBER_broker-a": [queues(read=1, write=1, perm=1)],
    "%RETRY%readers": [queues(read=1, write=1)],
    "%DLQ%readers": [queues(read=1, write=1, perm=2)],
}


def finding(severity: Severity, subject: str, check: str = "c") -> Finding:
    return Finding(check, severity, subject, ("e",), "r")


def test_nothing_is_found_in_a_healthy_cluster() -> None:
    topics = {**SYSTEM, "orders": [queues(), queues("broker-b")]}
    addresses = [*A.addrs.values(), *B.addrs.values()]
    healthy = survey(
        view(N1, [A, B], topics), view(N2, [A, B], topics), probes=dict.fromkeys(addresses)
    )
    assert diagnose(healthy) == ()


def test_ten_thousand_topics_on_one_broker_are_one_finding() -> None:
    topics = {f"topic-{number:05}": [queues()] for number in range(10_000)}
    found = diagnose(survey(view(N1, [A], topics), view(N2, [A], topics)))
    assert [(one.check, one.subject) for one in found] == [("single-broker-topics", "10000 topics")]
    assert found[0].evidence == (
        *(f"topic-{number:05}: broker-a with 1 slave" for number in range(EXAMPLES)),
        "and 9995 more",
    )


def test_no_node_at_all_is_a_finding_for_each() -> None:
    found = diagnose(survey(failures={N1: "gone", N2: "gone"}))
    assert [(one.check, one.severity) for one in found] == [
        ("node-unreachable", Severity.ERROR),
        ("node-unreachable", Severity.ERROR),
    ]


def test_a_ghost_of_a_renamed_broker_is_seen_from_all_sides() -> None:
    old, new = group("old", {0: "192.168.2.1:10911"}), group("new", {0: "192.168.2.1:10911"})
    topics = {"t": [queues("old"), queues("new")]}
    found = diagnose(survey(view(N1, [old, new], topics), view(N2, [new], {"t": [queues("new")]})))
    assert [(one.check, one.subject) for one in found[:2]] == [
        ("one-address-two-identities", "address 192.168.2.1:10911"),
        ("not-on-all-nodes", "broker old"),
    ]


def test_the_worst_comes_first_and_then_the_subject_decides() -> None:
    given = [
        finding(Severity.INFO, "a"),
        finding(Severity.ERROR, "b"),
        finding(Severity.WARNING, "a"),
        finding(Severity.ERROR, "a", "d"),
        finding(Severity.ERROR, "a", "c"),
    ]
    assert [(one.severity, one.subject, one.check) for one in in_order(given)] == [
        (Severity.ERROR, "a", "c"),
        (Severity.ERROR, "a", "d"),
        (Severity.ERROR, "b", "c"),
        (Severity.WARNING, "a", "c"),
        (Severity.INFO, "a", "c"),
    ]


def test_a_few_examples_stand_for_many() -> None:
    assert examples(["1", "2", "3", "4", "5"]) == ("1", "2", "3", "4", "5")
    assert examples(["1", "2", "3", "4", "5", "6"])[-2:] == ("5", "and 1 more")


def test_one_is_singular() -> None:
    assert (counted(1, "topic"), counted(0, "topic")) == ("1 topic", "0 topics")
