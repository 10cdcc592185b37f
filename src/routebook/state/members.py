"""Members: which broker processes are believed alive, and by what.

A member lives by the connection it registered on and by its deadline. Heard on another
connection since (a heartbeat after a reconnect), it outlives the first one.

Each registration on a new connection is a new generation; a connection remembers the
generations registered on it, so that news which arrive late over an old one can be told from
news about the present one.

A member known from before a restart keeps its generation and has no connection: it lives by its
deadline, until it registers. A heartbeat confirms it but ties it to nothing: anybody can send one.
"""

from collections.abc import Collection, Iterable, Iterator

from routebook.deadlines import Deadlines
from routebook.slices import Slices
from routebook.state import costs
from routebook.state.account import Account, Kind
from routebook.state.model import Group, Link, Member, Unheard

Key = tuple[str, str]  # cluster and address, or cluster and broker name
MAX_GAPS = 1000  # of one member, between two takes
DUE_A_SLICE = 500
_NEVER = 0  # a generation before the first


class Members:
    def __init__(self, account: Account | None = None) -> None:
        self._account = account or Account()
        self._groups: dict[Key, Group] = {}
        self._named: dict[str, dict[Group, None]] = {}
        self._live: dict[Key, Member] = {}
        self._registered_on: dict[Link, dict[Key, int]] = {}  # with the generation it got
        self._heard_on: dict[Link, set[Key]] = {}
        self._deadlines: Deadlines[Key, int] = Deadlines()
        self._generation = 0

    def groups(self) -> Iterable[Group]:
        return self._groups.values()

    def find_group(self, cluster: str, name: str) -> Group | None:
        return self._groups.get((cluster, name))

    def groups_named(self, name: str) -> Collection[Group]:
        """Usually one; a name may be in use in many clusters. The oldest first."""
        return self._named.get(name, {}).keys()

    def find_live(self, cluster: str, addr: str) -> Member | None:
        return self._live.get((cluster, addr))

    @property
    def last_generation(self) -> int:
        return self._generation

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_at()

    def group_for(self, cluster: str, name: str) -> tuple[Group, bool]:
        """The group, and whether it had to be made."""
        group = self._groups.get((cluster, name))
        if group is not None:
            return group, False
        group = Group(cluster, name)
        self._add_group(group)
        return group, True

    def _add_group(self, group: Group) -> None:
        self._groups[group.cluster, group.name] = group
        self._named.setdefault(group.name, {})[group] = None

    def drop_group(self, group: Group) -> None:
        del self._groups[group.cluster, group.name]
        named = self._named[group.name]
        del named[group]
        if not named:
            del self._named[group.name]

    def live(self) -> Collection[Member]:
        return self._live.values()

    def hear(self, member: Member, now_ms: int) -> None:
        if member.heard_ms and len(member.gaps_ms) < MAX_GAPS:
            member.gaps_ms.append(now_ms - member.heard_ms)
        member.heard_ms = now_ms
        self._deadlines.set(_key(member), now_ms + member.known.heartbeat_timeout_ms)

    def hold(self, member: Member, until_ms: int) -> None:
        """Believe in a member whose time is up until then."""
        self._deadlines.set(_key(member), until_ms)

    def take_gaps(self) -> Iterator[tuple[Member, tuple[int, ...]]]:
        """The members heard of since this was last asked, and the times in between.

        Take your time: who leaves meanwhile is not among them.
        """
        for key, member in list(self._live.items()):
            if member.gaps_ms and self._live.get(key) is member:
                gaps, member.gaps_ms = tuple(member.gaps_ms), []
                yield member, gaps

    def hear_on(self, member: Member, link: Link) -> None:
        """Note the connection a sign of life came over.

        One that has lost the connection it registered on, and was held, lives by its deadline
        from now on: whose words these are, nobody knows.
        """
        if link in (member.link, member.other_link):
            return
        if member.link is not None and _key(member) not in self._registered_on.get(member.link, {}):
            member.link = None
        self._unhear(member)
        member.other_link = link
        self._heard_on.setdefault(link, set()).add(_key(member))

    def new_generation(self) -> int:
        """For a member that is about to be settled."""
        self._generation += 1
        return self._generation

    def settle(self, member: Member, link: Link) -> None:
        """Begin a new generation of ``member`` on ``link``."""
        key = _key(member)
        self._live[key] = member
        self._unhear(member)
        # The old connection keeps its entry: what still comes over it is known to be late.
        member.link = link
        on_link = self._registered_on.setdefault(link, {})
        on_link[key] = member.known.generation
        if len(on_link) > 2 * len(self._live) + 64:
            self._registered_on[link] = {k: g for k, g in on_link.items() if k in self._live}

    def adopt(self, group: Group, now_ms: int) -> None:
        """Take over a group known from before a restart, its members as yet unconfirmed."""
        self._add_group(group)
        for member in group.members.values():
            self._live[_key(member)] = member
            self.weigh(member)
            self.hear(member, now_ms)

    def weigh(self, member: Member) -> None:
        """Charge what ``member`` takes now."""
        group, known = member.group, member.known
        cost = costs.broker(
            (group.cluster, group.name, group.zone, known.addr, known.ha_addr),
            known.filter_servers,
        )
        if cost != member.cost:
            self._account.bill(Kind.BROKERS, group, cost - member.cost)
            member.cost = cost

    def confirm(self, member: Member) -> None:
        """Believe in an adopted member, which was heard of."""
        member.known = member.known._replace(confirmed=True)
        member.heard_ms = 0  # the time since the restart is no gap of its own

    def tie(self, member: Member, link: Link) -> None:
        """Let a member without a connection live by ``link``, as the generation it was."""
        if member.other_link not in (None, link):
            # What still comes over the one it was heard on before is late.
            self._registered_on.setdefault(member.other_link, {})[_key(member)] = _NEVER
        self._unhear(member)
        member.link = link
        self._registered_on.setdefault(link, {})[_key(member)] = member.known.generation

    def skip_generations(self, last: int) -> None:
        """Give out only generations above ``last``."""
        self._generation = max(self._generation, last)

    def is_late(self, member: Member, link: Link) -> bool:
        """Whether ``link`` registered an earlier generation of ``member``."""
        generation = self._registered_on.get(link, {}).get(_key(member))
        return generation is not None and generation != member.known.generation

    def forget(self, member: Member) -> None:
        """Take ``member`` out of its group and of everything that watches it."""
        key = _key(member)
        del self._live[key]
        self._deadlines.drop(key)
        if member.link is not None:
            self._registered_on.get(member.link, {}).pop(key, None)
        self._unhear(member)
        del member.group.members[member.known.broker_id]
        member.group.version += 1
        self._account.bill(Kind.BROKERS, member.group, -member.cost)
        member.cost = 0

    def has_link(self, link: Link) -> bool:
        """Whether a broker registered or was heard of over ``link``."""
        return link in self._registered_on or link in self._heard_on

    def lost_with(self, link: Link) -> Iterator[Member]:
        """The members that lived by ``link`` alone, as of the moment each is asked for.

        Forget them while iterating if you like, and take your time: who is heard of over another
        connection meanwhile is not among them.
        """
        for key in self._heard_on.pop(link, ()):
            heard = self._live.get(key)
            if heard is not None and heard.other_link == link:
                heard.other_link = None
        for key, generation in self._registered_on.pop(link, {}).items():
            member = self._live.get(key)
            if member is None or member.known.generation != generation or member.link != link:
                continue
            if member.other_link is None:
                yield member
            else:
                other = member.other_link
                self._unhear(member)
                self._move(member, other)

    def prefer_others(self, closed: Collection[Link]) -> Slices[None]:
        """Let members that live by one of these live by another they registered on, if any.

        Words that were said over several connections may have been heard in any order.
        """
        looked_at = 0
        for link, on_link in list(self._registered_on.items()):
            if link in closed:
                continue
            for key in list(on_link):
                member = self._live.get(key)
                if member is not None and member.link in closed:
                    self._move(member, link)
                looked_at += 1
                if looked_at % DUE_A_SLICE == 0:
                    yield

    def due(self, now_ms: int) -> Slices[list[Unheard]]:
        """The members whose deadline has passed, as they are when they are met."""
        found: list[Unheard] = []
        while True:
            due = self._deadlines.due(now_ms, DUE_A_SLICE)
            found += [Unheard.of(self._live[key]) for key in due]
            if not self._deadlines.is_due(now_ms):
                return found
            yield

    def _move(self, member: Member, link: Link) -> None:
        """Let ``member`` live by another connection, as the generation it is."""
        member.link = link
        member.repeat_key = None
        self._registered_on.setdefault(link, {})[_key(member)] = member.known.generation

    def _unhear(self, member: Member) -> None:
        if member.other_link is not None:
            self._heard_on.get(member.other_link, set()).discard(_key(member))
            member.other_link = None


def _key(member: Member) -> Key:
    return member.group.cluster, member.known.addr
