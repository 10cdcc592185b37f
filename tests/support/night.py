"""A night of two brokers on one node, of which the documents tell."""

from routebook.events import RouteQueries
from support.stories import Story

TOPICS = [f"t{number:03}" for number in range(118)] + ["orders", "payments"]
FIRST, SECOND = "ns-1-0a1b2c3d", "ns-2-4e5f6a7b"


def night(node: str = FIRST, *, flaky: bool = True) -> Story:
    story = Story(awake=True, node=node).at("03:00:00").start()
    story.at("03:12:04").register(topics=TOPICS, version=1)
    story.at("03:12:05").register("broker-b", version=1)
    story.at("03:20:00").heartbeats(gaps_s=(30, 95))
    story.at("03:25:00").set_writable("broker-b", writable=False, peer="10.0.0.9:51234")
    if flaky:
        story.at("03:40:11").lose()
        story.at("03:40:41").register(topics=TOPICS, version=1)
    story.at("03:50:00").stop()
    story.at("03:51:00").start(recovering=True)
    story.at("03:51:04").confirm()
    return story.at("03:55:00").heartbeats("broker-b", host=2)


def nth(number: int) -> int:
    """The sequence number of one of the records of a night that tell more than that it is awake."""
    told = [r.seq for r in night().records if not isinstance(r.event, RouteQueries)]
    return told[number - 1]
