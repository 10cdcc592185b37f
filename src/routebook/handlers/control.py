"""Requests of Routebook's own: how a node is, what it remembers, and letting held brokers go."""

import ipaddress

import msgspec

from routebook.handlers.errors import NoPermission
from routebook.handlers.services import Caller, Services
from routebook.wire.address import split_address
from routebook.wire.command import Command, Reply
from routebook.wire.headers import optional


def get_health(request: Command, services: Services, caller: Caller) -> Reply:
    return Reply(body=msgspec.json.encode(services.control.health()))


async def get_recent(request: Command, services: Services, caller: Caller) -> Reply:
    """The latest records, oldest first, and before them what the node believed until then.

    The body is lines as in a journal. Those about the state come first:

        GroupRestated…      one group each, or a part of it (``continued``)
        StateRestated       always the last of them; without groups: there was nobody
        the records         from ``from_seq`` on; the first may be the last one of the boot before
                            (NodeStopped, or what was recorded last before a kill)

    All lines of the state carry the ``seq``, ``wall_ms`` and ``mono_ms`` of the last record before
    ``from_seq`` (0, and those of the first record, where there is none): ``seq < from_seq`` tells
    them from what was recorded, and ``View.apply`` takes them in order. After a kill numbers leap:
    JournalRecovered, with its ``last_seq``, is then among the records.

    Asked for a ``topic``: every group, with the queues and mappings of that topic only, and the
    pairs whose key it is. Asked for a ``broker``: groups of that name only, with all their topics,
    and no pairs. ``StateRestated.groups`` is how many groups are stated here.

    Fields: ``dropped``: so many of the oldest records did not fit. ``from_seq``: the first record
    sent; 0 without any. ``state``: "yes", or "no" where the lines begin with no state, and ``why``
    says in one sentence why not (too large, records were lost before, no journal and older records
    were forgotten). One that ends in ``before.ASK_AGAIN`` will pass: a large journal takes seconds
    to read. A node from before there were states sends none
    of these but ``dropped``: to be taken as "no".

    Values of key-value pairs are told to those the operator named (``kvValuesShownTo``), others
    are told their lengths: "(10 characters)".
    """
    topic, broker = optional(request, "topic"), optional(request, "broker")
    address, control = _address(caller.peer), services.control
    values = address is not None and any(address in net for net in control.values_shown_to)
    told = await control.recent(topic, broker, values)
    fields = {
        "dropped": str(told.dropped),
        "from_seq": str(told.from_seq),
        "state": "no" if told.why else "yes",
    }
    if told.why:
        fields["why"] = told.why
    return Reply(ext_fields=fields, body=b"".join(told.lines))


def release_guard(request: Command, services: Services, caller: Caller) -> Reply:
    if not (services.control.remote or caller.inside or _is_local(caller.peer)):
        raise NoPermission(
            "the guard is released from the node's own machine; or start the node with"
            " allowRemoteConfig=true"
        )
    return Reply(ext_fields={"dropped": str(services.control.release_guard(caller.peer))})


def _is_local(peer: str) -> bool:
    address = _address(peer)
    return address is not None and address.is_loopback


def _address(peer: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        host, _ = split_address(peer)
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
