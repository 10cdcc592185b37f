"""Windows: what a node counts all the time and writes down now and then.

Tens of thousands of brokers may have been heard of, and as many topics asked for: in slices, each
to be recorded before the next one.
"""

from collections.abc import Iterator
from itertools import islice

from routebook.events import Cause, Event, HeartbeatGaps, RouteQueries
from routebook.handlers.services import Services
from routebook.state.facts import Fact
from routebook.state.revision import Revision

BROKERS_A_SLICE = 50  # with a record each
TOPICS_A_RECORD = 1000  # a longer one would keep the interpreter from answers while it is written


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
