"""Convergence once more, in plain Python and by the words of its page.

Slow and simple. Rows are dicts with the columns of the table, times in them milliseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from json import dumps

from routebook.events import BrokerLeft, BrokerRegistered, RegistrationCompleted, TopicsChanged
from routebook.journal.record import Record
from support.common_clock import DAY_MS, UNSEEN, Clocks, Key, Row, day_of
from support.plain_silver import PlainSilver

WINDOW_MS = 600_000


@dataclass(frozen=True, slots=True)
class Sighting:
    subject: Key
    kind: str
    state: object
    node: str
    seq: int
    at_ms: int
    topic: str | None
    what: str
    changes: bool = True
    taken_back: bool = False

    @property
    def order(self) -> Key:
        return self.at_ms, self.node, self.seq


def convergences(silver: PlainSilver, records: Mapping[str, Sequence[Record]]) -> list[Row]:
    clocks = Clocks(silver.skew)
    by_subject: dict[Key, list[Sighting]] = defaultdict(list)
    for sighting in (
        *_process_sightings(silver.sessions, clocks),
        *_topic_sightings(records, clocks),
    ):
        by_subject[sighting.subject].append(sighting)
    rows: list[Row] = []
    for sightings in by_subject.values():
        sightings.sort(key=lambda sighting: sighting.order)
        for change, before in _changes(sightings):
            row = _convergence(change, before, silver, clocks)
            if row is not None:
                rows.append(row)
    return rows


def _process_sightings(sessions: Iterable[Row], clocks: Clocks) -> Iterator[Sighting]:
    moves: dict[Key, list[tuple[int, int, str, bool]]] = defaultdict(list)
    for row in sessions:
        node = row["node"]
        key = (node, row["cluster"], row["broker"], row["broker_id"], row["addr"])
        began_ms = clocks.ms(node, row["began_at"])
        moves[key].append(
            (row["from_seq"], began_ms, "broker_joined", row["began"] == "registered")
        )
        if row["to_seq"] is not None:
            shown = row["cause"] not in UNSEEN
            ended_ms = clocks.ms(node, row["ended_at"])
            moves[key].append((row["to_seq"], ended_ms, "broker_left", shown))
    for (node, cluster, broker, who, addr), each in moves.items():
        each.sort()
        for (seq, at_ms, kind, shown), following in zip(each, [*each[1:], None], strict=True):
            if shown:
                yield Sighting(
                    subject=(cluster, broker, who, addr),
                    kind=kind,
                    state=kind,
                    node=node,
                    seq=seq,
                    at_ms=at_ms,
                    topic=None,
                    what=f"{who} {addr}",
                    taken_back=following is not None and following[1] - at_ms <= WINDOW_MS,
                )


def _topic_sightings(records: Mapping[str, Sequence[Record]], clocks: Clocks) -> Iterator[Sighting]:
    for node, each in records.items():
        arriving: set[Key] = set()
        wholes: dict[Key, list[tuple[Record, bool]]] = {}
        for record in each:
            event = record.event
            group = (getattr(event, "cluster", ""), getattr(event, "broker", ""))
            if isinstance(event, TopicsChanged | RegistrationCompleted):
                key = (*group, event.peer)
                parts = wholes.setdefault(key, [])
                if parts and _ms(record, clocks) - _ms(parts[-1][0], clocks) > 5000:
                    yield from _whole(node, key, wholes.pop(key), clocks)
                    parts = wholes.setdefault(key, [])
                parts.append((record, group in arriving))
                if isinstance(event, RegistrationCompleted):
                    yield from _whole(node, key, wholes.pop(key), clocks)
            if isinstance(event, BrokerRegistered) and not event.addrs_before:
                arriving.add(group)
            elif isinstance(event, BrokerLeft | RegistrationCompleted):
                arriving.discard(group)
        for key, parts in wholes.items():
            yield from _whole(node, key, parts, clocks)


def _ms(record: Record, clocks: Clocks) -> int:
    return clocks.ms(record.node, datetime.fromtimestamp(record.wall_ms / 1000, UTC))


def _whole(
    node: str, key: Key, parts: list[tuple[Record, bool]], clocks: Clocks
) -> Iterator[Sighting]:
    changes = [
        change
        for record, _ in parts
        if isinstance(record.event, TopicsChanged)
        for change in record.event.changes
    ]
    last = parts[-1][0]
    version = getattr(last.event, "data_version", None)
    if version is None and not changes:
        return
    topics = {change.topic for change in changes}
    subject: Key = (*key[:2], frozenset(topics))
    state: object = frozenset((change.topic, change.after) for change in changes)
    if version is not None:
        assert isinstance(last.event, RegistrationCompleted)
        subject, state = (*key[:2], last.event.addr, version), version
    after = "null" if not changes or changes[-1].after is None else changes[-1].after
    yield Sighting(
        subject=subject,
        kind="topic_changed",
        state=state,
        node=node,
        seq=last.seq,
        at_ms=_ms(last, clocks),
        topic=next(iter(topics)) if len(topics) == 1 else None,
        what=(after if isinstance(after, str) else dumps(list(after), separators=(",", ":")))
        if len(topics) == 1
        else f"{len(changes)} topics",
        changes=bool(changes) and not any(arriving for _, arriving in parts),
    )


def _changes(sightings: Sequence[Sighting]) -> Iterator[tuple[list[Sighting], list[Sighting]]]:
    """Sightings of one change, and those of the same subject before it."""
    begin = 0
    for place in range(1, len(sightings) + 1):
        if place < len(sightings):
            last, this = sightings[place - 1], sightings[place]
            if last.state == this.state and this.at_ms - last.at_ms <= WINDOW_MS:
                continue
        yield list(sightings[begin:place]), list(sightings[:begin])
        begin = place


def _convergence(
    change: list[Sighting], before: list[Sighting], silver: PlainSilver, clocks: Clocks
) -> Row | None:
    first, first_ms = change[0], change[0].at_ms
    told = next((sighting for sighting in change if sighting.changes), None)
    if told is None or (first.kind == "topic_changed" and _is_late(first, before)):
        return None
    nodes = sorted({row["node"] for row in silver.coverage})
    listing = {node for node in nodes if _lists(node, first, silver.sessions, clocks)}
    shown: dict[str, int] = {}
    for sighting in reversed(change):
        if sighting.at_ms <= first_ms + WINDOW_MS:
            shown[sighting.node] = sighting.at_ms
    knew = {node for node in nodes if _covered(node, first_ms, first_ms, silver.coverage, clocks)}
    if first.kind == "broker_joined" and (listing & knew) - {first.node}:
        return None
    counted = {
        node
        for node in nodes
        if node == first.node
        or _covered(node, first_ms, shown.get(node, first_ms + WINDOW_MS), silver.coverage, clocks)
    }
    shows = {node for node in counted if node in shown}
    knowing = shows | {node for node in counted if first.kind != "broker_left" or node in listing}
    if first.kind == "broker_left" and shows != knowing and all(s.taken_back for s in change):
        return None
    complete = len(knowing) > 1 and shows == knowing
    last_ms, last_node = max((shown[node], node) for node in shows)
    lag_ms = last_ms - first_ms
    uncertainty_ms = clocks.uncertainty_ms(first.node, first_ms)
    if complete:
        uncertainty_ms += clocks.uncertainty_ms(last_node, first_ms)
    return {
        "day": day_of(first_ms),
        "fleet": "default",
        "kind": first.kind,
        "cluster": first.subject[0],
        "broker": first.subject[1],
        "topic": told.topic,
        "what": told.what,
        "first_ms": first_ms,
        "last_ms": last_ms if complete else None,
        "first_node": first.node,
        "last_node": last_node if complete else None,
        "nodes": len(shows),
        "nodes_knowing": len(knowing),
        "lag_ms": lag_ms if complete else None,
        "uncertainty_ms": uncertainty_ms,
        "within_1s": complete and lag_ms <= 1000 if len(knowing) > 1 else None,
        "within_30s": complete and lag_ms <= 30_000 if len(knowing) > 1 else None,
    }


def _is_late(first: Sighting, before: list[Sighting]) -> bool:
    """Whether another node has shown the same more often within the last day."""
    shown = Counter(
        sighting.node
        for sighting in before
        if sighting.state == first.state
        and sighting.changes
        and first.at_ms - DAY_MS <= sighting.at_ms < first.at_ms
    )
    return max(shown.values(), default=0) > shown[first.node]


def _lists(node: str, first: Sighting, sessions: Iterable[Row], clocks: Clocks) -> bool:
    """Whether ``node`` had the process just before ``first``."""
    moves = []
    for row in sessions:
        who = (row["cluster"], row["broker"], row["broker_id"], row["addr"])
        if row["node"] == node and who == first.subject:
            moves.append((clocks.ms(node, row["began_at"]), node, row["from_seq"], True))
            if row["to_seq"] is not None:
                moves.append((clocks.ms(node, row["ended_at"]), node, row["to_seq"], False))
    earlier = [move for move in moves if move[:3] < first.order]
    return bool(earlier) and max(earlier)[3]


def _covered(node: str, from_ms: int, to_ms: int, coverage: Iterable[Row], clocks: Clocks) -> bool:
    return any(
        clocks.ms(node, row["from_at"]) <= from_ms and to_ms <= clocks.ms(node, row["to_at"])
        for row in coverage
        if row["node"] == node
    )
