"""Recovery: the tables of a node from its journal, and its journal from the tables.

After a restart a node goes on with what it knew. Brokers it knew are unconfirmed: they have no
connection, and as much time as a live one to be heard of, counted from the restart. What is
served meanwhile is what was served before.
"""

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from routebook.events import Cause, Event, GroupRestated, KvChanged, StateRestated
from routebook.journal.difference import KvTables, difference
from routebook.journal.errors import JournalError
from routebook.journal.groups import Groups, GroupView
from routebook.journal.pairs import tables_in_journal
from routebook.journal.replay import newest, replay
from routebook.journal.view import View
from routebook.state.account import host_of
from routebook.state.model import Group, Member, QueueShape, ShapeByNumbers
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

logger = logging.getLogger(__name__)

RESTATED_A_SLICE = 2000
LOGGED = 5


def recover(folder: Path, *, wall_ms: int) -> View | None:
    """What the journal in ``folder`` says the node believed; None when it says nothing.

    Damage is logged and makes the view unsure; brokers are then asked for all their topics again,
    and the tables should be restated. Raises JournalError when the folder cannot be read.
    """
    if not folder.exists():
        return None
    trouble: list[JournalError] = []
    view = replay(folder, newest(folder, refused=trouble.append), damaged=trouble.append).view
    for error in trouble[:LOGGED]:
        logger.warning("journal: %s", error)
    if len(trouble) > LOGGED:
        logger.warning("journal: and %d more like these", len(trouble) - LOGGED)
    for contradiction in view.contradictions[:LOGGED]:
        logger.warning("journal: record %d: %s", contradiction.seq, contradiction.reason)
    if not view.seq:
        return None
    view.restart(wall_ms=wall_ms)
    return view


def restore(view: View, routes: RouteTable, *, now_ms: int) -> int:
    """Put what ``view`` believes into empty tables; returns how many brokers that is.

    ``now_ms`` is on the clock of the tables. Their revision is up to whoever made them. Until a
    broker registers, the host it is reached at pays for it.
    """
    shapes = ShapeByNumbers()
    groups: dict[tuple[str, str], Group] = {}
    told: dict[Group, dict[str, QueueShape]] = {}
    for known in view.groups.by_key.values():
        if not known.members:
            continue
        group = groups[known.key] = _group(known)
        told[group] = _shaped(known.queues, shapes)
        group.registered = told[group] | _shaped(known.registered, shapes)
        routes.members.adopt(group, now_ms)
    routes.topics.adopt(told)
    for by_name in view.groups.mappings.values():
        for mapping, owner in by_name.values():
            if owner in groups:
                routes.topics.set_mapping(groups[owner], mapping)
    routes.members.skip_generations(view.generation)
    routes.recovered(now_ms)
    return sum(len(group.members) for group in groups.values())


def _group(known: GroupView) -> Group:
    group = Group(known.cluster, known.broker, known.acting_master, known.zone)
    for broker_id, member in known.members.items():
        unconfirmed = member.known._replace(confirmed=False)
        group.members[broker_id] = Member(group, unconfirmed, link=None)
    group.payer = host_of(group.lowest.known.addr)
    return group


def _shaped(
    queues: Mapping[str, tuple[int, int, int, int]], shapes: ShapeByNumbers
) -> dict[str, QueueShape]:
    return dict(zip(queues, map(shapes.__getitem__, queues.values()), strict=True))


def catch_up_kv(known: KvTables, kv: KvTables, revision: Revision) -> Iterator[Event]:
    """What the key-value file holds and the journal does not know, or knows otherwise.

    That is found out at once; each event is made when it is asked for.
    """
    both = tables_in_journal(known), tables_in_journal(kv)
    found = difference(Groups(), Groups(), kv=both).kv

    def events() -> Iterator[Event]:
        for changed in found:
            yield KvChanged(
                revision=revision.next(), cause=Cause.RECOVERED, peer="", **changed._asdict()
            )

    return events()


def restate(routes: RouteTable, kv: KvTables, revision: Revision) -> Iterator[Event]:
    """All there is to know, for a journal that has lost records; in slices.

    Each event must be recorded before anything else happens. If records are lost again meanwhile,
    begin anew.
    """
    groups = 0
    for group in list(routes.members.groups()):
        for part in _restated(group, routes, revision):
            groups += not part.continued
            yield part
    yield StateRestated(
        revision=revision.value,
        cause=Cause.JOURNAL,
        peer="",
        groups=groups,
        generation=routes.members.last_generation,
        kv={namespace: dict(table) for namespace, table in kv.items()},
    )


def _restated(group: Group, routes: RouteTable, revision: Revision) -> Iterator[GroupRestated]:
    topics = iter(list(group.registered))
    members = tuple(member.known for _, member in sorted(group.members.items()))
    mappings = tuple(routes.topics.mappings_of(group))
    continued = False
    # It may leave while others have their turn; then that is told, and nothing is left to say.
    while routes.members.find_group(group.cluster, group.name) is group:
        part = list(islice(topics, RESTATED_A_SLICE))
        if continued and not part:
            return
        yield GroupRestated(
            revision=revision.value,
            cause=Cause.JOURNAL,
            peer="",
            cluster=group.cluster,
            broker=group.name,
            acting_master=group.acting_master,
            zone=group.zone,
            members=() if continued else members,
            queues=tuple(routes.topics.held(group, part)),
            mappings=() if continued else mappings,
            continued=continued,
        )
        continued = True
