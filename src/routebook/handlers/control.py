"""Requests of Routebook's own: how a node is, what it remembers, and letting held brokers go."""

import ipaddress

import msgspec

from routebook.handlers.errors import NoPermission
from routebook.handlers.services import Caller, Services
from routebook.slices import Slices
from routebook.wire.address import split_address
from routebook.wire.command import Command, Reply
from routebook.wire.headers import optional

MAX_RECENT = 4 * 1024 * 1024  # bytes of one answer
_LINES_A_SLICE = 50


def get_health(request: Command, services: Services, caller: Caller) -> Reply:
    return Reply(body=msgspec.json.encode(services.control.health()))


def get_recent(request: Command, services: Services, caller: Caller) -> Slices[Reply]:
    """The latest records, oldest first; ``dropped`` of the oldest ones did not fit."""
    lines: list[bytes] = []
    recent = services.control.recent(optional(request, "topic"), optional(request, "broker"))
    for number, line in enumerate(recent):
        lines.append(line)
        if number % _LINES_A_SLICE == _LINES_A_SLICE - 1:
            yield
    size = kept = 0
    for line in reversed(lines):
        if size + len(line) > MAX_RECENT:
            break
        size += len(line)
        kept += 1
    dropped = len(lines) - kept
    return Reply(ext_fields={"dropped": str(dropped)}, body=b"".join(lines[dropped:]))


def release_guard(request: Command, services: Services, caller: Caller) -> Reply:
    if not services.control.remote and not _is_local(caller.peer):
        raise NoPermission(
            "the guard is released from the node's own machine; or start the node with"
            " allowRemoteConfig=true"
        )
    return Reply(ext_fields={"dropped": str(services.control.release_guard(caller.peer))})


def _is_local(peer: str) -> bool:
    try:
        host, _ = split_address(peer)
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
