"""What is told of sessions, of explanations, and of nodes that disagreed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from routebook.documents.columns import Column, Kind, Styled, documents_of
from routebook.documents.history.routes import Origin, origins_document
from routebook.history.comparing.comparison import ComparisonAnswer
from routebook.history.comparing.divergences import BrokerClaim, Claim, Divergence, Ending
from routebook.history.telling.explain import Line
from routebook.history.telling.sentences import sentence
from routebook.history.telling.sessions import BrokerHistory, Session
from routebook.history.telling.silences import silence_sentence
from routebook.history.telling.words import members, short_queues
from routebook.journal.record import Record
from routebook.plain import word
from routebook.words import EXAMPLES, counted, exact, listed, span

# -- broker


def _began(session: Session) -> str:
    return f"{session.began} from {session.peer}" if session.peer else session.began


SESSIONS = (
    Column[Session]("from", "from", lambda session: session.began_ms, kind=Kind.MOMENT),
    Column[Session]("to", "to", lambda session: session.ended_ms, kind=Kind.MOMENT, drop=6),
    Column[Session]("lasted_ms", "lasted", lambda session: session.lasted_ms, span, Kind.NUMBER),
    Column[Session](
        "unseen_ms",
        "unseen",
        lambda session: session.unseen_ms,
        shown=lambda unseen_ms: span(unseen_ms) if unseen_ms else None,
        kind=Kind.NUMBER,
        drop=5,
    ),
    Column[Session]("cluster", "cluster", lambda session: session.cluster, drop=3),
    Column[Session]("broker_id", "id", lambda session: session.broker_id, kind=Kind.NUMBER),
    Column[Session]("address", "address", lambda session: session.addr),
    Column[Session]("began", None, lambda session: session.began),
    Column[Session]("peer", None, lambda session: session.peer or None),
    Column[Session](None, "began", _began, kind=Kind.PROSE, drop=4),
    Column[Session](
        "cause", None, lambda session: session.ended_cause.value if session.ended_cause else None
    ),
    Column[Session](
        "ended", "ended because", lambda session: session.ended or None, kind=Kind.PROSE
    ),
    Column[Session](
        "connections", "connections", lambda session: session.connections, kind=Kind.NUMBER, drop=1
    ),
    Column[Session]("timeout_ms", None, lambda session: session.timeout_ms),
    Column[Session](
        "heartbeats.count",
        "heartbeats",
        lambda session: session.heartbeats.count,
        kind=Kind.NUMBER,
        drop=1,
    ),
    Column[Session](
        "heartbeats.median_gap_ms",
        "median gap",
        lambda session: session.heartbeats.median_ms,
        shown=span,
        drop=2,
    ),
    Column[Session](
        "heartbeats.longest_gap_ms",
        "longest gap",
        lambda session: session.heartbeats.longest_ms,
        shown=span,
        drop=7,
    ),
    Column[Session](
        "heartbeats.near_misses",
        "near misses",
        lambda session: session.heartbeats.near_misses,
        shown=lambda number: Styled(str(number), "bold yellow" if number else ""),
        kind=Kind.NUMBER,
        drop=8,
    ),
)


def sessions_document(
    name: str, answers: Iterable[tuple[str, BrokerHistory]], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "broker": name,
        "sources": origins_document(origins),
        "nodes": [
            {
                "node": node,
                "sessions": documents_of(SESSIONS, found.sessions),
                "conflicts": [_remark_document(record) for record in found.conflicts],
                "refusals": [_remark_document(record) for record in found.refusals],
                "silences": [
                    {
                        "from": exact(silence.since_ms),
                        "to": exact(silence.until_ms),
                        "reason": silence.reason.value,
                        "records_lost": silence.lost,
                        "text": silence_sentence(silence),
                    }
                    for silence in found.silences
                ],
            }
            for node, found in answers
        ],
    }


def _remark_document(record: Record) -> dict[str, Any]:
    return {
        "at": exact(record.wall_ms),
        "seq": record.seq,
        "peer": record.event.peer or None,
        "text": sentence(record.event),
    }


# -- explain


def explanation_document(
    name: str, kind: str, lines: Iterable[Line], origins: Sequence[Origin]
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "sources": origins_document(origins),
        "partial": any(origin.partial for origin in origins),
        "lines": [
            {"at": exact(line.wall_ms), "seq": line.seq, "node": line.node, "text": line.text}
            for line in lines
        ],
    }


# -- compare


def _by_broker(
    divergences: Iterable[Divergence],
) -> Iterator[tuple[tuple[str, str], list[Divergence]]]:
    for key, same in groupby(divergences, key=lambda d: (d.cluster, d.broker)):
        yield key, list(same)


def divergence_columns(nodes: Sequence[str]) -> Sequence[Column[Divergence]]:
    def claim(node: str) -> Column[Divergence]:
        return Column(
            None, node, lambda divergence: _claim(divergence.views, node), kind=Kind.PROSE
        )

    return (
        Column(None, "broker", lambda divergence: divergence.broker),
        Column("from", "from", lambda divergence: divergence.since_ms, kind=Kind.MOMENT),
        Column("to", "to", _ended_ms, kind=Kind.MOMENT, drop=1),
        Column("lasted_ms", "lasted", lambda divergence: divergence.lasted_ms, span, Kind.NUMBER),
        Column(None, "about", _about, kind=Kind.PROSE),
        *map(claim, nodes),
        Column("ended", "ended", lambda divergence: divergence.ending.value, kind=Kind.PROSE),
        Column("topics", None, lambda divergence: len(divergence.topics)),
        Column("examples", None, lambda divergence: list(divergence.topics[:EXAMPLES])),
        Column(
            "views",
            None,
            lambda divergence: {
                node: _claim_document(said) for node, said in divergence.views.items()
            },
        ),
    )


def _ended_ms(divergence: Divergence) -> int | None:
    return None if divergence.ending is Ending.OPEN else divergence.until_ms


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


def comparison_document(answer: ComparisonAnswer, origins: Iterable[Origin]) -> dict[str, Any]:
    found = answer.comparison
    return {
        "nodes": list(answer.nodes),
        "sources": origins_document(origins),
        "partial": bool(answer.partial),
        "from": exact(answer.from_ms),
        "to": exact(answer.to_ms),
        "clocks": [
            {
                "node": clock.node,
                "from": exact(clock.from_ms),
                "to": exact(clock.to_ms),
                "offset_ms": clock.skew.offset_ms,
                "uncertainty_ms": clock.skew.uncertainty_ms if clock.skew.known else None,
                "samples": clock.skew.samples,
                "agreeing": clock.skew.agreeing,
                "assumed": clock.skew.assumed,
                "asked": clock.skew.asked,
            }
            for clock in answer.clocks
        ],
        "unknown": [
            {
                "node": node,
                "from": exact(max(each.since_ms, answer.from_ms)),
                "to": exact(min(each.until_ms, answer.to_ms)),
                "reason": each.silence.reason.value if each.silence else "clock not known",
            }
            for node, blind in answer.blind.items()
            for each in blind
        ],
        "compared_ms": found.compared_ms,
        "not_significant": found.short,
        "brokers": [
            {
                "cluster": cluster,
                "broker": broker,
                "divergences": documents_of(divergence_columns(answer.nodes), same),
            }
            for (cluster, broker), same in _by_broker(found.divergences)
        ],
    }


def _claim_document(claim: Claim) -> dict[str, Any] | None:
    if claim is None:
        return None
    if isinstance(claim, BrokerClaim):
        return {"addresses": {str(i): a for i, a in claim.addrs}, "topics": claim.topics}
    read, write, perm, flags = claim
    return {"read": read, "write": write, "perm": perm, "sys_flag": flags}
