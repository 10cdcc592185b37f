"""LossGuard: brokers that fall silent together are probably not all dead.

A broker whose time is up is let go, unless too many run out of time within the same window: then
the fault is more likely between them and this node. Those whose time is up are held instead: they
keep their routes for ``hold_ms``, counted from the first one. What ends that:

* a held broker is heard of: it is believed again
* it says goodbye, or its connection is closed by its end: it leaves
* most of those held have come back, so the network is well; who does not follow within a window
  is gone
* the hold is over, or an administrator says so

The window looks ahead. A broker not heard of for half of its time is expected to run out of it, so
that the first one to do so is seen in the company of those who will follow it within seconds.

Silence is weighed two ways, so that nobody can switch the guard on or off with brokers that do
not exist. Every peer address has the same weight, which its brokers share, and so has every
connection; what counts is the mean of the two. Brokers of a cluster have an address each, or a
connection each behind one address, or both: then this is the share of brokers. Whether there are
enough brokers for a guard at all is counted alike (census.py), for each of those who fell silent.

There may be tens of thousands of them, so all of this is done in slices. Who is heard of or leaves
meanwhile is neither held nor let go: everybody is named as it was when it was found silent.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from operator import itemgetter
from typing import NamedTuple, TypeVar

from routebook.events import Cause, Event, GuardEngaged, GuardReleased, Suspect
from routebook.slices import Slices, in_order
from routebook.state.census import Origin, counted
from routebook.state.facts import Changes, Facts, quietly
from routebook.state.members import Members
from routebook.state.model import Member, Unheard

T = TypeVar("T")

WEIGHED_A_SLICE = 250
SUSPECTS_A_RECORD = 250


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """``share_percent`` 0 or ``hold_ms`` 0 switches the guard off."""

    share_percent: int  # more brokers than this part of all are too many
    min_brokers: int  # where a broker counts fewer, any number may die at once
    window_ms: int
    hold_ms: int
    idle_ms: int = 0  # a connection is closed after so long without a word; 0: never


NO_GUARD = GuardSettings(share_percent=0, min_brokers=0, window_ms=0, hold_ms=0)
_ROUNDING = 1e-9  # of sums of shares


class Weights:
    """What part of all a broker is that has one of these origins, one origin for each broker."""

    def __init__(self, origins: Collection[Origin] = ()) -> None:
        self._on_host = Counter(origin.host for origin in origins)
        self.brokers = Counter(origins)

    def add(self, origin: Origin) -> None:
        self._on_host[origin.host] += 1
        self.brokers[origin] += 1

    def by_host(self, origin: Origin) -> float:
        return 1 / (len(self._on_host) * self._on_host[origin.host])

    def by_link(self, origin: Origin) -> float:
        return 1 / (len(self.brokers) * self.brokers[origin])

    def of(self, origin: Origin) -> float:
        return (self.by_host(origin) + self.by_link(origin)) / 2

    def sum(self, origins: Sequence[Origin]) -> Slices[float]:
        total = 0.0
        for some in _parts(origins):
            total += sum(map(self.of, some))
            yield
        return total

    def in_words(self, silent: Sequence[Origin]) -> Slices[tuple[int, int]]:
        """How many of how many addresses, or connections, these are: whichever is more of them."""
        by_host = by_link = 0.0
        for some in _parts(silent):
            by_host += sum(map(self.by_host, some))
            by_link += sum(map(self.by_link, some))
            yield
        share, number = max((by_host, len(self._on_host)), (by_link, len(self.brokers)))
        return ceil(share * number - _ROUNDING), number


class LetGo(NamedTuple):
    at_ms: int
    origin: Origin


class Loss(NamedTuple):
    """Who is to be held; how many fell silent of how many, brokers or origins, and how many may."""

    of: Sequence[Unheard]
    silent: int
    live: int
    limit: int


class LossGuard:
    def __init__(self, settings: GuardSettings, facts: Facts) -> None:
        self._settings = settings
        self._facts = facts
        self._let_go: dict[tuple[str, str], LetGo] = {}  # by cluster and address of the silent
        self._held: dict[Member, Unheard] = {}
        self._returned: set[Member] = set()
        self._left = 0
        self._since_ms = 0
        self._settled_ms: int | None = None  # when those who have not followed the others are gone
        self._off_until_ms = 0
        self._why: GuardEngaged | None = None
        self._released_times = 0

    @property
    def held(self) -> Collection[Member]:
        """As of the last look; who came back or left since is still among them."""
        return self._held.keys()

    @property
    def since_ms(self) -> int:
        """When the hold began; means nothing while nobody is held."""
        return self._since_ms

    @property
    def until_ms(self) -> int:
        """When the hold ends; means nothing while nobody is held."""
        end_ms = self._since_ms + self._settings.hold_ms
        return end_ms if self._settled_ms is None else min(end_ms, self._settled_ms)

    @property
    def why(self) -> GuardEngaged | None:
        """What the latest broker was held for; None while nobody is held."""
        return self._why

    def judge(
        self, silent: Sequence[Unheard], members: Members, now_ms: int
    ) -> Changes[list[Unheard]]:
        """Which of those whose time is up may go; the others are held.

        ``members`` are all brokers, those included. Brokers not confirmed since a restart have had
        their time: they go, and tell nothing of the others. Look who came back first.
        """
        yield from quietly(self._forget_old(members, now_ms))
        fresh: list[Unheard] = []
        may_go: list[Unheard] = []
        for some in _parts(silent):
            for each in some:
                if not each.member.known.confirmed:
                    may_go.append(each)
                elif each.member not in self._held:
                    fresh.append(each)
            yield []
        loss = yield from quietly(self._weighed(fresh, members, now_ms))
        if loss is not None:
            may_go += yield from self._hold(loss, now_ms)
            held = {each.member for each in loss.of}
            fresh = [each for each in fresh if each.member not in held]
        for some in _parts(fresh):
            for each in some:
                if each.still:
                    self._let_go[_key(each.member)] = LetGo(now_ms, _origin(each.member))
            yield []
        return may_go + fresh

    def _forget_old(self, members: Members, now_ms: int) -> Slices[None]:
        """Those let go before the window, and those who are there again."""
        since_ms = now_ms - self._settings.window_ms
        for some in _parts(list(self._let_go.items())):
            for key, gone in some:
                if gone.at_ms < since_ms or members.find_live(*key) is not None:
                    del self._let_go[key]
            yield

    def _weighed(
        self, fresh: Sequence[Unheard], members: Members, now_ms: int
    ) -> Slices[Loss | None]:
        """Why those who fell silent are to be held, if they are not alone; None: they may go."""
        settings, live = self._settings, list(members.live())
        if not fresh or not settings.share_percent or not settings.hold_ms:
            return None
        if len(live) + len(self._let_go) < settings.min_brokers:
            return None
        weights, origins = Weights(), dict[Member, Origin]()
        for some in _parts(live):
            for member in some:
                if member.known.confirmed:
                    origins[member] = origin = _origin(member)
                    weights.add(origin)
            yield
        for lost in _parts(list(self._let_go.values())):
            for gone in lost:
                weights.add(gone.origin)
            yield
        before = len(origins) + len(self._let_go)
        if now_ms < self._off_until_ms or before < settings.min_brokers:
            return None
        silent_now = {each.member for each in fresh}
        yield
        ends = yield from self._ends(silent_now, origins, now_ms)
        silent = [origins.get(member) or _origin(member) for member in self._held]
        yield
        silent += yield from self._most_in_a_window(ends, weights, now_ms)
        share = yield from weights.sum(silent)
        if share * 100 <= settings.share_percent + _ROUNDING:
            return None
        census = yield from counted(weights.brokers)
        enough: list[Unheard] = []
        for unheard in _parts(fresh):
            enough += [
                each
                for each in unheard
                if each.member in origins  # else it has left meanwhile
                and census.around(origins[each.member]) >= settings.min_brokers
            ]
            yield
        if not enough:
            return None
        number, limit = len(silent), settings.share_percent * before // 100
        if number <= limit:
            number, before = yield from weights.in_words(silent)
            limit = settings.share_percent * before // 100
        return Loss(enough, number, before, limit)

    def _hold(self, loss: Loss, now_ms: int) -> Changes[list[Unheard]]:
        """Hold those who are still silent, and say so; who may go after all."""
        fresh = loss.of
        if not self._held:
            self._since_ms = now_ms
        yield from quietly(self._settle(now_ms, fresh))
        for start in range(0, len(fresh), SUSPECTS_A_RECORD):
            if now_ms < self._off_until_ms:
                return [*fresh[start:]]  # an administrator wants nobody held
            some = [each for each in fresh[start : start + SUSPECTS_A_RECORD] if each.still]
            if not some:
                continue
            for each in some:
                self._held[each.member] = each
                self._returned.discard(each.member)
            self._why = GuardEngaged(
                **self._facts.fact(Cause.GUARD, ""),
                suspects=tuple(_suspect(each.member, now_ms) for each in some),
                silent=loss.silent,
                live=loss.live,
                limit=loss.limit,
                window_ms=self._settings.window_ms,
                hold_ms=self.until_ms - now_ms,
            )
            yield [self._why]
        return []

    def _ends(
        self, fresh: set[Member], origins: dict[Member, Origin], now_ms: int
    ) -> Slices[list[tuple[int, Origin]]]:
        """When those not held ran or may run out of time, in order."""
        ends = [(gone.at_ms, gone.origin) for gone in self._let_go.values()]
        for some in _parts(list(origins)):
            for member in some:
                if member in self._held:
                    continue
                if member in fresh:
                    ends.append((now_ms, origins[member]))
                    continue
                time_ms = self._time_of(member)
                if now_ms - member.heard_ms > time_ms // 2:
                    end_ms = max(now_ms, member.heard_ms + time_ms)
                    ends.append((end_ms, origins[member]))
            yield
        return (yield from in_order(ends, key=itemgetter(0)))

    def _most_in_a_window(
        self, ends: list[tuple[int, Origin]], weights: Weights, now_ms: int
    ) -> Slices[list[Origin]]:
        """Who runs out of time in the window with ``now_ms`` that weighs most."""
        ends_ms = [at_ms for at_ms, _ in ends]
        so_far = [0.0]
        for some in _parts(ends):
            for _, origin in some:
                so_far.append(so_far[-1] + weights.of(origin))
            yield
        heaviest = slice(0, 0)
        for first, start_ms in enumerate(ends_ms):
            if start_ms > now_ms:
                break
            end = bisect_right(ends_ms, start_ms + self._settings.window_ms)
            if so_far[end] - so_far[first] > so_far[heaviest.stop] - so_far[heaviest.start]:
                heaviest = slice(first, end)
            if first % WEIGHED_A_SLICE == WEIGHED_A_SLICE - 1:
                yield
        return [origin for _, origin in ends[heaviest]]

    def _time_of(self, member: Member) -> int:
        """How long it may be silent."""
        idle_ms, timeout_ms = self._settings.idle_ms, member.known.heartbeat_timeout_ms
        return min(idle_ms, timeout_ms) if idle_ms else timeout_ms

    def review(self, now_ms: int) -> Changes[list[Unheard]]:
        """Look who came back or left; whom to let go now, and what there is to say of it."""
        released, changed = self._released_times, False
        for some in _parts(list(self._held.values())):
            changed = self._look_at(some) or changed
            yield []
            if self._released_times != released:
                return []
        if not self._held:
            if changed:
                _, events = self._released("evidence")
                yield events
            return []
        if changed:
            yield from quietly(self._settle(now_ms))
        if now_ms < self.until_ms or self._released_times != released:
            return []
        over = now_ms >= self._since_ms + self._settings.hold_ms
        dropped, events = self._released("deadline" if over else "evidence")
        yield events
        return dropped

    def _look_at(self, held: Iterable[Unheard]) -> bool:
        """Whether somebody is held no longer."""
        before = len(self._held)
        for each in held:
            if not each.there:
                del self._held[each.member]
                self._left += 1
            elif not each.still:
                del self._held[each.member]
                self._returned.add(each.member)
        return len(self._held) != before

    def _settle(self, now_ms: int, fresh: Sequence[Unheard] = ()) -> Slices[None]:
        """Give those still held a window to follow, once most are back.

        ``fresh`` are those about to be held.
        """
        weights, still, back = Weights(), list[Origin](), list[Origin]()
        held = [*self._held, *(each.member for each in fresh)]
        returned = list(self._returned.difference(held)) if self._returned else []
        yield
        for members, origins in ((held, still), (returned, back)):
            for some in _parts(members):
                for member in some:
                    origins.append(origin := _origin(member))
                    weights.add(origin)
                yield
        weight_still = yield from weights.sum(still)
        if (yield from weights.sum(back)) <= weight_still + _ROUNDING:
            self._settled_ms = None
        elif self._settled_ms is None:
            self._settled_ms = now_ms + self._settings.window_ms

    def release(self, now_ms: int, *, peer: str) -> tuple[list[Unheard], list[Event]]:
        """Hold nobody, and nobody who falls silent within the next window either.

        Nothing happens when nobody is held.
        """
        if not self._held:
            return [], []
        self._off_until_ms = now_ms + self._settings.window_ms
        self._look_at(list(self._held.values()))
        return self._released("admin", peer) if self._held else self._released("evidence")

    def _released(self, reason: str, peer: str = "") -> tuple[list[Unheard], list[Event]]:
        dropped = list(self._held.values())
        event = GuardReleased(
            **self._facts.fact(Cause.GUARD, peer),
            reason=reason,
            returned=len(self._returned),
            left=self._left,
            dropped=len(dropped),
        )
        self._held.clear()
        self._returned.clear()
        self._left = 0
        self._why = None
        self._released_times += 1
        return dropped, [event]


def _parts(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), WEIGHED_A_SLICE):
        yield items[start : start + WEIGHED_A_SLICE]


def _key(member: Member) -> tuple[str, str]:
    return member.group.cluster, member.known.addr


def _origin(member: Member) -> Origin:
    host = member.peer.rpartition(":")[0] or member.peer or member.known.addr
    return Origin(host, -member.known.generation if member.link is None else member.link)


def _suspect(member: Member, now_ms: int) -> Suspect:
    group = member.group
    silent_ms = now_ms - member.heard_ms
    return Suspect(group.cluster, group.name, member.known.broker_id, member.known.addr, silent_ms)
