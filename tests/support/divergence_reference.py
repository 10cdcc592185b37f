"""Divergence once more, in plain Python and by the words of its page.

Slow and simple. Rows are dicts with the columns of the table, times in them milliseconds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from json import dumps
from typing import NamedTuple

from routebook_spark.tables import OPEN
from support.common_clock import UNSEEN, Clocks, Key, Row, day_of
from support.plain_silver import PlainSilver

ARRIVAL_MS = 5000


class Said(NamedTuple):
    """A node said ``claim`` from ``at_ms`` on, as record ``seq`` tells."""

    at_ms: int
    seq: int
    claim: str


class Piece(NamedTuple):
    from_ms: int
    to_ms: int
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Span:
    from_ms: int
    to_ms: int
    ending: str
    settled_ms: int = 0


def divergences(silver: PlainSilver) -> list[Row]:
    clocks = Clocks(silver.skew)
    groups = _group_lines(silver.sessions, clocks)
    topics = _topic_lines(silver.versions, groups, clocks)
    found: list[Row] = []
    nodes = sorted({row["node"] for row in silver.coverage})
    for a, b in combinations(nodes, 2):
        pair = {"fleet": "default", "node_a": a, "node_b": b}
        for broker in sorted({key[1:] for key in groups}):
            lines = groups.get((a, *broker), []), groups.get((b, *broker), [])
            named = {key[3] for key in topics if key[0] in (a, b) and key[1:3] == broker}
            about = {**pair, "cluster": broker[0], "broker": broker[1]}
            for span in _known(silver.coverage, a, b, clocks):
                pieces = list(_pieces(*lines, span))
                for run in _runs([piece for piece in pieces if piece.a != piece.b]):
                    found.append({**about, "topic": None, **_divergence(run, *lines, span)})
                for run in _runs([p for p in pieces if "null" not in (p.a, p.b)]):
                    listed = _both_list(run, span)
                    for topic in sorted(named):
                        told = (
                            topics.get((a, *broker, topic), []),
                            topics.get((b, *broker, topic), []),
                        )
                        differing = [p for p in _pieces(*told, listed) if p.a != p.b]
                        settled = [
                            piece
                            for piece in differing
                            if "null" not in (piece.a, piece.b) or piece.to_ms > listed.settled_ms
                        ]
                        for island in _runs(settled):
                            row = _divergence(island, *told, listed)
                            found.append({**about, "topic": topic, **row})
    for row in found:
        at = row["from_ms"]
        row["uncertainty_ms"] = sum(
            clocks.uncertainty_ms(row[name], at) for name in ("node_a", "node_b")
        )
    return [row for row in found if row["lasted_s"] * 1000 >= max(row["uncertainty_ms"], 1)]


def _known(coverage: Iterable[Row], a: str, b: str, clocks: Clocks) -> Iterator[Span]:
    covers = [
        (
            row["node"],
            clocks.ms(row["node"], row["from_at"]),
            clocks.ms(row["node"], row["to_at"]) + 1,
            row["to_seq"] is None,
        )
        for row in coverage
    ]
    for node, from_ms, to_ms, on in covers:
        for other, other_from_ms, other_to_ms, other_on in covers:
            since_ms = max(from_ms, other_from_ms)
            end_ms, goes_on = min((to_ms, on), (other_to_ms, other_on))
            if (node, other) == (a, b) and since_ms < end_ms:
                yield Span(since_ms, end_ms, "open" if goes_on else "unknown")


def _both_list(run: list[Piece], span: Span) -> Span:
    from_ms, to_ms = run[0].from_ms, run[-1].to_ms
    settled_ms = from_ms + ARRIVAL_MS if from_ms > span.from_ms else 0
    if to_ms == span.to_ms:
        return Span(from_ms, to_ms, span.ending, settled_ms)
    return Span(from_ms, to_ms, "widened", settled_ms)


def _divergence(run: list[Piece], a: list[Said], b: list[Said], span: Span) -> Row:
    first, from_ms, to_ms = run[0], run[0].from_ms, run[-1].to_ms
    if to_ms == span.to_ms:
        ending = span.ending
    else:
        after = _says(a, to_ms)
        assert after == _says(b, to_ms)
        ending = "converged" if after in (first.a, first.b) else "both_changed"
    return {
        "day": day_of(from_ms),
        "from_ms": from_ms,
        "to_ms": None if ending == "open" else to_ms,
        "lasted_s": (to_ms - from_ms) / 1000,
        "ending": ending,
        "view_a": first.a,
        "view_b": first.b,
        "until_day": OPEN if ending == "open" else day_of(to_ms),
    }


def _pieces(a: list[Said], b: list[Said], span: Span) -> Iterator[Piece]:
    """Stretches of ``span`` in which both say the same all the time."""
    cuts = {span.from_ms, span.to_ms, *(said.at_ms for said in (*a, *b))}
    inside = sorted(cut for cut in cuts if span.from_ms <= cut <= span.to_ms)
    last: Piece | None = None
    for from_ms, to_ms in pairwise(inside):
        piece = Piece(from_ms, to_ms, _says(a, from_ms), _says(b, from_ms))
        if last is not None and last[2:] == piece[2:]:
            last = last._replace(to_ms=to_ms)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Those that follow on each other."""
    run: list[Piece] = []
    for piece in pieces:
        if run and run[-1].to_ms != piece.from_ms:
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


