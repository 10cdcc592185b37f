"""Where views differ, told so that a person can read it."""

from dataclasses import replace

import pytest

from routebook.audit.compare import MISSING, Difference, Kind, compare
from routebook.audit.view import NodeView
from routebook.client.errors import CannotConnect
from routebook.client.routes import TopicRoute
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.wire.registration import MappingInfo
from routebook.words import permission
from support.views import N1, N2, N3, group, queues, route, view

A, B = group("broker-a"), group("broker-b")
MANY = [f"topic-{number:05}" for number in range(10_000)]


def differences(*views: NodeView) -> tuple[Difference, ...]:
    return compare({one.node: one for one in views}).differences


def only(*views: NodeView) -> Difference:
    (difference,) = differences(*views)
    return difference


def routed(node: Address, told: TopicRoute) -> NodeView:
    return view(node, told.brokers, routes=[told])


def test_equal_views_do_not_differ() -> None:
    views = [view(node, [A, B], {"t": [queues(), queues("broker-b")]}) for node in (N1, N2, N3)]
    compared = compare({one.node: one for one in views})
    assert compared.differences == ()
    assert compared.complete
    assert compared.topic_count == 1


def test_the_order_in_which_nodes_tell_things_does_not_count() -> None:
    twice = (queues(read=4), queues(read=8))
    one = TopicRoute("t", (group(cluster="c1"), group(cluster="c2")), twice)
    other = replace(one, queues=twice[::-1])
    assert differences(routed(N1, one), routed(N2, other)) == ()


def test_a_broker_missing_on_a_node_is_one_difference_that_counts_its_topics() -> None:
    both = {topic: [queues(), queues("broker-b")] for topic in MANY[:5000]}
    alone = {topic: [queues("broker-b")] for topic in MANY[5000:]}
    found = only(
        view(N1, [A, B], {**both, **alone}),
        view(N2, [A], {topic: [queues()] for topic in both}),
    )
    assert (found.kind, found.broker) == (Kind.BROKER_MISSING, "broker-b")
    assert found.topics == tuple(MANY)
    assert found.says == {N1: "0=192.168.2.98:10911", N2: MISSING}


def test_a_topic_missing_where_its_broker_is_known_is_a_difference_of_the_topic() -> None:
    found = only(
        view(N1, [A], {"t": [queues()], "u": [queues()]}),
        view(N2, [A], {"u": [queues()]}),
    )
    assert (found.kind, found.broker, found.topics) == (Kind.TOPIC_MISSING, None, ("t",))
    assert found.says == {N1: "on broker-a", N2: MISSING}


def test_topics_that_differ_in_the_same_way_are_one_difference() -> None:
    found = only(view(N1, [A], {t: [queues()] for t in MANY}), view(N2, [A], {}))
    assert found.topics == tuple(MANY)


def test_a_topic_missing_with_one_broker_unknown_and_one_known_counts_for_both() -> None:
    topics = {"t": [queues(), queues("broker-b")]}
    broker, topic = differences(view(N1, [A, B], topics), view(N2, [A], {}))
    assert (broker.kind, broker.broker, broker.topics) == (Kind.BROKER_MISSING, "broker-b", ("t",))
    assert (topic.kind, topic.topics) == (Kind.TOPIC_MISSING, ("t",))


def test_queues_missing_on_a_known_broker_are_told_for_every_node() -> None:
    both = {"t": [queues(), queues("broker-b")]}
    found = only(
        view(N1, [A, B], both), view(N2, [A, B], {"t": [queues()]}), view(N3, [A, B], both)
    )
    assert (found.kind, found.broker) == (Kind.QUEUES_MISSING, "broker-b")
    assert found.says == {N1: "present", N2: MISSING, N3: "present"}


@pytest.mark.parametrize(
    ("changed", "kind", "says"),
    [
        pytest.param(queues(perm=4), Kind.PERMISSION, ("RW- (6)", "R-- (4)"), id="permission"),
        pytest.param(queues(perm=14), Kind.PERMISSION, ("RW- (6)", "RW- (14)"), id="odd-bit"),
        pytest.param(
            queues(write=4), Kind.QUEUE_COUNT, ("8 read, 8 write", "8 read, 4 write"), id="count"
        ),
        pytest.param(queues(sys_flag=1), Kind.SYSTEM_FLAG, ("0", "1"), id="flag"),
    ],
)
def test_queues_that_differ_are_told(
    changed: TopicQueues, kind: Kind, says: tuple[str, str]
) -> None:
    found = only(view(N1, [A], {"t": [queues()]}), view(N2, [A], {"t": [changed]}))
    assert (found.kind, found.broker, found.topics) == (kind, "broker-a", ("t",))
    assert found.says == dict(zip((N1, N2), says, strict=True))


