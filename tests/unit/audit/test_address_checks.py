"""Findings about the addresses brokers register."""

import pytest

from routebook.audit.checks import addresses
from routebook.audit.findings import Severity
from routebook.wire.address import Address
from support.views import N1, group, survey, view


@pytest.mark.parametrize("addr", ["", "broker-a", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:99999"])
def test_an_address_nobody_can_connect_to_is_an_error(addr: str) -> None:
    (found,) = addresses.malformed(survey(view(N1, [group(addrs={0: addr})])))
    assert (found.severity, found.subject) == (Severity.ERROR, "broker broker-a (c1)")


@pytest.mark.parametrize("addr", ["10.0.0.1:10911", "[::1]:10911", "fe80::1%eth0:10911", "b:1"])
def test_hosts_of_all_forms_are_fine(addr: str) -> None:
    assert not list(addresses.malformed(survey(view(N1, [group(addrs={0: addr})]))))


# -- reachability

PAIR = group("broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
OTHER = group("broker-b", {0: "10.0.0.3:10911"})


@pytest.mark.parametrize(
    ("lost", "severity"),
    [
        pytest.param("10.0.0.1:10911", Severity.ERROR, id="master"),
        pytest.param("10.0.0.2:10911", Severity.WARNING, id="slave"),
    ],
)
def test_a_registered_address_that_takes_no_connection_is_told(
    lost: str, severity: Severity
) -> None:
    alive: dict[str, str | None] = dict.fromkeys([*PAIR.addrs.values(), *OTHER.addrs.values()])
    (found,) = addresses.unreachable(
        survey(view(N1, [PAIR, OTHER]), probes={**alive, lost: "connection refused"})
    )
    assert (found.severity, found.subject) == (severity, "broker broker-a (c1)")
    (line,) = found.evidence
    assert line.endswith(f"at {lost}: connection refused")


def test_brokers_that_are_all_out_of_reach_are_one_finding() -> None:
    probes = dict.fromkeys([*PAIR.addrs.values(), *OTHER.addrs.values()], "no connection")
    (found,) = addresses.unreachable(survey(view(N1, [PAIR, OTHER]), probes=probes))
    assert found.subject == "all brokers"
    assert found.evidence[0] == "none of 3 addresses takes a connection from here"


def test_what_was_not_probed_is_not_judged() -> None:
    assert not list(addresses.unreachable(survey(view(N1, [PAIR]))))


def test_a_malformed_address_is_not_unreachable_besides() -> None:
    views = view(N1, [group(addrs={0: "nonsense"}), OTHER])
    probes = {"nonsense": "not host:port", "10.0.0.3:10911": None}
    assert not list(addresses.unreachable(survey(views, probes=probes)))


# -- addresses that are no use to others

LOOPBACK = Address("127.0.0.1", 9876)
BRIDGED = Address("172.17.0.2", 9876)


@pytest.mark.parametrize(
    ("addr", "check", "severity"),
    [
        ("127.0.0.1:10911", "loopback-address", Severity.ERROR),
        ("127.0.1.1:10911", "loopback-address", Severity.ERROR),
        ("localhost:10911", "loopback-address", Severity.ERROR),
        ("[::1]:10911", "loopback-address", Severity.ERROR),
        ("[::ffff:127.0.0.1]:10911", "loopback-address", Severity.ERROR),
        ("0.0.0.0:10911", "unspecified-address", Severity.ERROR),
        ("[::]:10911", "unspecified-address", Severity.ERROR),
        ("169.254.7.7:10911", "link-local-address", Severity.WARNING),
        ("[fe80::1%eth0]:10911", "link-local-address", Severity.WARNING),
        ("172.17.0.3:10911", "docker-bridge-address", Severity.WARNING),
    ],
)
def test_an_address_that_leads_others_astray_is_told(
    addr: str, check: str, severity: Severity
) -> None:
    (found,) = addresses.useless_for_others(survey(view(N1, [group(addrs={0: addr})])))
    assert (found.check, found.severity) == (check, severity)
    assert found.evidence[1] == f"broker-a (id 0, c1) at {addr}"


@pytest.mark.parametrize(
    "addr", ["10.0.0.1:10911", "172.16.0.1:1", "8.8.8.8:1", "[2001:db8::1]:1", "broker:1", "bad"]
)
def test_other_addresses_are_not_told(addr: str) -> None:
    assert not list(addresses.useless_for_others(survey(view(N1, [group(addrs={0: addr})]))))


@pytest.mark.parametrize(
    ("node", "addr"), [(LOOPBACK, "127.0.0.1:10911"), (BRIDGED, "172.17.0.3:10911")]
)
def test_where_the_nodes_have_such_addresses_brokers_may_too(node: Address, addr: str) -> None:
    views = view(node, [group(addrs={0: addr})])
    assert not list(addresses.useless_for_others(survey(views)))
    assert list(addresses.useless_for_others(survey(views, view(N1))))


def test_many_brokers_with_such_addresses_are_one_finding() -> None:
    views = view(N1, [group(f"b{n}", {0: f"127.0.0.1:{n}"}) for n in range(1, 8)])
    (found,) = addresses.useless_for_others(survey(views))
    assert found.subject == "7 brokers"
    assert found.evidence[-1] == "and 2 more"


# -- mixed networks


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        pytest.param("10.0.0.1:1", "192.168.0.1:1", False, id="private"),
        pytest.param("8.8.8.8:1", "9.9.9.9:1", False, id="public"),
        pytest.param("10.0.0.1:1", "broker:1", False, id="name"),
        pytest.param("10.0.0.1:1", "8.8.8.8:1", True, id="both"),
        pytest.param("[fd00::1]:1", "[2606:4700::1]:1", True, id="both-ipv6"),
    ],
)
def test_public_and_private_addresses_in_one_cluster_are_told(
    first: str, second: str, told: bool
) -> None:
    views = view(N1, [group("a", {0: first}), group("b", {0: second})])
    found = list(addresses.mixed_networks(survey(views)))
    assert [one.subject for one in found] == ["cluster c1"] * told


def test_clusters_may_differ_in_their_networks() -> None:
    views = view(N1, [group("a", {0: "10.0.0.1:1"}), group("b", {0: "8.8.8.8:1"}, cluster="c2")])
    assert not list(addresses.mixed_networks(survey(views)))