def _says(line: list[Said], ms: int) -> str:
    return next((said.claim for said in reversed(line) if said.at_ms <= ms), "null")


def _group_lines(sessions: Sequence[Row], clocks: Clocks) -> dict[Key, list[Said]]:
    moves: dict[Key, list[tuple[int, bool, int, int, str | None]]] = defaultdict(list)
    for row in sessions:
        node, who = row["node"], row["broker_id"]
        key = (node, row["cluster"], row["broker"])
        began_ms = clocks.ms(node, row["began_at"])
        moves[key].append((row["from_seq"], True, began_ms, who, row["addr"]))
        if row["to_seq"] is not None and not _is_replaced(row, sessions, clocks):
            ended_ms = clocks.ms(node, row["ended_at"]) + (row["cause"] in UNSEEN)
            moves[key].append((row["to_seq"], False, ended_ms, who, None))
    return {
        key: list(_group_line(sorted(each, key=lambda m: m[:2]))) for key, each in moves.items()
    }


def _is_replaced(row: Row, sessions: Iterable[Row], clocks: Clocks) -> bool:
    place = ("node", "cluster", "broker", "broker_id")
    after = [
        other
        for other in sessions
        if other["from_seq"] > row["from_seq"] and all(other[n] == row[n] for n in place)
    ]
    if row["cause"] != "replaced" or not after:
        return False
    successor = min(after, key=lambda other: other["from_seq"])
    began_ms, ended_ms = (
        clocks.ms(row["node"], at) for at in (successor["began_at"], row["ended_at"])
    )
    return began_ms - ended_ms <= 1000


def _group_line(moves: list[tuple[int, bool, int, int, str | None]]) -> Iterator[Said]:
    addrs: dict[int, str] = {}
    latest_ms = 0
    for (seq, _, at_ms, who, addr), following in zip(moves, [*moves[1:], None], strict=True):
        latest_ms = max(latest_ms, at_ms)
        addrs.pop(who, None)
        if addr is not None:
            addrs[who] = addr
        if following is None or following[0] > seq:
            claim = dumps({str(i): addrs[i] for i in sorted(addrs)}, separators=(",", ":"))
            yield Said(latest_ms, seq, claim if addrs else "null")


def _topic_lines(
    versions: Iterable[Row], groups: Mapping[Key, list[Said]], clocks: Clocks
) -> dict[Key, list[Said]]:
    lines: dict[Key, list[Said]] = defaultdict(list)
    latest: dict[Key, int] = defaultdict(int)
    for row in sorted(versions, key=lambda row: row["from_seq"]):
        node = row["node"]
        key = (node, row["cluster"], row["broker"], row["topic"])
        from_ms = clocks.ms(node, row["valid_from"])
        latest[key] = max(latest[key], from_ms)
        shape = [row[name] for name in ("read_queues", "write_queues", "perm", "flags")]
        claim = dumps(shape, separators=(",", ":"))
        lines[key].append(Said(latest[key], row["from_seq"], claim))
        if row["to_seq"] is not None:
            # It is there no longer than its group, and no shorter if both went together.
            lost = [
                said.at_ms
                for said in groups.get(key[:3], [])
                if said.seq == row["to_seq"] and said.claim == "null"
            ]
            to_ms = clocks.ms(node, row["valid_to"]) + (row["end_cause"] in UNSEEN)
            latest[key] = max(latest[key], to_ms, *lost)
            lines[key].append(Said(latest[key], row["to_seq"], "null"))
    return lines
