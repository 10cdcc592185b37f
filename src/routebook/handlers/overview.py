"""What a node tells at a glance: its groups (19009) and its counts (19008)."""

import msgspec

from routebook.handlers.services import Caller, HandlerResult, Services
from routebook.handlers.slicing import begun
from routebook.slices import Slices
from routebook.state.model import Group
from routebook.wire.command import Command, Reply
from routebook.wire.errors import BadRequest
from routebook.wire.headers import boolean, optional
from routebook.wire.overview import GroupTold, MemberTold

GROUPS_A_SLICE = 50
SILENCES_A_SLICE = 500


def get_statistics(request: Command, services: Services, caller: Caller) -> Reply:
    return Reply(body=msgspec.json.encode(services.control.statistics()))


def get_summary(request: Command, services: Services, caller: Caller) -> HandlerResult:
    """The groups, or with ``since`` (boot.revision) what changed of them.

    ``since`` of another boot, or from longer ago than is remembered, is answered with all groups.
    """
    boot = services.watchers.boot if services.watchers is not None else ""
    since = _revision(optional(request, "since"), boot)
    silences = bool(boolean(request, "silences"))
    return begun(_summary(services, boot, since, silences=silences))


def _revision(since: str | None, boot: str) -> int | None:
    if since is None:
        return None
    of, _, revision = since.partition(".")
    if not (revision.isascii() and revision.isdigit() and len(revision) < 20):
        raise BadRequest(f"since is boot.revision, not {since[:60]!r}")
    return int(revision) if of == boot else None


def _summary(services: Services, boot: str, since: int | None, *, silences: bool) -> Slices[Reply]:
    rev, condition = services.control.revision(), services.control.condition()
    changed = services.groups.look(since)
    told: list[bytes] = []
    for number, group in enumerate(changed.groups, start=1):
        if group.members:
            told.append((yield from _told(services, group)))
        if number % GROUPS_A_SLICE == 0:
            yield
    body: dict[str, object] = {
        "node": services.watchers.node if services.watchers is not None else "",
        "boot": boot,
        "rev": rev,
        "wall_ms": services.control.wall_ms(),
        "full": changed.full,
        "condition": condition,
        "groups": msgspec.Raw(b"[" + b",".join(told) + b"]"),
        "gone": [(_text(cluster), _text(name)) for cluster, name in changed.gone],
    }
    if silences:
        body["silences"] = yield from _silences(services)
    return Reply(body=msgspec.json.encode(body))


def _told(services: Services, group: Group) -> Slices[bytes]:
    piece = services.renderer.pieces.broker(group, standard=True)
    digest = yield from services.groups.digest(group, piece)
    held = services.routes.guard.held
    members = tuple(
        MemberTold(
            id=broker_id,
            addr=_text(member.known.addr),
            ha_addr=None if member.known.ha_addr is None else _text(member.known.ha_addr),
            generation=member.known.generation,
            epoch=member.known.epoch,
            heartbeat_timeout_ms=member.known.heartbeat_timeout_ms,
            confirmed=member.known.confirmed,
            held=member in held,
            peer=_text(member.peer),
        )
        for broker_id, member in sorted(group.members.items())
    )
    return msgspec.json.encode(
        GroupTold(
            cluster=_text(group.cluster),
            broker=_text(group.name),
            zone=None if group.zone is None else _text(group.zone),
            acting_master=group.acting_master,
            topics=len(group.registered),
            digest=digest,
            rev=services.groups.changed_at(group),
            members=members,
        )
    )


def _silences(services: Services) -> Slices[msgspec.Raw]:
    """Of each member how long it was silent: cluster, broker, id, milliseconds."""
    now_ms, parts = services.now_ms(), list[bytes]()
    members = list(services.routes.members.live())
    for start in range(0, len(members), SILENCES_A_SLICE):
        some = [
            (
                _text(m.group.cluster),
                _text(m.group.name),
                m.known.broker_id,
                max(0, now_ms - m.heard_ms),
            )
            for m in members[start : start + SILENCES_A_SLICE]
        ]
        parts.append(msgspec.json.encode(some)[1:-1])
        yield
    return msgspec.Raw(b"[" + b",".join(parts) + b"]")


def _text(name: str) -> str:
    """``name`` as JSON can hold it: it may have come from anywhere."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()
