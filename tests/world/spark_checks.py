"""What the tables of the pipeline say of worlds, against the truth."""

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import combinations
from random import Random

from routebook.events import BrokerLeft
from world.finding import Finding
from world.history_checks import EDGE_MS, moments
from world.plan import MINUTE, SECOND, clock
from world.spark_lake import Carried, Row, of_witness
from world.truth import EPOCH_MS, Belief, Key, Life

TOLERANCE_MS = 2500
SLACK_S = 5.0

TABLES_UNKNOWN = ("begins late", "records missing", "records lost")

Tables = Mapping[str, Sequence[Row]]


def check_tables(carried: Sequence[Carried], tables: Tables) -> Iterator[Finding]:
    for each in carried:
        rng = Random(f"{each.life.fleet} {each.life.node} {each.life.incarnation}")
        yield from _check_coverage(each, tables["node_coverage"], rng)
        yield from _check_sessions(each, tables["broker_sessions"], rng)
        yield from _check_versions(each, tables["route_versions"], rng)
    for fleet in sorted({each.life.fleet for each in carried}):
        lives = [each for each in carried if each.life.fleet == fleet]
        yield from _check_skew(lives, tables["clock_skew"])
        yield from _check_divergence(lives, tables["divergence"])
        yield from _check_missing_divergence(lives, tables["divergence"], tables["clock_skew"])
        yield from _check_availability(lives, tables["broker_availability"])
        yield from _check_convergence(lives, tables["convergence"])
        yield from _check_exposure(lives, tables["stale_exposure"])


# -- what one node says


def _sampled(each: Carried, rng: Random) -> Iterator[tuple[float, int]]:
    """True times and what the node's clock showed, where it showed that once."""
    life = each.life
    for true_ms in moments(each.knowledge, rng, 25):
        wall_ms = life.wall_ms(true_ms)
        if len(life.true_times(wall_ms)) == 1:
            yield true_ms, wall_ms


def _check_coverage(each: Carried, rows: Sequence[Row], rng: Random) -> Iterator[Finding]:
    life, knowledge = each.life, each.knowledge
    mine = list(of_witness(rows, life))
    for true_ms, wall_ms in _sampled(each, rng):
        covered = any(row["from_at"] <= wall_ms <= row["to_at"] for row in mine)
        phase, where = life.phase(true_ms), f"{life.node} ({life.incarnation}) {clock(true_ms)}"
        if any(abs(since - true_ms) < EDGE_MS for since, _ in life.phases):
            continue
        # Where it was awake, and its tables are known, silences and set clocks may be seen through.
        unknown = knowledge.surely_unknown(true_ms, within_ms=EDGE_MS)
        if covered and (unknown in TABLES_UNKNOWN or phase != "awake"):
            what = f"coverage of a time of {unknown or phase}"
            yield Finding("lake", what, f"not covered: {where}", _spans(mine))
        known = knowledge.why_unknown(true_ms, within_ms=EDGE_MS) is None
        if not covered and known and phase == "awake":
            yield Finding("lake", "coverage lost", f"covered: {where}", _spans(mine))


def _spans(rows: Sequence[Row]) -> str:
    return str([(row["from_at"], row["to_at"], row["begins"], row["ends"]) for row in rows])


def _knows(each: Carried, true_ms: float) -> bool:
    if each.knowledge.why_unknown(true_ms, within_ms=EDGE_MS):
        return False
    return each.life.phase(true_ms) == "awake" and not each.life.changes_near(true_ms, 20)


def _check_sessions(each: Carried, rows: Sequence[Row], rng: Random) -> Iterator[Finding]:
    life = each.life
    mine = list(of_witness(rows, life))
    for true_ms, wall_ms in _sampled(each, rng):
        if not _knows(each, true_ms) or len(life.clock) > 1:
            continue
        truly = {
            (*key, broker_id, addr)
            for key, listed in life.belief(true_ms).items()
            for broker_id, addr in listed.addrs
        }
        said = {
            (row["cluster"], row["broker"], row["broker_id"], row["addr"])
            for row in mine
            if row["began_at"] <= wall_ms and (row["ended_at"] is None or wall_ms < row["ended_at"])
        }
        yield from _compared("lake", "session", life, true_ms, truly, said)


