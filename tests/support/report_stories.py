"""Bad days of a fleet for the report: silver told as stories, gold made of it by its own functions.

Each story is on a day of its own. What is expected of each is in the tests.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from routebook.events import QueueChange, RegistrationCompleted, TopicsChanged
from routebook_spark import tables
from routebook_spark.gold.availability import broker_availability
from routebook_spark.gold.convergence import convergence
from routebook_spark.gold.divergence import divergence
from routebook_spark.gold.exposure import stale_exposure
from routebook_spark.gold.flaps import flaps
from routebook_spark.gold.heartbeats import heartbeat_health
from routebook_spark.tables import Table
from support.gold_stories import CLUSTER, Story, note, process, story_frames

FLEET = "bad"
NODES = ("bad/ns-1", "bad/ns-2", "bad/ns-3")
ONE, TWO, THREE = NODES
LEFT_MS = 3_500_000  # all say goodbye before their story is over, or they were missing in the next
SLEPT = (100_000, 200_000)


def known() -> Story:
    return Story().knows(*NODES)


def stays(
    story: Story, broker: str, *times: tuple[int, int | None], cause: str, nodes: tuple[str, ...]
) -> Story:
    for since, until in times:
        story = story.lists(
            *nodes,
            broker=broker,
            addr=f"10.1.0.{len(broker)}:10911",
            since=since,
            until=LEFT_MS if until is None else until,
            cause="unregister" if until is None else cause,
        )
    return story


def flapping() -> Story:
    """Away for 2.5 s, 3 s and 3 s within a minute, on every node."""
    times = ((1000, 60_000), (62_500, 86_000), (89_000, 109_000), (112_000, None))
    return stays(known(), "flapper", *times, cause="connection_closed", nodes=NODES)


def one_by_one() -> Story:
    """Six brokers restart one after the other, 20 s apart, each away for 5 s."""
    story = known()
    for number in range(6):
        gone = 300_000 + 20_000 * number
        times = ((1000, gone), (gone + 5000, None))
        story = stays(story, f"roller-{number}", *times, cause="connection_closed", nodes=NODES)
    return story


def never_shown() -> Story:
    """A topic grows, and ns-3 never shows it; a broker comes everywhere within 300 ms."""
    each = (QueueChange("orders", (4, 4, 6, 0), (8, 8, 6, 0)),)
    changed = TopicsChanged(**note(), cluster=CLUSTER, broker="grower", changes=each)
    done = RegistrationCompleted(
        **note(), **process(broker="grower"), topics=9, data_version=(0, 1, 7)
    )
    story = known()
    for node, at_ms in ((ONE, 700_000), (TWO, 700_200)):
        story = story.writes(node, at_ms, changed, done)
    for delay, node in enumerate(NODES):
        story = story.lists(
            node, broker="comer", since=900_000 + 150 * delay, until=LEFT_MS, cause="unregister"
        )
    return story


def all_asleep() -> Story:
    """Every node sleeps at once: nobody knows whether the broker was there."""
    story = Story()
    asleep, awake = SLEPT
    for node in NODES:
        story = story.knows(node, until=asleep, ends="stalled").knows(node, since=awake)
    return stays(story, "sleeper", (1000, None), cause="expired", nodes=NODES)


def expired() -> Story:
    """No heartbeat came in time, on any node."""
    times = ((1000, 200_000), (260_000, None))
    return stays(known(), "late", *times, cause="expired", nodes=NODES)


def restarted() -> Story:
    """A broker goes and comes while ns-3 has just restarted, and does not list it yet."""
    story = Story().knows(ONE, TWO).knows(THREE, until=90_000).knows(THREE, since=95_000)
    times = ((1000, 100_000), (110_000, None))
    story = stays(story, "witnessed", *times, cause="connection_closed", nodes=(ONE, TWO))
    # It was recovered, and is not confirmed: nobody tells ns-3 that it goes.
    return stays(story, "witnessed", (1000, None), cause="", nodes=(THREE,))


def differing() -> Story:
    """Two nodes tell other queues of a topic for a minute; one does not list a broker at all."""
    story = known()
    for nodes, broker, since in ((NODES, "grower", 1000), ((ONE, TWO), "hidden", 400_000)):
        story = stays(story, broker, (since, None), cause="", nodes=nodes)
    story = story.has(ONE, THREE, broker="grower", queues=4, until=LEFT_MS)
    for queues, since, until in ((4, 1000, 120_000), (8, 120_000, 180_000), (4, 180_000, LEFT_MS)):
        story = story.has(TWO, broker="grower", queues=queues, since=since, until=until)
    return story


STORIES = {
    "flapping": flapping(),
    "one by one": one_by_one(),
    "never shown": never_shown(),
    "all asleep": all_asleep(),
    "expired": expired(),
    "restarted": restarted(),
    "differing": differing(),
}


def story_tables(spark: SparkSession) -> dict[Table, DataFrame]:
    made = story_frames(spark, STORIES)
    # Records have no fleet: it is given when they are taken in.
    node = F.regexp_replace("node", f"^{FLEET}/", "")
    events = made.events.withColumns({"fleet": F.lit(FLEET), "node": node})
    sessions, coverage, skew = made.sessions, made.coverage, made.skew
    return {
        tables.EVENTS: events,
        tables.BROKER_SESSIONS: sessions,
        tables.SUSPECT_TIMES: made.suspects,
        tables.NODE_COVERAGE: coverage,
        tables.CLOCK_SKEW: skew,
        tables.BROKER_AVAILABILITY: broker_availability(sessions, made.suspects, coverage, skew),
        tables.FLAPS: flaps(sessions, coverage, skew),
        tables.HEARTBEAT_HEALTH: heartbeat_health(events, sessions, coverage),
        tables.CONVERGENCE: convergence(sessions, events, coverage, skew),
        tables.DIVERGENCE: divergence(made.versions, sessions, coverage, skew),
        tables.STALE_EXPOSURE: stale_exposure(
            sessions, made.suspects, events, made.versions, coverage, skew
        ),
    }
