"""What ``routebook history`` shows of sessions, of explanations, and of nodes that disagreed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from routebook.cli.output import table_of
from routebook.cli.plain import one_line, word
from routebook.history.diverge import BrokerClaim, Claim, Divergence, Ending
from routebook.history.explain import Line, as_text
from routebook.history.questions import ComparisonAnswer
from routebook.history.sentences import sentence
from routebook.history.sessions import BrokerHistory, Session
from routebook.history.skew import Skew
from routebook.history.times import exact, span, to_second
from routebook.history.words import EXAMPLES, counted, listed, members, short_queues
from routebook.journal.record import Record

_MOST_REMARKS = 20


# -- broker


def sessions(answers: Iterable[tuple[str, BrokerHistory]]) -> Iterator[RenderableType]:
    for number, (node, found) in enumerate(answers):
        if number:
            yield Text()
        yield Text(f"{node}\n", style="bold")
        yield table_of(
            [
                "from",
                "to",
                "lasted",
                "unseen",
                "cluster",
                "id",
                "address",
                "began",
                "ended because",
                "connections",
                "heartbeats",
                "median gap",
                "longest gap",
                "near misses",
            ],
            map(_session_row, found.sessions),
            right=["lasted", "unseen", "id", "connections", "heartbeats", "near misses"],
        )
        yield from _remarks("conflicts", found.conflicts)
        yield from _remarks("refused requests", found.refusals)


def _session_row(session: Session) -> tuple[object, ...]:
    beats = session.heartbeats
    origin = f" from {session.peer}" if session.peer else ""
    return (
        to_second(session.began_ms),
        None if session.ended_ms is None else to_second(session.ended_ms),
        span(session.lasted_ms),
        span(session.unseen_ms) if session.unseen_ms else None,
        session.cluster,
        session.broker_id,
        session.addr,
        f"{session.began}{origin}",
        session.ended or None,
        session.connections,
        beats.count,
        None if beats.median_ms is None else span(beats.median_ms),
        None if beats.longest_ms is None else span(beats.longest_ms),
        Text(str(beats.near_misses), style="bold yellow" if beats.near_misses else ""),
    )


def _remarks(title: str, records: Sequence[Record]) -> Iterator[RenderableType]:
    if not records:
        return
    yield Text(f"\n{title}: {len(records)}", style="bold")
    for record in records[-_MOST_REMARKS:]:
        yield Text(f"{to_second(record.wall_ms)} {one_line(sentence(record.event))}")
    if len(records) > _MOST_REMARKS:
        yield Text(f"and {len(records) - _MOST_REMARKS} before")


def sessions_document(name: str, answers: Iterable[tuple[str, BrokerHistory]]) -> dict[str, Any]:
    return {
        "broker": name,
        "nodes": [
            {
                "node": node,
                "sessions": [_session_document(session) for session in found.sessions],
                "conflicts": [_remark_document(record) for record in found.conflicts],
                "refusals": [_remark_document(record) for record in found.refusals],
                "silences": [
                    {
                        "from": exact(silence.since_ms),
                        "to": exact(silence.until_ms),
                        "reason": silence.reason.value,
                        "records_lost": silence.lost,
                    }
                    for silence in found.silences
                ],
            }
            for node, found in answers
        ],
    }


def _session_document(session: Session) -> dict[str, Any]:
    beats = session.heartbeats
    return {
        "cluster": session.cluster,
        "broker_id": session.broker_id,
        "address": session.addr,
        "from": exact(session.began_ms),
        "to": None if session.ended_ms is None else exact(session.ended_ms),
        "lasted_ms": session.lasted_ms,
        "unseen_ms": session.unseen_ms,
        "began": session.began,
        "peer": session.peer or None,
        "cause": session.ended_cause.value if session.ended_cause else None,
        "ended": session.ended or None,
        "connections": session.connections,
        "timeout_ms": session.timeout_ms,
        "heartbeats": {
            "count": beats.count,
            "median_gap_ms": beats.median_ms,
            "longest_gap_ms": beats.longest_ms,
            "near_misses": beats.near_misses,
        },
    }


def _remark_document(record: Record) -> dict[str, Any]:
    return {
        "at": exact(record.wall_ms),
        "seq": record.seq,
        "peer": record.event.peer or None,
        "text": sentence(record.event),
    }


# -- explain


def explanation(lines: Sequence[Line]) -> RenderableType:
    return "\n".join(map(one_line, as_text(lines)))


def explanation_document(name: str, kind: str, lines: Iterable[Line]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "lines": [
            {"at": exact(line.wall_ms), "seq": line.seq, "node": line.node, "text": line.text}
            for line in lines
        ],
    }


# -- compare


def comparison(answer: ComparisonAnswer) -> Iterator[RenderableType]:
    yield Text(
        f"{' and '.join(answer.nodes)} from {to_second(answer.from_ms)} to"
        f" {to_second(answer.to_ms)}",
        style="bold",
    )
    for node, skew in answer.skews.items():
        yield Text(f"clock of {node}: {_skew(skew, answer.nodes[0])}")
    found = answer.comparison
    if found.short:
        lines = counted(found.short, "difference")
        yield Text(f"{lines} shorter than {span(found.uncertainty_ms)} not shown")
    yield Text()
    if not found.divergences:
        yield Text("the nodes agreed")
        return
    yield table_of(
        ["broker", "from", "to", "lasted", "about", *answer.nodes, "ended"],
        (row for _, same in _by_broker(found.divergences) for row in _rows(same, answer.nodes)),
        right=["lasted"],
    )


def _by_broker(
    divergences: Iterable[Divergence],
) -> Iterator[tuple[tuple[str, str], list[Divergence]]]:
    for key, same in groupby(divergences, key=lambda d: (d.cluster, d.broker)):
        yield key, list(same)


def _rows(same: Sequence[Divergence], nodes: Sequence[str]) -> Iterator[tuple[object, ...]]:
    for number, divergence in enumerate(same):
        still = divergence.ending is Ending.OPEN
        yield (
            "" if number else divergence.broker,
            to_second(divergence.since_ms),
            None if still else to_second(divergence.until_ms),
            span(divergence.lasted_ms),
            _about(divergence),
            *(_claim(divergence.views, node) for node in nodes),
            divergence.ending.value,
        )


def _about(divergence: Divergence) -> str:
    topics = divergence.topics
    if not topics:
        return "the broker"
    return word(topics[0] if len(topics) == 1 else f"{len(topics)} topics ({listed(topics)})")


def _claim(views: Mapping[str, Claim], node: str) -> str:
    if node not in views:
        return "not known"
    claim = views[node]
    if isinstance(claim, BrokerClaim):
        return f"{members(dict(claim.addrs))}, {counted(claim.topics, 'topic')}"
    return short_queues(claim)


def _skew(skew: Skew, first: str) -> str:
    if not skew.samples:
        return (
            f"not known, no registration was seen by it and {first}; taken to be right within"
            f" {span(skew.uncertainty_ms)}"
        )
    ahead = "ahead of" if (skew.offset_ms or 0) >= 0 else "behind"
    return (
        f"{span(abs(skew.offset_ms or 0))} {ahead} that of {first}, give or take"
        f" {span(skew.uncertainty_ms)} ({counted(skew.samples, 'registration')} seen by both)"
    )


def comparison_document(answer: ComparisonAnswer) -> dict[str, Any]:
    found = answer.comparison
    return {
        "nodes": list(answer.nodes),
        "from": exact(answer.from_ms),
        "to": exact(answer.to_ms),
        "clocks": [
            {
                "node": node,
                "offset_ms": skew.offset_ms,
                "uncertainty_ms": skew.uncertainty_ms,
                "samples": skew.samples,
            }
            for node, skew in answer.skews.items()
        ],
        "not_significant": found.short,
        "brokers": [
            {
                "cluster": cluster,
                "broker": broker,
                "divergences": [_divergence_document(divergence) for divergence in same],
            }
            for (cluster, broker), same in _by_broker(found.divergences)
        ],
    }


def _divergence_document(divergence: Divergence) -> dict[str, Any]:
    return {
        "from": exact(divergence.since_ms),
        "to": None if divergence.ending is Ending.OPEN else exact(divergence.until_ms),
        "lasted_ms": divergence.lasted_ms,
        "ended": divergence.ending.value,
        "topics": len(divergence.topics),
        "examples": list(divergence.topics[:EXAMPLES]),
        "views": {node: _claim_document(claim) for node, claim in divergence.views.items()},
    }


def _claim_document(claim: Claim) -> dict[str, Any] | None:
    if claim is None:
        return None
    if isinstance(claim, BrokerClaim):
        return {"addresses": {str(i): a for i, a in claim.addrs}, "topics": claim.topics}
    read, write, perm, flags = claim
    return {"read": read, "write": write, "perm": perm, "sys_flag": flags}
