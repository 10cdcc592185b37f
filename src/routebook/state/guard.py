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
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from routebook.events import Cause, Event, GuardEngaged, GuardReleased, Suspect
from routebook.state.census import Census
from routebook.state.facts import Facts
from routebook.state.model import Link, Member


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """``share_percent`` 0 or ``hold_ms`` 0 switches the guard off."""

    share_percent: int = 50  # more brokers than this part of all are too many
    min_brokers: int = 10  # where a broker counts fewer, any number may die at once
    window_ms: int = 60_000
    hold_ms: int = 600_000
    idle_ms: int = 0  # a connection is closed after so long without a word; 0: never


NO_GUARD = GuardSettings(share_percent=0)
_ROUNDING = 1e-9  # of sums of shares


class Origin(NamedTuple):
    """Where a broker registered from: the peer's host, and the connection."""

    host: str
    link: Link  # one of its own for a broker without


class Weights:
    """What part of all a broker is that has one of these origins, one origin for each broker."""

    def __init__(self, origins: Collection[Origin]) -> None:
        self._on_host = Counter(origin.host for origin in origins)
        self._on_link = Counter(origins)

    def by_host(self, origin: Origin) -> float:
        return 1 / (len(self._on_host) * self._on_host[origin.host])

    def by_link(self, origin: Origin) -> float:
        return 1 / (len(self._on_link) * self._on_link[origin])

    def of(self, origin: Origin) -> float:
        return (self.by_host(origin) + self.by_link(origin)) / 2

    def in_words(self, silent: Collection[Origin]) -> tuple[int, int]:
        """How many of how many addresses, or connections, these are: whichever is more of them."""
        hosts = sum(map(self.by_host, silent)), len(self._on_host)
        links = sum(map(self.by_link, silent)), len(self._on_link)
        share, number = max(hosts, links)
        return ceil(share * number - _ROUNDING), number


class LetGo(NamedTuple):
    at_ms: int
    origin: Origin


