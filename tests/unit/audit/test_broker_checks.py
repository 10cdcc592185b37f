"""Findings about broker groups and their names."""

import pytest

from routebook.audit.checks import brokers
from routebook.audit.findings import Severity
from routebook.client.routes import TopicRoute
from routebook.wire.answers import BrokerGroup, TopicQueues
from support.views import N1, N2, group, queues, route, survey, view

A, B = group("broker-a"), group("broker-b")
SLAVE = group("broker-a", {1: "10.0.0.2:10911"})


def test_a_group_without_master_is_an_error_that_names_the_topics_it_strands() -> None:
    topics = {"alone": [queues()], "spread": [queues(), queues("broker-b")]}
    (found,) = brokers.masterless(survey(view(N1, [SLAVE, B], topics), view(N2, [A, B], topics)))
    assert (found.severity, found.subject) == (Severity.ERROR, "broker broker-a (c1)")
    assert found.evidence == (
        "members: id 1 at 10.0.0.2:10911",
        "says 192.168.1.1:9876",
        "no broker takes messages for 1 topic: alone",
    )


def test_an_acting_master_makes_it_a_warning() -> None:
    acting = group("broker-a", {1: "10.0.0.2:10911"}, acting_master=True)
    shown = group("broker-a", {0: "10.0.0.2:10911"}, acting_master=True)
    told = TopicRoute("t", (shown,), (queues(perm=4),))
    (found,) = brokers.masterless(survey(view(N1, [acting], routes=[told])))
    assert found.severity is Severity.WARNING
    assert "a slave acts as master: it is read from, and takes no messages" in found.evidence
    assert "no broker takes messages for 1 topic: t" in found.evidence


def test_a_name_without_any_address_is_told() -> None:
    empty = view(N1, [A, group("broker-b", {})], clusters={"c1": ("broker-a", "broker-b", "x")})
    found = list(brokers.memberless(survey(empty)))
    assert [one.subject for one in found] == ["broker broker-b (c1)", "broker x (c1)"]
    assert {one.severity for one in found} == {Severity.WARNING}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(group("broker-b", {0: "192.168.2.97:10911"}), id="two-names"),
        pytest.param(
            group("broker-a", {0: "192.168.2.97:10911", 1: "192.168.2.97:10911"}),
            id="master-and-slave",
        ),
        pytest.param(group("broker-a", cluster="c2"), id="two-clusters"),
    ],
)
@pytest.mark.parametrize("on_one_node", [True, False], ids=["on-one-node", "on-two"])
def test_one_address_under_two_identities_is_an_error(
    other: BrokerGroup, on_one_node: bool
) -> None:
    views = (
        [view(N1, [other, A], {"t": [queues(), queues("broker-b")]})]
        if on_one_node
        else [view(N1, [A], {"t": [queues()]}), view(N2, [other], {"t": [queues()]})]
    )
    (found,) = brokers.double_identities(survey(*views))
    assert (found.severity, found.subject) == (Severity.ERROR, "address 192.168.2.97:10911")
    assert len(found.evidence) == 2


def test_a_name_listed_in_two_clusters_is_an_error_with_all_addresses() -> None:
    other = group("broker-a", {0: "10.0.0.9:10911"}, cluster="c2")
    (found,) = brokers.names_in_two_clusters(survey(view(N1, [A, other], {"t": [queues()]})))
    assert (found.severity, found.subject) == (Severity.ERROR, "broker broker-a")
    assert found.evidence == (
        "in c1, says 192.168.1.1:9876",
        "in c2, says 192.168.1.1:9876",
        "broker-a (id 0, c1) at 192.168.2.97:10911",
        "broker-a (id 0, c2) at 10.0.0.9:10911",
    )


def test_a_name_merged_by_the_node_is_seen_in_the_cluster_table() -> None:
    merged = view(N1, [A], clusters={"c1": ("broker-a",), "c2": ("broker-a",)})
    (found,) = brokers.names_in_two_clusters(survey(merged))
    assert found.subject == "broker broker-a"


def test_a_name_in_another_cluster_on_another_node_is_an_error_too() -> None:
    (found,) = brokers.names_in_two_clusters(
        survey(view(N1, [A]), view(N2, [group("broker-a", cluster="c2")]))
    )
    assert found.evidence[:2] == ("in c1, says 192.168.1.1:9876", "in c2, says 192.168.1.2:9876")


def test_queues_on_a_broker_the_route_has_no_address_for_are_ghosts() -> None:
    topics = {f"t{number}": [queues(), queues("gone")] for number in range(7)}
    (found,) = brokers.orphaned_queues(survey(view(N1, [A], topics)))
    assert (found.severity, found.subject) == (Severity.ERROR, "broker gone")
    assert found.evidence == (
        "7 topics with queues on a broker without address: t0, t1, t2, t3, t4, and 2 more",
        "says 192.168.1.1:9876",
    )


def test_a_broker_no_topic_leads_to_is_told() -> None:
    (found,) = brokers.topicless(survey(view(N1, [A, B], {"t": [queues()]})))
    assert (found.severity, found.subject) == (Severity.WARNING, "broker broker-b")


def test_nothing_is_said_of_topics_when_some_are_unknown() -> None:
    assert not list(brokers.topicless(survey(view(N1, [A], errors={"t": "busy"}))))


def test_a_broker_on_one_node_only_is_told_with_the_topics_it_takes_along() -> None:
    (found,) = brokers.partly_registered(
        survey(view(N1, [A, B], {"t": [queues("broker-b")]}), view(N2, [A]))
    )
    assert (found.severity, found.subject) == (Severity.WARNING, "broker broker-b")
    assert found.evidence == (
        "192.168.1.1:9876 says 0=192.168.2.98:10911",
        "192.168.1.2:9876 says missing",
        "1 topic affected",
    )
    assert "add 192.168.1.2:9876 to its namesrvAddr" in found.remedy


@pytest.mark.parametrize(
    ("refusal", "ghost"), [("connection refused", True), (None, False)], ids=["dead", "alive"]
)
def test_a_broker_on_one_node_that_takes_no_connection_looks_like_a_ghost(
    refusal: str | None, ghost: bool
) -> None:
    probes = {"192.168.2.98:10911": refusal}
    (found,) = brokers.partly_registered(survey(view(N1, [A, B]), view(N2, [A]), probes=probes))
    assert any("ghost" in line for line in found.evidence) is ghost


@pytest.mark.parametrize(
    ("held", "taken"),
    [
        pytest.param(queues(), True, id="open"),
        pytest.param(queues(perm=4), False, id="read-only"),
        pytest.param(queues(write=0), False, id="no-write-queues"),
        pytest.param(queues("broker-c"), False, id="no-master"),
        pytest.param(queues("gone"), False, id="no-address"),
    ],
)
def test_writers_use_open_queues_of_masters(held: TopicQueues, taken: bool) -> None:
    groups = [A, group("broker-c", {1: "10.0.0.3:10911"})]
    assert brokers.takes_messages(route("t", [held], groups), held) is taken
