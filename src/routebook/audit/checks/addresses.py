"""What can be wrong with the addresses brokers register."""

import ipaddress
from collections.abc import Callable, Iterator

from routebook.audit.findings import Finding, Severity, examples
from routebook.audit.reach import numeric_host
from routebook.audit.survey import Member, Survey
from routebook.wire.address import split_address
from routebook.wire.answers import MASTER_ID

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_PRIVATE = tuple(
    map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
)
_DOCKER_BRIDGE = ipaddress.ip_network("172.17.0.0/16")
_SET_BROKER_IP = "Set brokerIP1 to an address that clients can reach, and restart the broker."


def malformed(survey: Survey) -> Iterator[Finding]:
    for member, nodes in survey.members.items():
        if not _usable(member.addr):
            yield Finding(
                "malformed-address",
                Severity.ERROR,
                f"broker {member.broker} ({member.cluster})",
                (f"{member}, says {', '.join(map(str, nodes))}",),
                "No client can connect to it. Set brokerIP1 and listenPort, and restart.",
            )


def unreachable(survey: Survey) -> Iterator[Finding]:
    """Registered, and nobody there. What was not probed is not judged."""
    failed: dict[tuple[str, str], list[Member]] = {}
    probed = [m for m in survey.members if m.addr in survey.probes and _usable(m.addr)]
    for member in probed:
        if survey.probes[member.addr] is not None:
            failed.setdefault((member.cluster, member.broker), []).append(member)
    lost = [member for members in failed.values() for member in members]
    if len(failed) > 1 and len(lost) == len(probed):
        yield Finding(
            "unreachable",
            Severity.ERROR,
            "all brokers",
            (
                f"none of {len(lost)} addresses takes a connection from here",
                *examples([f"{m}: {survey.probes[m.addr]}" for m in lost]),
            ),
            "Brokers that register and cannot be reached at all: most likely this machine is not"
            " in their network. Run this where clients run, or with --no-probe.",
        )
        return
    for (cluster, broker), members in failed.items():
        master = any(member.broker_id == MASTER_ID for member in members)
        yield Finding(
            "unreachable",
            Severity.ERROR if master else Severity.WARNING,
            f"broker {broker} ({cluster})",
            examples([f"id {m.broker_id} at {m.addr}: {survey.probes[m.addr]}" for m in members]),
            "If the process is gone, this is a ghost, which leaves when its deadline passes"
            " (two minutes with RocketMQ's defaults). If it runs, look at brokerIP1, listenPort and"
            " the firewall from where clients are.",
        )


def useless_for_others(survey: Survey) -> Iterator[Finding]:
    """Addresses that lead every other machine to itself, or nowhere."""
    node_ips = [ip for node in survey.nodes for ip in _ips(survey, node.host)]
    kinds: tuple[tuple[str, Severity, Callable[[IpAddress], bool], str], ...] = (
        (
            "loopback-address",
            Severity.ERROR,
            lambda ip: ip.is_loopback,
            "from any other machine this is the client itself",
        ),
        (
            "unspecified-address",
            Severity.ERROR,
            lambda ip: ip.is_unspecified,
            "this is no address to connect to",
        ),
        (
            "link-local-address",
            Severity.WARNING,
            lambda ip: ip.is_link_local,
            "works only within one network segment",
        ),
        (
            "docker-bridge-address",
            Severity.WARNING,
            lambda ip: ip in _DOCKER_BRIDGE,
            "works only on the host of the container",
        ),
    )
    for check, severity, applies, meaning in kinds:
        # Whoever asks the nodes at such an address is where such addresses work.
        if node_ips and all(applies(ip) for ip in node_ips):
            continue
        found = [m for m in survey.members if (ip := _literal(m)) is not None and applies(ip)]
        if found:
            yield Finding(
                check,
                severity,
                f"broker {found[0].broker}" if len(found) == 1 else f"{len(found)} brokers",
                (meaning, *examples(list(map(str, found)))),
                _SET_BROKER_IP,
            )


def mixed_networks(survey: Survey) -> Iterator[Finding]:
    """Public and private addresses in one cluster."""
    by_cluster: dict[str, tuple[list[Member], list[Member]]] = {}
    for member in survey.members:
        public, private = by_cluster.setdefault(member.cluster, ([], []))
        ip = _literal(member)
        if ip is None:
            continue
        if any(ip in network for network in _PRIVATE):
            private.append(member)
        elif ip.is_global:
            public.append(member)
    for cluster, (public, private) in by_cluster.items():
        if public and private:
            yield Finding(
                "mixed-networks",
                Severity.WARNING,
                f"cluster {cluster}",
                (
                    *(f"public: {line}" for line in examples(list(map(str, public)))),
                    *(f"private: {line}" for line in examples(list(map(str, private)))),
                ),
                "Clients that reach one kind may not reach the other. " + _SET_BROKER_IP,
            )


def _usable(addr: str) -> bool:
    try:
        return split_address(addr)[1] > 0
    except ValueError:
        return False


def _literal(member: Member) -> IpAddress | None:
    """The IP address a broker registered, None for a name.

    What a name resolves to here says little: many hosts know themselves by a loopback address.
    """
    if member.host is None:
        return None
    return numeric_host("127.0.0.1" if member.host == "localhost" else member.host)


def _ips(survey: Survey, host: str) -> Iterator[IpAddress]:
    for text in survey.hosts.get(host, ()):
        if (ip := numeric_host(text)) is not None:
            yield ip
