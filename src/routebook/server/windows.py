"""Windows: what a node counts all the time and writes down now and then.

Tens of thousands of brokers may have been heard of, and as many topics asked for: in slices, each
to be recorded before the next one.
"""

import asyncio
from collections.abc import Callable, Iterator
from itertools import chain, islice

from routebook.events import Cause, Event, HeartbeatGaps, RouteQueries
from routebook.handlers.services import Services
from routebook.state.facts import Fact
from routebook.state.revision import Revision

BROKERS_A_SLICE = 50  # with a record each
TOPICS_A_RECORD = 1000  # a longer one would keep the interpreter from answers while it is written


class Windows:
    """Records what was counted, one window after the other."""

    def __init__(
        self, services: Services, revision: Revision, *, last_seq: Callable[[], int]
    ) -> None:
        self._services = services
        self._revision = revision
        self._last_seq = last_seq
        self._began_ms = services.now_ms()
        self._began_seq = 0
        self._untold: Iterator[list[Event]] = iter(())  # of the window that ended

    async def tell(self) -> None:
        """A window ends; what it says is recorded slice by slice."""
        self._untold = self._ended(silent=self._last_seq() == self._began_seq)
        for events in self._untold:
            self._services.record(events)
            await asyncio.sleep(0)
        self._began_seq = self._last_seq()

    def tell_rest(self) -> None:
        """All there is, before the node stops."""
        for events in chain(self._untold, self._ended()):
            self._services.record(events)

    def _ended(self, *, silent: bool = False) -> Iterator[list[Event]]:
        """``silent``: nothing was recorded in the window; then say at least that it was."""
        now_ms = self._services.now_ms()  # a window is as long as it was listened for
        window_ms, self._began_ms = now_ms - self._began_ms, now_ms
        return sum_up(self._services, revision=self._revision, window_ms=window_ms, silent=silent)


def sum_up(
    services: Services, *, revision: Revision, window_ms: int, silent: bool = False
) -> Iterator[list[Event]]:
    """Signs of life and route queries since the last time this was asked.

    ``silent``: nothing else was recorded, so that without a record nobody could tell a quiet node
    from one that was not there.
    """

    def note() -> Fact:
        return {"revision": revision.value, "cause": Cause.WINDOW, "peer": ""}

    counts, others = services.tally.take()
    services.memo.clear()  # it counts in cells of the tally that was taken
    heard = services.routes.members.take_gaps()
    while some := list(islice(heard, BROKERS_A_SLICE)):
        silent = False
        yield [
            HeartbeatGaps(
                **note(),
                cluster=member.group.cluster,
                broker=member.group.name,
                broker_id=member.known.broker_id,
                addr=member.known.addr,
                generation=member.known.generation,
                window_ms=window_ms,
                gaps_ms=gaps,
            )
            for member, gaps in some
        ]
    while topics := tuple(islice(counts, TOPICS_A_RECORD)):
        silent = False
        yield [RouteQueries(**note(), window_ms=window_ms, topics=topics, others=0)]
    if others or silent:
        yield [RouteQueries(**note(), window_ms=window_ms, topics=(), others=others)]