def test_a_broker_drained_on_one_node_is_one_difference_whatever_its_queues() -> None:
    sizes = {topic: 1 + number % 16 for number, topic in enumerate(MANY)}
    found = only(
        view(N1, [A], {t: [queues(read=n, write=n)] for t, n in sizes.items()}),
        view(N2, [A], {t: [queues(read=n, write=n, perm=4)] for t, n in sizes.items()}),
    )
    assert found.kind is Kind.PERMISSION
    assert len(found.topics) == len(MANY)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        pytest.param(group(addrs={0: "10.0.0.9:1"}), "0=10.0.0.9:1", id="address"),
        pytest.param(
            group(addrs={0: "192.168.2.97:10911", 1: "10.0.0.9:1"}),
            "0=192.168.2.97:10911, 1=10.0.0.9:1",
            id="slave",
        ),
        pytest.param(
            group(acting_master=True), "0=192.168.2.97:10911, acting master", id="acting-master"
        ),
        pytest.param(
            BrokerGroup("broker-a", "c1", dict(A.addrs), zone="z1"),
            "0=192.168.2.97:10911, zone z1",
            id="zone",
        ),
        pytest.param(group(addrs={}), "no members", id="nobody"),
    ],
)
def test_other_members_are_one_difference_that_counts_the_topics(
    other: BrokerGroup, text: str
) -> None:
    topics = {"t": [queues()], "u": [queues()]}
    found = only(view(N1, [A], topics), view(N2, [other], topics))
    assert (found.kind, found.broker, found.topics) == (Kind.MEMBERS, "broker-a", ("t", "u"))
    assert found.says == {N1: "0=192.168.2.97:10911", N2: text}


def test_a_broker_in_another_cluster_is_told() -> None:
    topics = {"t": [queues()]}
    found = only(view(N1, [A], topics), view(N2, [group(cluster="c2")], topics))
    assert (found.kind, found.topics) == (Kind.CLUSTER, ("t",))
    assert found.says == {N1: "c1", N2: "c2"}


def test_routes_that_show_other_members_than_the_broker_tables_are_told() -> None:
    slave = group(addrs={1: "10.0.0.9:1"}, acting_master=True)
    acting = group(addrs={0: "10.0.0.9:1"}, acting_master=True)
    found = only(
        view(N1, [slave], {"t": [queues(perm=4)]}),
        view(N2, [slave], routes=[TopicRoute("t", (acting,), (queues(perm=4),))]),
    )
    assert (found.kind, found.topics) == (Kind.ROUTE_MEMBERS, ("t",))
    assert found.says == {
        N1: "c1: 1=10.0.0.9:1, acting master",
        N2: "c1: 0=10.0.0.9:1, acting master",
    }


def test_an_order_config_an_empty_one_and_none_differ() -> None:
    plain = route("t", [queues()], [A])
    texts = ("broker-a:8", "", None)
    found = only(
        *(
            routed(node, replace(plain, order_conf=text))
            for node, text in zip((N1, N2, N3), texts, strict=True)
        )
    )
    assert found.kind is Kind.ORDER_CONFIG
    assert found.says == {N1: "'broker-a:8'", N2: "''", N3: "none"}


def test_static_mappings_that_differ_are_told() -> None:
    plain = route("t", [queues()], [A])
    info = MappingInfo("t", "broker-a", 4, epoch=5, scope="__global__", curr_id_map={1: 1, 0: 0})
    found = only(routed(N1, replace(plain, mappings={"broker-a": info})), routed(N2, plain))
    assert found.kind is Kind.STATIC_MAPPING
    assert found.says == {N1: "broker-a: epoch 5, of 4 queues 0=0,1=1", N2: "none"}