class LossGuard:
    def __init__(self, settings: GuardSettings, facts: Facts) -> None:
        self._settings = settings
        self._facts = facts
        self._let_go: dict[tuple[str, str], LetGo] = {}  # by cluster and address of the silent
        self._held: dict[Member, int] = {}  # and when each was last heard of
        self._returned: set[Member] = set()
        self._left = 0
        self._since_ms = 0
        self._settled_ms: int | None = None  # when those who have not followed the others are gone
        self._off_until_ms = 0
        self._why: GuardEngaged | None = None

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
        self, silent: Collection[Member], live: Collection[Member], now_ms: int
    ) -> tuple[list[Member], list[Event]]:
        """Which of those whose time is up may go; the others are held.

        ``live`` are all brokers, those included. Brokers not confirmed since a restart have had
        their time: they go, and tell nothing of the others. Look who came back first.
        """
        present = {_key(member) for member in live}
        since_ms = now_ms - self._settings.window_ms
        self._let_go = {
            key: gone
            for key, gone in self._let_go.items()
            if gone.at_ms >= since_ms and key not in present
        }
        fresh = [m for m in silent if m.confirmed and m not in self._held]
        engaged = self._engaged(fresh, [m for m in live if m.confirmed], now_ms)
        gone = (member for member in fresh if member not in self._held)
        self._let_go.update((_key(member), LetGo(now_ms, _origin(member))) for member in gone)
        return [m for m in silent if m not in self._held], [] if engaged is None else [engaged]

    def _engaged(self, fresh: list[Member], live: list[Member], now_ms: int) -> Event | None:
        """Hold those who fell silent, if they are not alone; None: they may go."""
        settings = self._settings
        if not fresh or not settings.share_percent or not settings.hold_ms:
            return None
        before = len(live) + len(self._let_go)
        if now_ms < self._off_until_ms or before < settings.min_brokers:
            return None
        origins = [*map(_origin, live), *(gone.origin for gone in self._let_go.values())]
        weights = Weights(origins)
        silent = [*map(_origin, self._held)]
        silent += self._most_in_a_window(self._ends(set(fresh), live, now_ms), weights, now_ms)
        if sum(map(weights.of, silent)) * 100 <= settings.share_percent + _ROUNDING:
            return None
        census = Census(origins)
        fresh = [m for m in fresh if census.around(_origin(m)) >= settings.min_brokers]
        if not fresh:
            return None
        number, limit = len(silent), settings.share_percent * before // 100
        if number <= limit:
            number, before = weights.in_words(silent)
            limit = settings.share_percent * before // 100
        if not self._held:
            self._since_ms = now_ms
        for member in fresh:
            self._held[member] = member.heard_ms
            self._returned.discard(member)
        self._settle(now_ms)
        self._why = GuardEngaged(
            **self._facts.fact(Cause.GUARD, ""),
            suspects=tuple(_suspect(member, now_ms) for member in fresh),
            silent=number,
            live=before,
            limit=limit,
            window_ms=settings.window_ms,
            hold_ms=self.until_ms - now_ms,
        )
        return self._why

    def _ends(
        self, fresh: set[Member], live: list[Member], now_ms: int
    ) -> list[tuple[int, Origin]]:
        """When those not held ran or may run out of time, in order."""
        ends = [(gone.at_ms, gone.origin) for gone in self._let_go.values()]
        ends += [(now_ms, _origin(member)) for member in fresh]
        for member in live:
            if member in fresh or member in self._held:
                continue
            time_ms = self._time_of(member)
            if now_ms - member.heard_ms > time_ms // 2:
                ends.append((max(now_ms, member.heard_ms + time_ms), _origin(member)))
        return sorted(ends, key=lambda end: end[0])

    def _most_in_a_window(
        self, ends: list[tuple[int, Origin]], weights: Weights, now_ms: int
    ) -> list[Origin]:
        """Who runs out of time in the window with ``now_ms`` that weighs most."""
        ends_ms = [at_ms for at_ms, _ in ends]
        so_far = list(accumulate((weights.of(origin) for _, origin in ends), initial=0.0))
        heaviest = slice(0, 0)
        for first, start_ms in enumerate(ends_ms):
            if start_ms > now_ms:
                break
            end = bisect_right(ends_ms, start_ms + self._settings.window_ms)
            if so_far[end] - so_far[first] > so_far[heaviest.stop] - so_far[heaviest.start]:
                heaviest = slice(first, end)
        return [origin for _, origin in ends[heaviest]]

    def _time_of(self, member: Member) -> int:
        """How long it may be silent."""
        idle_ms, timeout_ms = self._settings.idle_ms, member.heartbeat_timeout_ms
        return min(idle_ms, timeout_ms) if idle_ms else timeout_ms

    def review(self, live: Collection[Member], now_ms: int) -> tuple[list[Member], list[Event]]:
        """Look who came back or left; whom to let go now, and what there is to say of it."""
        if not self._held:
            return [], []
        alive = set(live)
        for member, heard_ms in list(self._held.items()):
            if member not in alive:
                del self._held[member]
                self._left += 1
            elif member.heard_ms != heard_ms:
                del self._held[member]
                self._returned.add(member)
        if not self._held:
            return self._released("evidence")
        self._settle(now_ms)
        if now_ms < self.until_ms:
            return [], []
        over = now_ms >= self._since_ms + self._settings.hold_ms
        return self._released("deadline" if over else "evidence")

    def _settle(self, now_ms: int) -> None:
        """Give those still held a window to follow, once most are back."""
        weights = Weights([_origin(member) for member in {*self._returned, *self._held}])
        back = sum(weights.of(_origin(member)) for member in self._returned)
        still = sum(weights.of(_origin(member)) for member in self._held)
        if back <= still + _ROUNDING:
            self._settled_ms = None
        elif self._settled_ms is None:
            self._settled_ms = now_ms + self._settings.window_ms

    def release(
        self, live: Collection[Member], now_ms: int, *, peer: str
    ) -> tuple[list[Member], list[Event]]:
        """Hold nobody, and nobody who falls silent within the next window either.

        Nothing happens when nobody is held.
        """
        if not self._held:
            return [], []
        self._off_until_ms = now_ms + self._settings.window_ms
        gone, events = self.review(live, now_ms)
        return self._released("admin", peer) if self._held else (gone, events)

    def _released(self, reason: str, peer: str = "") -> tuple[list[Member], list[Event]]:
        dropped = list(self._held)
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
        return dropped, [event]


def _key(member: Member) -> tuple[str, str]:
    return member.group.cluster, member.addr


def _origin(member: Member) -> Origin:
    host = member.peer.rpartition(":")[0] or member.peer or member.addr
    return Origin(host, -member.generation if member.link is None else member.link)


def _suspect(member: Member, now_ms: int) -> Suspect:
    group = member.group
    silent_ms = now_ms - member.heard_ms
    return Suspect(group.cluster, group.name, member.broker_id, member.addr, silent_ms)