def _check_versions(each: Carried, rows: Sequence[Row], rng: Random) -> Iterator[Finding]:
    life = each.life
    mine = list(of_witness(rows, life))
    for true_ms, wall_ms in _sampled(each, rng):
        if not _knows(each, true_ms) or len(life.clock) > 1:
            continue
        truly = _routes(life.belief(true_ms))
        said = {
            (row["cluster"], row["broker"], row["topic"], row["read_queues"])
            for row in mine
            if row["valid_from"] <= wall_ms
            and (row["valid_to"] is None or wall_ms < row["valid_to"])
        }
        yield from _compared("lake", "route version", life, true_ms, truly, said)


def _routes(belief: Belief) -> set[tuple[object, ...]]:
    return {
        (*key, topic, shape[0])
        for key, listed in belief.items()
        for topic, shape in listed.queues.items()
    }


def _compared(
    room: str,
    name: str,
    life: Life,
    true_ms: float,
    truly: Set[tuple[object, ...]],
    said: Set[tuple[object, ...]],
) -> Iterator[Finding]:
    where = f"{life.node} ({life.incarnation}) {clock(true_ms)}"
    if said - truly:
        yield Finding(room, f"a {name} that was not", f"no {said - truly}: {where}", str(said))
    if truly - said:
        yield Finding(room, f"a {name} missing", f"{truly - said}: {where}", str(said))


# -- what nodes say together


def _check_skew(lives: Sequence[Carried], rows: Sequence[Row]) -> Iterator[Finding]:
    by_node: dict[str, list[Life]] = {}
    for each in lives:
        by_node.setdefault(each.life.node, []).append(each.life)
    for row in rows:
        if row["node"] not in by_node or row["against"] not in by_node:
            continue
        offset_ms, uncertainty_ms = row["offset_ms"], row["uncertainty_ms"]
        if offset_ms is None or row["node"] == row["against"]:
            continue
        truly = {
            there - here
            for life in by_node[row["node"]]
            for _, there in life.clock
            for other in by_node[row["against"]]
            for _, here in other.clock
        }
        if all(abs(offset_ms - each) > uncertainty_ms + 50 for each in truly):
            yield Finding(
                "lake",
                "a wrong skew",
                f"{row['node']} against {row['against']}: one of {sorted(truly)} ms",
                f"{offset_ms} ms ± {uncertainty_ms} ms of {row.get('samples')} samples",
            )


def _check_exposure(lives: Sequence[Carried], rows: Sequence[Row]) -> Iterator[Finding]:
    """Each removal happened, by the clock of some node of the fleet."""
    departures = {
        (each.life.node, event.broker, event.broker_id, written.true_ms)
        for each in lives
        for written in each.knowledge.held
        if isinstance(event := written.record.event, BrokerLeft)
    }
    nodes = {each.life.node for each in lives}
    for row in rows:
        if row["node"] not in nodes:
            continue
        removed = (row["node"], row["broker"], row["broker_id"])
        times = _meant(lives, row["removed_at"])
        if not any(
            one[:3] == removed and abs(one[3] - true_ms) <= TOLERANCE_MS
            for one in departures
            for true_ms in times
        ):
            what = "stale exposure to a broker that did not leave"
            yield Finding("gold", what, row["node"], str(row))


def _meant(lives: Sequence[Carried], common_ms: int) -> list[float]:
    """True times that a time by the common clock may be: that of some node, as it once stood."""
    ahead = {ahead for each in lives for _, ahead in each.life.clock}
    return sorted(common_ms - EPOCH_MS - each for each in ahead)


