"""Findings about the NameServers themselves."""

from routebook.audit.checks import nodes
from routebook.audit.findings import Severity
from support.views import N1, N2, group, queues, survey, view

A = group("broker-a")
TOPICS = {"t": [queues()]}


def test_a_node_that_could_not_be_asked_is_an_error() -> None:
    (found,) = nodes.silent_nodes(survey(view(N1), failures={N2: "nobody listens"}))
    assert (found.severity, found.subject) == (Severity.ERROR, "node 192.168.1.2:9876")
    assert found.evidence == ("nobody listens",)


def test_the_only_node_is_worth_knowing_and_one_of_two_is_not() -> None:
    (found,) = nodes.single_node(survey(view(N1)))
    assert found.severity is Severity.INFO
    assert not list(nodes.single_node(survey(view(N1), view(N2))))
    assert not list(nodes.single_node(survey(view(N1), failures={N2: "gone"})))


def test_topics_a_node_would_not_tell_are_counted_with_examples() -> None:
    errors = {f"t{number}": "busy" for number in range(7)}
    (found,) = nodes.unanswered_topics(survey(view(N1, errors=errors), view(N2)))
    assert found.subject == "node 192.168.1.1:9876"
    assert found.evidence[0] == "no route for 7 topics"
    assert found.evidence[-2:] == ("t4: busy", "and 2 more")


def test_nodes_that_disagree_are_one_warning_that_refers_to_compare() -> None:
    (found,) = nodes.disagreement(
        survey(view(N1, [A], TOPICS), view(N2, [A], {"t": [queues(perm=4)]}))
    )
    assert found.severity is Severity.WARNING
    assert found.evidence == (
        "1 topic affected",
        "permission broker-a: 192.168.1.1:9876 says RW- (6), 192.168.1.2:9876 says R-- (4)",
    )
    assert "`routebook compare`" in found.remedy


def test_a_broker_missing_on_a_node_is_no_disagreement_besides() -> None:
    assert not list(nodes.disagreement(survey(view(N1, [A], TOPICS), view(N2))))


def test_a_node_on_the_host_of_a_broker_is_told_whatever_it_is_called() -> None:
    with_slave = group(addrs={0: "10.0.0.1:10911", 1: "ns2.example:10911"})
    hosts = {
        "192.168.1.1": frozenset({"192.168.1.1"}),
        "192.168.1.2": frozenset({"10.0.0.7"}),
        "10.0.0.1": frozenset({"10.0.0.1"}),
        "ns2.example": frozenset({"10.0.0.6", "10.0.0.7"}),
    }
    views = [view(node, [with_slave]) for node in (N1, N2)]
    (found,) = nodes.shared_hosts(survey(*views, hosts=hosts))
    assert found.subject == "node 192.168.1.2:9876"
    assert found.evidence == ("same host as broker-a (id 1, c1) at ns2.example:10911",)


def test_names_that_do_not_resolve_are_on_no_common_host() -> None:
    views = view(N1, [group(addrs={0: "nowhere:1", 1: "malformed"})])
    assert not list(
        nodes.shared_hosts(
            survey(views, hosts={"192.168.1.1": frozenset(), "nowhere": frozenset()})
        )
    )
