"""What ``routebook.history`` says of a world, against the truth.

An answer may be right or unknown, never wrong; and unknown only where nobody could know.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from routebook.history.finding.journals import Journal, Served
from routebook.history.questions import (
    Period,
    RouteAnswer,
    explanation,
    period,
    route_at,
    sessions_of,
)
from routebook.history.telling.versions import Part
from routebook.history.times import AtTime
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE
from routebook.journal.record import encode
from support.fleet import run_program
from world.finding import Finding
from world.folders import held_of, lost_of, segments_of, write_life
from world.knowledge import Knowledge, known_of
from world.plan import MINUTE, TOPICS, clock
from world.truth import Belief, Life, Truth

EDGE_MS = 400  # a tick and some
ROOM = "history"


def silent_progress(node: str, done: int, total: int) -> None:
    pass


class Told:
    """A life, its journal on disk, and what can be known from it."""

    def __init__(self, truth: Truth, life: Life, folder: Path) -> None:
        lost = lost_of(truth, life)
        self.life = life
        self.knowledge = known_of(life, held_of(segments_of(life), lost))
        self.folder = write_life(folder, life, lost=lost)

    def journal(self) -> Journal:
        return Journal(self.folder, silent_progress)


class Asked(Told):
    """As ``Told``, of the latest records of a node, which did not say what it knew before them."""

    def __init__(self, told: Told, rng: Random, folder: Path) -> None:
        whole = told.life.written
        held = whole[rng.randrange(len(whole)) :]
        self.life = told.life
        self.knowledge = known_of(told.life, held)
        self.folder = folder
        folder.mkdir()
        (folder / ACTIVE).write_bytes(b"".join(encode(each.record) for each in held))

    def journal(self) -> Journal:
        asked_ms = self.life.wall_ms(self.life.ends_ms)
        return Journal(self.folder, silent_progress, Served(None, asked_ms, "it is an old one"))


def write_world(truth: Truth, folder: Path) -> list[Told]:
    """The journals of all lives that wrote something."""
    return [
        Told(truth, life, folder / f"{life.node}-{life.incarnation}")
        for life in truth.lives
        if life.written
    ]


def check_history(truth: Truth, folder: Path) -> Iterator[Finding]:
    rng = Random(truth.plan.seed)
    whole = write_world(truth, folder)
    parts = [Asked(told, rng, folder / f"asked-{n}") for n, told in enumerate(whole)]
    for told in whole:
        if told.knowledge.to_ms - told.knowledge.from_ms > MINUTE:
            yield from _attempted(told, "program", lambda told=told: _check_program(told, rng))  # type: ignore[misc]
    for told in (*whole, *parts):
        yield from _attempted(told, "route at", lambda told=told: _check_routes(told, rng))  # type: ignore[misc]
        yield from _attempted(told, "sessions", lambda told=told: _check_sessions(told, rng))  # type: ignore[misc]
        yield from _attempted(told, "explain", lambda told=told: _check_explain(told))  # type: ignore[misc]


def _attempted(told: Told, what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except JournalError as error:
        yield Finding(ROOM, f"{what}: no answer", f"one about {told.life.node}", str(error))
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        yield Finding(ROOM, f"{what}: broke", f"an answer about {told.life.node}", repr(error))


# -- moments


def moments(knowledge: Knowledge, rng: Random, count: int = 10) -> list[float]:
    """True times worth asking about, the edges of everything among them."""
    life = knowledge.life
    edges = [since for since, _ in (*life.phases, *life.beliefs, *life.clock)]
    edges += [edge for span in knowledge.unknown for edge in (span.from_ms, span.to_ms)]
    chosen = [rng.uniform(knowledge.from_ms, knowledge.to_ms) for _ in range(count)]
    chosen += [
        edge + by_ms
        for edge in rng.sample(edges, min(len(edges), count))
        for by_ms in (-700, 30, 700)
    ]
    for span in knowledge.unknown:
        chosen.append((span.from_ms + min(span.to_ms, knowledge.to_ms)) / 2)
    return [float(int(each)) for each in chosen if knowledge.from_ms < each < knowledge.to_ms]


def meant(knowledge: Knowledge, wall_ms: int) -> float | None:
    """The true time that is meant by a time of the node's clock; None where it is open.

    Where a clock was set back a time came twice, and the later is meant, if it was seen. One that
    a clock set forward again went over the second time is open.
    """
    life = knowledge.life
    if wall_ms >= life.wall_ms(knowledge.to_ms) or wall_ms <= life.wall_ms(knowledge.from_ms):
        return None
    times = life.true_times(wall_ms)
    if not times or times[-1] > knowledge.to_ms:
        return None
    for (_, before), (since, after) in pairwise(life.clock):
        now_ms = life.wall_ms(since)
        if since > times[-1] and now_ms - (after - before) <= wall_ms < now_ms:
            return None
    if len(times) > 1:
        set_back_ms = max(since for since, _ in life.clock if since <= times[-1])
        if not any(set_back_ms <= each.true_ms <= times[-1] for each in knowledge.held):
            return None  # nobody saw the later one
    return times[-1]


# -- routes


def expected_parts(belief: Belief, topic: str) -> tuple[Part, ...]:
    return tuple(
        Part(cluster, broker, listed.addrs, listed.queues[topic])
        for (cluster, broker), listed in sorted(belief.items())
        if topic in listed.queues
    )


def _check_routes(told: Told, rng: Random) -> Iterator[Finding]:
    journal, life = told.journal(), told.life
    for true_ms in moments(told.knowledge, rng):
        wall_ms, topic = life.wall_ms(true_ms), rng.choice(TOPICS[:2])
        at_ms = meant(told.knowledge, wall_ms)
        if at_ms is None or life.changes_near(at_ms, 20):
            continue
        answer = route_at(journal, topic, AtTime(wall_ms))
        yield from judge_route(told.knowledge, at_ms, topic, _answered(answer))
    yield from _check_skipped(told, journal)


class Answered(NamedTuple):
    """``said`` is route, none, down, stalled or unknown."""

    said: str
    parts: tuple[Part, ...]
    partial: bool


def _answered(answer: RouteAnswer) -> Answered:
    last = answer.followed.last
    if last is None:
        return Answered("unknown", (), answer.partial)
    return Answered(str(last.told.value), last.parts, answer.partial)


def judge_route(
    knowledge: Knowledge, true_ms: float, topic: str, answer: Answered
) -> Iterator[Finding]:
    life, said, parts = knowledge.life, answer.said, answer.parts
    where = f"{life.node} ({life.incarnation}), {topic} at {clock(true_ms)}"
    phase = life.phase(true_ms)
    expected = expected_parts(life.belief(true_ms), topic)
    why = knowledge.why_unknown(true_ms, within_ms=EDGE_MS)
    got = f"{said} {_names(parts)}"
    if said in ("route", "none"):
        if phase == "stalled" and knowledge.surely_unknown(true_ms, within_ms=EDGE_MS):
            yield Finding(ROOM, "route told while the node slept", f"unknown: {where}", got)
        elif phase in ("killed", "stopped"):
            if _deep(life, true_ms):
                yield Finding(ROOM, f"route told while {phase}", f"none: {where}", got)
        elif parts != expected and phase == "awake":
            if answer.partial and set(parts) <= set(expected):
                return
            what = "wrong route" if why is None else f"wrong route in unknown time ({why})"
            yield Finding(ROOM, what, f"{_names(expected)}: {where}", got)
    elif said == "down":
        if phase in ("awake", "stalled") and _deep(life, true_ms):
            yield Finding(ROOM, f"down, and it was {phase}", f"not down: {where}", got)
    elif phase in ("awake", "stopped") and why is None and _deep(life, true_ms):
        yield Finding(ROOM, f"unknown, and it can be known ({phase})", f"an answer: {where}", got)


def _deep(life: Life, true_ms: float) -> bool:
    """Whether the node did not change its phase just now."""
    return not any(abs(since - true_ms) < EDGE_MS for since, _ in life.phases)


def _check_skipped(told: Told, journal: Journal) -> Iterator[Finding]:
    """Times that never came, because the clock was set forward."""
    life = told.life
    for (_, before), (since, after) in zip(life.clock, life.clock[1:], strict=False):
        if after <= before or not told.knowledge.from_ms < since < told.knowledge.to_ms:
            continue
        wall_ms = life.wall_ms(since) - (after - before) // 2
        lower, upper = life.wall_ms(told.knowledge.from_ms), life.wall_ms(told.knowledge.to_ms)
        if life.true_times(wall_ms) or not lower < wall_ms < upper:
            continue
        if life.phase(since) not in ("awake", "stalled"):
            continue
        last = route_at(journal, "orders", AtTime(wall_ms)).followed.last
        if last is not None and last.told.value not in ("unknown", "stalled"):
            where = f"{life.node}, a time skipped at {clock(since)}"
            yield Finding(
                ROOM,
                "an answer about a time that never came",
                f"unknown: {where}",
                f"{last.told.value} {_names(last.parts)}",
            )


def _names(parts: Sequence[Part]) -> str:
    return str([f"{part.broker}{list(part.addrs)}{part.queues}" for part in parts])


# -- the program


def _check_program(told: Told, rng: Random) -> Iterator[Finding]:
    """``routebook history route --at`` about one moment, as a program reads it."""
    life = told.life
    for true_ms in rng.sample(moments(told.knowledge, rng, 3), 1):
        wall_ms, topic = life.wall_ms(true_ms), "orders"
        at_ms = meant(told.knowledge, wall_ms)
        if at_ms is None or life.changes_near(at_ms, 20):
            continue
        at = datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
        words = ("--at", at, "--journal", str(told.folder), "--json")
        (node,) = run_program("history", "route", topic, *words).document["nodes"]
        parts = () if node["told"] not in ("route", "none") else tuple(_program_parts(node))
        answer = Answered(node["told"], parts, bool(node["partial"]))
        yield from judge_route(told.knowledge, at_ms, topic, answer)


def _program_parts(node: Mapping[str, Any]) -> Iterator[Part]:
    queues = {
        each["broker"]: (each["read"], each["write"], each["perm"], each["sys_flag"])
        for each in node["queues"]
    }
    for broker in node["brokers"]:
        addrs = tuple((int(number), addr) for number, addr in broker["addresses"].items())
        yield Part(broker["cluster"], broker["broker"], addrs, queues[broker["broker"]])


# -- sessions


def _check_sessions(told: Told, rng: Random) -> Iterator[Finding]:
    journal, life, knowledge = told.journal(), told.life, told.knowledge
    asked = period(journal, None, None)
    brokers = sorted({key[1] for _, belief in life.beliefs for key in belief})
    for broker in brokers:
        found = sessions_of(journal, broker, asked)
        for true_ms in moments(knowledge, rng, 6):
            wall_ms = life.wall_ms(true_ms)
            if meant(knowledge, wall_ms) != true_ms or len(life.true_times(wall_ms)) != 1:
                continue
            if knowledge.why_unknown(true_ms, within_ms=EDGE_MS) or life.phase(true_ms) != "awake":
                continue
            if life.changes_near(true_ms, 20) or len(life.clock) > 1:
                continue
            listed = life.belief(true_ms).get(("c1", broker))
            truly = set(listed.addrs) if listed else set()
            said = {
                (session.broker_id, session.addr)
                for session in found.sessions
                if session.began_ms <= wall_ms
                and (session.ended_ms is None or wall_ms < session.ended_ms)
            }
            if truly != said:
                where = f"{broker} on {life.node} at {clock(true_ms)}"
                what = "session of a broker that was not listed"
                if truly - said:
                    what = "no session of a broker that was listed"
                yield Finding(ROOM, what, f"{sorted(truly)}: {where}", str(sorted(said)))


# -- explain


def _check_explain(told: Told) -> Iterator[Finding]:
    """Nobody is said to have left, come or been down when that is not so."""
    journal, life = told.journal(), told.life
    asked: Period = period(journal, None, None)
    by_seq = {each.record.seq: each for each in told.knowledge.held}
    brokers = sorted({key[1] for _, belief in life.beliefs for key in belief})
    for broker in brokers:
        for line in explanation(journal, broker, asked).broker:
            written = by_seq.get(line.seq)
            if written is None or "the node was down" not in line.text:
                continue
            before = [e for e in told.knowledge.held if e.true_ms < written.true_ms]
            if before and life.phase(before[-1].true_ms + EDGE_MS) in ("awake", "stalled"):
                yield Finding(
                    ROOM,
                    "explain says the node was down while it ran",
                    f"{life.node} ran after {clock(before[-1].true_ms)}",
                    line.text,
                )