def _check_divergence(lives: Sequence[Carried], rows: Sequence[Row]) -> Iterator[Finding]:
    names = {each.life.node for each in lives}
    mine = [row for row in rows if {row["node_a"], row["node_b"]} & names]
    for row in mine:
        if not {row["node_a"], row["node_b"]} <= names:
            yield Finding("gold", "a divergence across fleets", "none", _divergence(row))
            continue
        pairs = [
            (one, other)
            for one in lives
            for other in lives
            if one.life.node == row["node_a"] and other.life.node == row["node_b"]
        ]
        slack_ms = (row["uncertainty_ms"] or 0) + TOLERANCE_MS
        until = row["to_at"]
        if until is not None and until - row["from_at"] < 2 * slack_ms:
            continue
        at_ms = row["from_at"] + slack_ms
        moments_meant = _meant(lives, at_ms)
        if not any(
            _disagree(one, other, row, true_ms) for one, other in pairs for true_ms in moments_meant
        ):
            yield Finding("gold", "a divergence that was none", "agreement", _divergence(row))


SURELY_TOLD_S = 20


def _check_missing_divergence(
    lives: Sequence[Carried], rows: Sequence[Row], skews: Sequence[Row]
) -> Iterator[Finding]:
    """Nodes with right clocks, both of them witnesses all the time, that disagreed for long."""
    unknown = {row["node"] for row in skews if row["offset_ms"] is None}
    right = [
        each
        for each in lives
        if each.life.node not in unknown
        and len(each.life.clock) == 1
        and abs(each.life.clock[0][1]) <= 100
    ]
    for one, other in combinations(right, 2):
        if one.life.node == other.life.node:
            continue
        names = {one.life.node, other.life.node}
        told = [row for row in rows if {row["node_a"], row["node_b"]} == names]
        for key, from_ms, to_ms in _disputes(one, other):
            if to_ms - from_ms < SURELY_TOLD_S * SECOND or any(
                (row["cluster"], row["broker"]) == key
                and row["from_at"] - EPOCH_MS < to_ms
                and (row["to_at"] is None or row["to_at"] - EPOCH_MS > from_ms)
                for row in told
            ):
                continue
            where = f"{' and '.join(sorted(names))} about {key[1]}"
            expected = f"{where} from {clock(from_ms)} to {clock(to_ms)}"
            yield Finding("gold", "a divergence missing", expected, str(len(told)))


def _disputes(one: Carried, other: Carried) -> Iterator[tuple[Key, float, float]]:
    """What two witnesses said differently, second by second."""
    keys = {key for each in (one, other) for _, told in each.life.beliefs for key in told}
    first_ms = max(each.knowledge.from_ms for each in (one, other))
    last_ms = min(each.knowledge.to_ms for each in (one, other))
    seconds = range(int(first_ms), int(last_ms), SECOND)
    sure = [
        at_ms
        for at_ms in seconds
        if all(
            each.life.phase(at_ms) == "awake"
            and each.knowledge.why_unknown(at_ms, within_ms=EDGE_MS) is None
            for each in (one, other)
        )
    ]
    for key in sorted(keys):
        began: int | None = None
        last = first_ms
        for at_ms in (*sure, None):
            broken = at_ms is None or at_ms - last > SECOND
            differ = at_ms is not None and _differ(one.life, other.life, key, at_ms)
            if began is not None and (broken or not differ):
                yield key, began, last
                began = None
            if differ and began is None:
                began = at_ms
            last = at_ms or last


def _differ(one: Life, other: Life, key: Key, at_ms: float) -> bool:
    here, there = one.belief(at_ms).get(key), other.belief(at_ms).get(key)
    if here is None or there is None:
        return here is not there
    return here.addrs != there.addrs or here.queues != there.queues


def _divergence(row: Row) -> str:
    names = ("broker", "topic", "node_a", "node_b", "from_at", "to_at", "ending", "view_a")
    return str({name: row[name] for name in (*names, "view_b", "uncertainty_ms")})


def _disagree(one: Carried, other: Carried, row: Row, true_ms: float) -> bool:
    key = (row["cluster"], row["broker"])
    for at_ms in range(int(true_ms) - 2000, int(true_ms) + 2001, 500):
        if one.life.phase(at_ms) != "awake" or other.life.phase(at_ms) != "awake":
            continue
        if _differ(one.life, other.life, key, at_ms):
            return True
    return False


