"""Windows: what a node counts all the time and writes down now and then."""

from routebook.events import Cause, Event, HeartbeatGaps, RouteQueries
from routebook.handlers.services import Services
from routebook.state.facts import Fact

TOPICS_A_RECORD = 1000  # a longer one would keep the interpreter from answers while it is written


def sum_up(
    services: Services, *, revision: int, window_ms: int, silent: bool = False
) -> list[Event]:
    """Signs of life and route queries since the last time this was asked.

    ``silent``: nothing else was recorded, so that without a record nobody could tell a quiet node
    from one that was not there.
    """
    note: Fact = {"revision": revision, "cause": Cause.WINDOW, "peer": ""}
    events: list[Event] = [
        HeartbeatGaps(
            **note,
            cluster=member.group.cluster,
            broker=member.group.name,
            broker_id=member.broker_id,
            addr=member.addr,
            generation=member.generation,
            window_ms=window_ms,
            gaps_ms=gaps,
        )
        for member, gaps in services.routes.members.take_gaps()
    ]
    topics, others = services.tally.take()
    services.memo.clear()  # it counts in cells of the tally that was taken
    for start in range(0, len(topics), TOPICS_A_RECORD):
        part = topics[start : start + TOPICS_A_RECORD]
        events.append(RouteQueries(**note, window_ms=window_ms, topics=part, others=0))
    if others or (silent and not events):
        events.append(RouteQueries(**note, window_ms=window_ms, topics=(), others=others))
    return events
