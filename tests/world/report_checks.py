"""What the report says of a fleet of a world, number by number, against the truth."""

from collections.abc import Iterator, Sequence

from routebook.events import BrokerLeft, Cause, JournalRecovered, NodeStopped
from routebook_spark.report.facts import FleetReport, Outage, in_ms
from routebook_spark.report.gather import gather, period_of
from routebook_spark.tables import Lake
from world.finding import Finding
from world.plan import SECOND, clock
from world.spark_checks import SLACK_S, true_seconds
from world.spark_lake import Carried
from world.truth import EPOCH_MS

ROOM = "report"
STEP_MS = 250


def can_be_checked(lives: Sequence[Carried]) -> bool:
    """Whether all clocks showed about the same, all the time: else hours are hard to tell."""
    clocks = {ahead // 500 for each in lives for _, ahead in each.life.clock}
    return len(clocks) == 1 and all(len(each.life.clock) == 1 for each in lives)


def check_report(lake: Lake, lives: Sequence[Carried]) -> Iterator[Finding]:
    fleet = lives[0].life.fleet
    period = period_of(lake, fleet=fleet)
    (told,) = gather(lake, period, title=fleet, fleet=fleet).fleets
    yield from _check_quality(lives, told)
    yield from _check_availability(lives, told)
    yield from _check_outages(lives, told)
    yield from _check_heartbeats(lives, told)
    yield from _check_convergence(told)


def _check_quality(lives: Sequence[Carried], told: FleetReport) -> Iterator[Finding]:
    for quality in told.quality.nodes:
        mine = [each for each in lives if each.life.node == quality.node]
        least_s = sum(_known_s(each) for each in mine)
        # Where a node was awake, and said when it was not, set clocks may be seen through.
        most_s = sum(_known_s(each, doubtful=("clock set", "silent")) for each in mine)
        events = [w.record.event for each in mine for w in each.knowledge.held]
        kills = sum(isinstance(event, JournalRecovered) for event in events)
        stops = sum(isinstance(event, NodeStopped) for event in events)
        slack_s = SLACK_S * len(mine)
        if not least_s - slack_s <= quality.known_s <= most_s + slack_s:
            expected = f"{quality.node}: {least_s:.1f} s to {most_s:.1f} s known"
            yield Finding(ROOM, "known time of a node", expected, str(quality))
        if quality.kills > kills or quality.stops > stops:
            expected = f"{quality.node}: {kills} kills, {stops} stops"
            yield Finding(ROOM, "kills and stops of a node", expected, str(quality))


def _known_s(each: Carried, doubtful: Sequence[str] = ()) -> float:
    """How long it was awake with nothing unknown but what is ``doubtful``."""
    unknown = [span for span in each.knowledge.unknown if span.why not in doubtful]
    count = 0
    at_ms = each.knowledge.from_ms
    while at_ms < each.knowledge.to_ms:
        awake = each.life.phase(at_ms) == "awake"
        count += awake and not any(span.holds(at_ms) for span in unknown)
        at_ms += STEP_MS
    return count * STEP_MS / SECOND


def _check_availability(lives: Sequence[Carried], told: FleetReport) -> Iterator[Finding]:
    total = told.availability.total
    brokers = {
        (*key, broker_id)
        for each in lives
        for _, belief in each.life.beliefs
        for key, listed in belief.items()
        for broker_id, _ in listed.addrs
    }
    sums = [true_seconds(lives, broker) for broker in sorted(brokers)]
    slack_s = SLACK_S * max(len(brokers), 1)
    listed_s, known_s, gone_s = (sum(each[i] for each in sums) for i in range(3))
    got = str(total)
    if not known_s - slack_s <= total.up_s + total.suspect_s <= listed_s + slack_s:
        expected = f"{told.fleet}: {known_s:.1f} s to {listed_s:.1f} s up"
        yield Finding(ROOM, "time up of all brokers", expected, got)
    if total.down_s + total.planned_s > gone_s + slack_s:
        yield Finding(
            ROOM, "time down of all brokers", f"{told.fleet}: at most {gone_s:.1f} s", got
        )


def _check_outages(lives: Sequence[Carried], told: FleetReport) -> Iterator[Finding]:
    ahead_ms = lives[0].life.clock[0][1]
    for incident in told.incidents.worst:
        for outage in incident.outages:
            if outage.down_s < 6:
                continue
            true_ms = in_ms(outage.left_at) - EPOCH_MS - ahead_ms + 3000
            if _listed(lives, outage, true_ms):
                yield Finding(
                    ROOM,
                    "an outage of a broker that was there",
                    f"{told.fleet}: nobody awake lists it at {clock(true_ms)}",
                    str(outage),
                )


def _listed(lives: Sequence[Carried], outage: Outage, true_ms: float) -> bool:
    """By a node that was awake for a while, throughout."""
    for each in lives:
        for at_ms in (true_ms - 2000, true_ms, true_ms + 2000):
            found = each.life.belief(at_ms).get((outage.cluster, outage.broker))
            if each.life.phase(at_ms) != "awake" or each.knowledge.why_unknown(at_ms):
                break
            if found is None or outage.broker_id not in dict(found.addrs):
                break
        else:
            return True
    return False


def _check_heartbeats(lives: Sequence[Carried], told: FleetReport) -> Iterator[Finding]:
    given_up: dict[tuple[str, int], int] = {}
    for each in lives:
        for written in each.knowledge.held:
            event = written.record.event
            if isinstance(event, BrokerLeft) and event.cause is Cause.EXPIRED:
                key = (event.broker, event.broker_id)
                given_up[key] = given_up.get(key, 0) + 1
    said = {(late.broker, late.broker_id): late.given_up for late in told.heartbeats.late}
    for key, times in given_up.items():
        if said.get(key, 0) == 0:
            expected = f"{told.fleet}: {key} given up {times} times"
            yield Finding(ROOM, "a broker given up is not late", expected, str(said))
    for key, times in said.items():
        if times > given_up.get(key, 0):
            expected = f"{told.fleet}: {key} given up {given_up.get(key, 0)} times"
            yield Finding(ROOM, "given up more often than it was", expected, str(said))


def _check_convergence(told: FleetReport) -> Iterator[Finding]:
    for lag in told.convergence.lags:
        if lag.within_30s + lag.incomplete > lag.changes or lag.within_1s > lag.within_30s:
            yield Finding(
                ROOM, "more changes in time than there were", f"{told.fleet}: fewer", str(lag)
            )