def test_filter_servers_that_differ_are_told() -> None:
    plain = route("t", [queues()], [A])
    filtered = replace(plain, filter_servers={"192.168.2.97:10911": ["f2", "f1"]})
    found = only(routed(N1, plain), routed(N2, filtered))
    assert found.kind is Kind.FILTER_SERVERS
    assert found.says == {N1: "none", N2: "192.168.2.97:10911: f1, f2"}


def test_a_route_without_queues_is_compared_too() -> None:
    found = only(routed(N1, TopicRoute("t")), view(N2))
    assert (found.kind, found.says) == (Kind.TOPIC_MISSING, {N1: "without queues", N2: MISSING})


def test_views_of_chosen_topics_leave_other_brokers_out() -> None:
    topics = {"t": [queues()]}
    assert (
        differences(view(N1, [A, B], topics, whole=False), view(N2, [A], topics, whole=False)) == ()
    )
    assert only(view(N1, [A, B], topics), view(N2, [A], topics)).broker == "broker-b"


def test_a_node_that_could_not_be_asked_leaves_the_comparison_incomplete() -> None:
    compared = compare(
        {N1: view(N1, [A]), N2: view(N2, [A]), N3: CannotConnect(N3, "nobody listens")}
    )
    assert compared.differences == ()
    assert compared.failures == {N3: "nobody listens"}
    assert not compared.complete


def test_a_topic_a_node_would_not_tell_is_compared_without_it() -> None:
    topics = {"t": [queues()]}
    views = [view(N1, [A], topics), view(N2, [A], topics), view(N3, [A], errors={"t": "too busy"})]
    compared = compare({one.node: one for one in views})
    assert compared.differences == ()
    assert compared.unanswered == {N3: {"t": "too busy"}}
    assert not compared.complete


def test_one_node_has_nobody_to_differ_from() -> None:
    assert compare({N1: view(N1, [A], {"t": [queues()]})}).complete


def test_brokers_come_before_topics() -> None:
    found = differences(
        view(N1, [A, B], {"t": [queues()], "u": [queues()]}),
        view(N2, [A], {"t": [queues(perm=4)]}),
    )
    assert [d.kind for d in found] == [Kind.BROKER_MISSING, Kind.TOPIC_MISSING, Kind.PERMISSION]


# -- what lasts


def test_only_what_differs_both_times_is_confirmed() -> None:
    good = view(N1, [A, B], {"t": [queues()], "u": [queues()]})
    first = compare({N1: good, N2: view(N2, [A], {"u": [queues(perm=4)]})})
    later = compare(
        {N1: good, N2: view(N2, [A, B], {"t": [queues(read=4)], "u": [queues(perm=4)]})}
    )
    (kept,) = first.confirmed_by(later).differences
    assert (kept.kind, kept.topics) == (Kind.PERMISSION, ("u",))


def test_of_topics_told_together_those_that_still_differ_are_kept() -> None:
    good = view(N1, [A], {"t": [queues()], "u": [queues()], "v": [queues()]})
    first = compare({N1: good, N2: view(N2, [A], {"v": [queues()]})})
    later = compare({N1: good, N2: view(N2, [A], {"u": [queues()]})})
    (kept,) = first.confirmed_by(later).differences
    assert kept.topics == ("t",)


def test_a_broker_still_missing_is_confirmed_with_the_topics_of_now() -> None:
    first = compare({N1: view(N1, [A, B], {"t": [queues("broker-b")]}), N2: view(N2, [A])})
    later = compare({N1: view(N1, [A, B], {"u": [queues("broker-b")]}), N2: view(N2, [A])})
    (kept,) = first.confirmed_by(later).differences
    assert (kept.kind, kept.topics) == (Kind.BROKER_MISSING, ("u",))


def test_a_newer_view_replaces_what_it_was_asked_for() -> None:
    before = view(N1, [A], {"t": [queues()], "u": [queues()], "v": [queues()]}, errors={"w": "no"})
    newer = view(N1, [A, B], {"u": [queues(perm=4)], "w": [queues()]}, whole=False)
    now = before.updated(newer, ["t", "u", "w"])
    assert sorted(now.routes) == ["u", "v", "w"]
    assert now.routes["u"].queues[0].perm == 4
    assert now.errors == {}
    assert now.cluster == newer.cluster
    assert now.whole


@pytest.mark.parametrize(("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (7, "RWX")])
def test_permissions_are_shown_as_mqadmin_shows_them(perm: int, text: str) -> None:
    assert permission(perm) == text
