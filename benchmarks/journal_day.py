"""The journal of a day, made up, and how long questions about it take.

    python -m benchmarks.journal_day FOLDER [--brokers 300] [--topics 1000] [--seed 1]
    python -m benchmarks.journal_day FOLDER --measure

FOLDER gets the journals of two nodes, first and second, that saw the same day a few milliseconds
apart. Brokers register at midnight, are heard of every 30 s (a record a minute for each) and
restart three times on average, one of them once an hour. Topics are added, a broker is drained for
an hour, and the nodes restart at noon. Segments and snapshots are those of an hour. The same seed
makes the same journals.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypedDict

from routebook.events import (
    BrokerConfirmed,
    Cause,
    Event,
    HeartbeatGaps,
    NodeStarted,
    NodeStopped,
    QueryCount,
    RouteQueries,
)
from routebook.journal.folder import ACTIVE
from routebook.journal.manifest import manifest_sha256
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from routebook.journal.segment import seal, summary_of
from routebook.journal.snapshot_file import Snapshot, write
from routebook.journal.view import View
from routebook.slices import carried_out
from routebook.state.model import Member, QueueShape, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable

MIDNIGHT_MS = 1_794_700_800_000  # 2026-11-15T00:00:00Z
DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000
NOON_MS = MIDNIGHT_MS + DAY_MS // 2
SHAPE = QueueShape(8, 8, 6, 0)
CLUSTER = "cluster-1"
FLAPPING, DRAINED = "broker-007", "broker-011"
QUERIED = 200
QUESTIONS = (
    ("route --at, end of the day", "route", "topic-00042", "--at", "2026-11-15T23:30:00Z"),
    ("route --at, early", "route", "topic-00042", "--at", "2026-11-15T00:30:00Z"),
    ("route --at, unknown topic", "route", "no-such-topic", "--at", "2026-11-15T23:30:00Z"),
    ("diff of two hours", "diff", "--from", "2026-11-15T09:00Z", "--to", "2026-11-15T11:00Z"),
    ("diff of the day", "diff", "--from", "2026-11-15T00:10Z", "--to", "2026-11-15T23:59Z"),
    ("topic, all versions", "topic", "topic-00042"),
    ("broker, sessions", "broker", FLAPPING),
    ("explain broker", "explain", FLAPPING),
    ("explain topic", "explain", "topic-00042"),
)


class _Note(TypedDict):
    revision: int
    cause: Cause
    peer: str


class _Planned(NamedTuple):
    at_ms: int
    what: str
    broker: str


@dataclass(slots=True)
class Day:
    """``late_ms`` is how much later than others this node hears of something, at most."""

    brokers: int
    topics: int
    seed: int
    node: str
    late_ms: int = 0
    _revision: Revision = field(default_factory=Revision)
    _table: RouteTable = field(init=False)
    _links: dict[str, int] = field(default_factory=dict)
    _connections: int = 0
    _versions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._table = RouteTable(
            self._revision, max_topics_per_broker=300_000, max_route_entries=10_000_000
        )

    def records(self) -> Iterator[Record]:
        delays = random.Random(self.node)
        at_ms, seq = MIDNIGHT_MS, 0
        for due_ms, events in self._happenings():
            at_ms = max(at_ms, due_ms + delays.randint(0, self.late_ms))
            for event in events:
                seq += 1
                yield Record(seq, at_ms, at_ms - MIDNIGHT_MS, self.node, event)

    def _happenings(self) -> Iterator[tuple[int, list[Event]]]:
        dice = random.Random(self.seed)
        plan = self._plan(dice)
        yield MIDNIGHT_MS, [self._started()]
        for minute_ms in range(MIDNIGHT_MS + MINUTE_MS, MIDNIGHT_MS + DAY_MS + 1, MINUTE_MS):
            while plan and plan[-1].at_ms < minute_ms:
                planned = plan.pop()
                yield planned.at_ms, self._do(planned)
            if minute_ms == NOON_MS + MINUTE_MS:
                continue  # the first window after a start is not a whole one
            for group in list(self._table.members.groups()):
                for member in group.members.values():
                    yield minute_ms, [self._heartbeats(member, dice)]
            yield minute_ms, [self._queries(dice)]

    def _plan(self, dice: random.Random) -> list[_Planned]:
        """The last comes first."""
        names = [f"broker-{number:03}" for number in range(self.brokers)]
        plan = [_Planned(MIDNIGHT_MS + 1000 + 100 * n, "register", b) for n, b in enumerate(names)]
        for name in names:
            for down_ms in _moments(dice, 24 if name == FLAPPING else dice.randint(1, 5)):
                back_ms = down_ms + dice.randrange(5000, 4 * MINUTE_MS)
                plan += [_Planned(down_ms, "lose", name), _Planned(back_ms, "register", name)]
            plan += [_Planned(at_ms, "create", name) for at_ms in _moments(dice, 3)]
        return sorted(
            [
                *plan,
                _Planned(MIDNIGHT_MS + 10 * HOUR_MS, "drain", DRAINED),
                _Planned(MIDNIGHT_MS + 11 * HOUR_MS, "undrain", DRAINED),
                _Planned(NOON_MS, "stop", ""),
                _Planned(NOON_MS + 8000, "start", ""),
                *(_Planned(NOON_MS + 9000 + 10 * n, "confirm", b) for n, b in enumerate(names)),
            ],
            reverse=True,
        )

    def _do(self, planned: _Planned) -> list[Event]:
        name = planned.broker
        match planned.what:
            case "register":
                return self._register(name, planned.at_ms)
            case "create":
                self._versions[name] = self._versions.get(name, 0) + 1
                return self._register(name, planned.at_ms) if self._find(name) else []
            case "lose":
                closing = self._table.close_link(self._links[name], Cause.CONNECTION_CLOSED, "")
                return carried_out(closing)[0]
            case "drain" | "undrain":
                writable = planned.what == "undrain"
                changes = self._table.set_writable(name, writable=writable, peer="10.9.9.9:51234")
                return carried_out(changes)[0]
            case "stop":
                return [NodeStopped(**self._note(Cause.STOP), brokers=self._count(), topics=0)]
            case "start":
                return [self._started()]
            case _:
                member = self._find(name)
                return [self._confirmed(member, planned.at_ms)] if member else []

    def _register(self, name: str, now_ms: int) -> list[Event]:
        if self._find(name) is None:
            self._connections += 1
            self._links[name] = self._connections
        number = int(name[-3:])
        host = f"10.0.{number // 250}.{number % 250 + 1}"
        created = self._versions.get(name, 0)
        topics = [f"topic-{(number + n) % (2 * self.topics):05}" for n in range(self.topics)]
        topics += [f"created-{name}-{n}" for n in range(created)]
        registration = Registration(
            cluster=CLUSTER,
            name=name,
            broker_id=0,
            addr=f"{host}:10911",
            ha_addr=f"{host}:10912",
            heartbeat_timeout_ms=120_000,
            acting_master=None,
            zone=None,
            state_version=0,
            stamp=VersionStamp(0, 1, created),
            topics=dict.fromkeys(topics, SHAPE),
            mappings=(),
            filter_servers=None,
            fingerprint=None,
            link=self._links[name],
            peer=f"{host}:40112",
        )
        events: list[Event] = []
        slices = self._table.register(registration, now_ms=now_ms)
        while True:
            try:
                events += next(slices)
            except StopIteration as done:
                events += done.value.events
                return events

    def _find(self, name: str) -> Member | None:
        group = self._table.members.find_group(CLUSTER, name)
        return group.members.get(0) if group else None

    def _count(self) -> int:
        return sum(len(group.members) for group in self._table.members.groups())

    def _note(self, cause: Cause) -> _Note:
        return {"revision": self._revision.value, "cause": cause, "peer": ""}

    def _started(self) -> Event:
        return NodeStarted(
            **self._note(Cause.START),
            version="1.0",
            address="10.0.1.101:9876",
            brokers=self._count(),
            topics=0,
        )

    def _confirmed(self, member: Member, at_ms: int) -> Event:
        return BrokerConfirmed(
            **self._note(Cause.RECOVERED),
            cluster=CLUSTER,
            broker=member.group.name,
            broker_id=0,
            addr=member.addr,
            generation=member.generation,
            after_ms=at_ms - NOON_MS - 8000,
        )

    def _heartbeats(self, member: Member, dice: random.Random) -> Event:
        return HeartbeatGaps(
            **self._note(Cause.WINDOW),
            cluster=CLUSTER,
            broker=member.group.name,
            broker_id=0,
            addr=member.addr,
            generation=member.generation,
            window_ms=MINUTE_MS,
            gaps_ms=(30_000 + dice.randint(-40, 400), 30_000 + dice.randint(-40, 400)),
        )

    def _queries(self, dice: random.Random) -> Event:
        return RouteQueries(
            **self._note(Cause.WINDOW),
            window_ms=MINUTE_MS,
            topics=tuple(
                QueryCount(f"topic-{n:05}", dice.randint(1, 50), 0, 0) for n in range(QUERIED)
            ),
            others=dice.randint(0, 1000),
        )


def _moments(dice: random.Random, count: int) -> list[int]:
    """Not in the first hour, and none around noon."""
    hours = [hour for hour in range(1, 24) if hour not in (11, 12)]
    return [
        MIDNIGHT_MS + dice.choice(hours) * HOUR_MS + dice.randrange(50 * MINUTE_MS)
        for _ in range(count)
    ]


def write_journal(folder: Path, records: Iterable[Record], *, segment_ms: int = HOUR_MS) -> int:
    """Segments with a snapshot after each, the last one active; returns how many records."""
    folder.mkdir(parents=True, exist_ok=True)
    view, previous, previous_sha, count = View(), CHAIN_START, "", 0
    lines: list[bytes] = []
    first_hash, ends_ms = previous, 0
    for record in records:
        if not lines:
            ends_ms = record.wall_ms + segment_ms
        elif record.wall_ms >= ends_ms:
            previous_sha = _seal(folder, lines, record.node, first_hash, previous_sha)
            write(folder, Snapshot(view, previous))
            lines, first_hash, ends_ms = [], previous, record.wall_ms + segment_ms
        line = encode(record, previous)
        previous = hash_of(line) or CHAIN_START
        lines.append(line)
        view.apply(record)
        count += 1
    (folder / ACTIVE).write_bytes(b"".join(lines))
    return count


def _seal(folder: Path, lines: list[bytes], node: str, first_hash: bytes, previous_sha: str) -> str:
    summary = summary_of(lines, node=node, first_hash=first_hash)
    (folder / summary.span.plain).write_bytes(b"".join(lines))
    seal(
        folder,
        summary,
        previous_sha256=previous_sha,
        sealed_at_ms=summary.last_wall_ms,
        stopped=lambda: False,
    )
    return manifest_sha256(folder, summary.span)


def measure(folder: Path) -> None:
    first, second = folder / "first", folder / "second"
    for name, *words in QUESTIONS:
        _ask(name, [*words, "--journal", str(first)])
    both = ["--journal", str(first), "--journal", str(second)]
    _ask("compare, one topic", ["compare", "--topic", "topic-00042", *both])
    _ask("compare, everything", ["compare", *both])


def _ask(name: str, words: list[str]) -> None:
    started = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "routebook", "history", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    took_s = time.monotonic() - started
    answered = len(ran.stdout.splitlines())
    print(
        f"{name:28} {took_s:6.2f} s  {answered:5} lines  exit {ran.returncode} {ran.stderr[:200]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--topics", type=int, default=1000, help="of each broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", action="store_true", help="ask, rather than write")
    given = parser.parse_args()
    if given.measure:
        measure(given.folder)
        return
    for name, node, late_ms in (("first", "ns-1-0a1b2c3d", 0), ("second", "ns-2-4e5f6a7b", 20)):
        day = Day(given.brokers, given.topics, given.seed, node, late_ms)
        started = time.monotonic()
        count = write_journal(given.folder / name, day.records())
        print(f"{name}: {count} records in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