def _check_availability(lives: Sequence[Carried], rows: Sequence[Row]) -> Iterator[Finding]:
    """Sums over the hours, against how long some node that knew listed the broker, or none did."""
    fleet = lives[0].life.fleet
    mine = [r for r in rows if r["grain"] == "hour" and r.get("fleet", fleet) == fleet]
    if any(len(each.life.clock) > 1 for each in lives):
        return  # what is an hour there?
    if len({each.life.clock[0][1] // 500 for each in lives}) > 1:
        return  # depends on skews that may be unknown
    brokers = {
        (*key, broker_id)
        for each in lives
        for _, belief in each.life.beliefs
        for key, listed in belief.items()
        for broker_id, _ in listed.addrs
    }
    for broker in sorted(brokers):
        sums = {
            state: sum(row[f"{state}_s"] for row in mine if _broker(row) == broker)
            for state in ("up", "suspect", "down", "planned", "unknown")
        }
        listed_s, known_up_s, gone_s = true_seconds(lives, broker)
        where, got = f"{fleet}/{broker[1]}:{broker[2]}", str(sums)
        if sums["up"] + sums["suspect"] > listed_s + SLACK_S:
            yield Finding("gold", "up longer than listed", f"{where} ≤ {listed_s:.1f} s", got)
        if sums["up"] + sums["suspect"] < known_up_s - SLACK_S:
            yield Finding("gold", "up shorter than known", f"{where} ≥ {known_up_s:.1f} s", got)
        if sums["down"] + sums["planned"] > gone_s + SLACK_S:
            yield Finding("gold", "down longer than gone", f"{where} ≤ {gone_s:.1f} s", got)


def _broker(row: Row) -> tuple[str, str, int]:
    return row["cluster"], row["broker"], row["broker_id"]


_STEP_MS = 250


def true_seconds(
    lives: Sequence[Carried], broker: tuple[str, str, int]
) -> tuple[float, float, float]:
    """Listed by a node awake, known to be, and known by nobody who was awake to be."""
    cluster, name, broker_id = broker
    listed = known = gone = 0
    end_ms = max(each.knowledge.to_ms for each in lives)
    at_ms = 0.0
    while at_ms < end_ms:
        awake = [each for each in lives if each.life.phase(at_ms) == "awake"]
        with_it = [
            each
            for each in awake
            if (found := each.life.belief(at_ms).get((cluster, name)))
            and broker_id in dict(found.addrs)
        ]
        sure = [each for each in with_it if each.knowledge.why_unknown(at_ms) is None]
        sure = [each for each in sure if each.knowledge.from_ms <= at_ms < each.knowledge.to_ms]
        listed += bool(with_it)
        known += bool(sure)
        gone += bool(awake) and not with_it
        at_ms += _STEP_MS
    return tuple(count * _STEP_MS / SECOND for count in (listed, known, gone))  # type: ignore[return-value]


def _check_convergence(lives: Sequence[Carried], rows: Sequence[Row]) -> Iterator[Finding]:
    """Every change was one: the first node showed it at about that time by some clock."""
    fleet = lives[0].life.fleet
    by_node: dict[str, list[Carried]] = {}
    for each in lives:
        by_node.setdefault(each.life.node, []).append(each)
    for row in rows:
        if row.get("fleet", fleet) != fleet or row["first_node"] not in by_node:
            continue
        if row["nodes"] > len(by_node):
            yield Finding(
                "gold", "a change shown by more nodes than there are", f"{len(by_node)}", str(row)
            )
        slack_ms = (row["uncertainty_ms"] or 0) + TOLERANCE_MS
        times = _meant(lives, row["first_at"])
        if not any(
            each.life.changes_near(true_ms, slack_ms)
            for each in by_node[row["first_node"]]
            for true_ms in times
        ):
            yield Finding("gold", "a change that was none", "no row", str(row))
        if row["lag_ms"] is not None and row["lag_ms"] > 40 * MINUTE:
            yield Finding("gold", "a lag longer than the world", "no row", str(row))
