"""What is told of routes in the past: at a moment, between two, and all there were."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from routebook.client import TopicQueues
from routebook.documents.columns import Column, Kind, Styled, document_of, documents_of
from routebook.documents.routes import QUEUES, StaticQueues, mappings_document, role
from routebook.history.finding.journals import Journal
from routebook.history.finding.witness import Silence
from routebook.history.questions import ChangesAnswer, RouteAnswer
from routebook.history.telling.changes import BrokerChange, Changes
from routebook.history.telling.sentences import Context, sentence
from routebook.history.telling.silences import silence_sentence
from routebook.history.telling.versions import Part, Told, Version
from routebook.history.telling.words import short_queues
from routebook.history.times import Moment
from routebook.journal.groups import GroupView
from routebook.journal.view import View
from routebook.plain import word
from routebook.words import EXAMPLES, counted, exact, listed, span, to_second


def time_told(journals: Sequence[Journal]) -> str:
    """Of which time the journals tell."""
    return "; ".join(
        f"{j.node} between {exact(j.first.wall_ms)} and {exact(j.last.wall_ms)}" for j in journals
    )


@dataclass(frozen=True, slots=True)
class Origin:
    """Who is answering, from where, and why what was before is not known, if it is not."""

    node: str
    source: str
    partial: str


def origins_document(origins: Iterable[Origin]) -> list[dict[str, Any]]:
    return [
        {"node": each.node, "source": each.source, "partial": each.partial or None}
        for each in origins
    ]


# -- route


def groups_of(view: View, parts: Iterable[Part]) -> Iterator[tuple[Part, GroupView | None]]:
    """Parts of a route, each with its group, where the node still had it at the end."""
    for part in parts:
        yield part, view.groups.find(*part.name)


def _unconfirmed(group: GroupView | None) -> list[str]:
    return (
        sorted(m.known.addr for m in group.members.values() if not m.known.confirmed)
        if group
        else []
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """A broker of a route that was, with its group where the node still had it at the end."""

    part: Part
    group: GroupView | None
    broker_id: int | None = None
    address: str | None = None


MEMBERS = (
    Column[Holder]("cluster", "cluster", lambda holder: holder.part.cluster, drop=3),
    Column[Holder]("broker", "broker", lambda holder: holder.part.broker),
    Column[Holder]("addresses", None, lambda holder: _addresses(holder.part)),
    Column[Holder](None, "id", lambda holder: holder.broker_id, kind=Kind.NUMBER),
    Column[Holder](None, "role", lambda holder: holder.broker_id, shown=role, drop=1),
    Column[Holder](None, "address", lambda holder: holder.address),
    Column[Holder](
        "acting_master", None, lambda holder: holder.group.acting_master if holder.group else None
    ),
    Column[Holder](
        "zone", "zone", lambda holder: holder.group.zone if holder.group else None, drop=4
    ),
    Column[Holder]("unconfirmed", None, lambda holder: _unconfirmed(holder.group)),
    Column[Holder](
        None,
        "confirmed",
        lambda holder: (
            Styled("no", "bold yellow") if holder.address in _unconfirmed(holder.group) else "yes"
        ),
    ),
)
"""JSON has one object for each group, a table one line for each member."""


def _addresses(part: Part) -> dict[str, str]:
    return {str(broker_id): addr for broker_id, addr in part.addrs}


def queues_of(parts: Iterable[Part]) -> list[TopicQueues]:
    return [TopicQueues(part.broker, *part.queues) for part in parts]


def mappings_of(view: View, topic: str) -> list[StaticQueues]:
    return [
        StaticQueues(m.bname, m.scope, m.total_queues, m.epoch, dict(m.curr_id_map))
        for m in sorted(view.static_mappings(topic), key=lambda mapping: mapping.bname)
    ]


def absence(topic: str, answer: RouteAnswer) -> str:
    """Why there was no route, or why it is not known whether there was."""
    last, origin = answer.followed.last, answer.followed.origin
    if answer.silence is not None and answer.told in (Told.UNKNOWN, Told.STALLED):
        return _doubt(answer, answer.silence)
    if last is None or origin is None or last.told is Told.UNKNOWN:
        if answer.partial:
            begins = to_second(answer.begins_ms)
            return f"not known for sure, what was before the first record, at {begins}, is missing"
        since = answer.begins_ms if last is None else last.from_ms
        return f"not known, records since {to_second(since)} are missing"
    if last.told is Told.NOTHING:
        return f"the node was down, since {to_second(last.from_ms)}"
    if origin.record is None:
        begins = to_second(answer.begins_ms)
        return f"no route, it was never seen since the journal begins, at {begins}"
    why = sentence(origin.record.event, Context(topic=topic)).rstrip(".")
    return f"no route since {to_second(origin.from_ms)} (record {origin.from_seq}): {why}"


_GUESSES = {
    Told.ROUTE: "probably the route it had",
    Told.NONE: "probably that there is no route",
    Told.NOTHING: "probably nothing",
}


def _doubt(answer: RouteAnswer, silence: Silence) -> str:
    why = silence_sentence(silence).rstrip(".")
    if answer.told is Told.STALLED:
        much = "hardly anything" if silence.broken else "nothing"
        return f"{much} was told to anybody, {why}"
    guess = _GUESSES[answer.probably] if answer.probably else "not known"
    return f"{guess}, because {why}" if answer.probably else f"{guess}, {why}"


def routes_document(
    topic: str, moment: Moment, answers: Iterable[RouteAnswer], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "at": str(moment),
        "sources": origins_document(origins),
        "nodes": [_route_document(topic, answer) for answer in answers],
    }


def _route_document(topic: str, answer: RouteAnswer) -> dict[str, Any]:
    """``believed``: the brokers are those the node believed in, not those it told of."""
    origin, silence = answer.followed.origin, answer.silence
    view = answer.followed.view
    parts = answer.shown.parts if answer.shown else ()
    told = answer.told
    return {
        "node": answer.node,
        "told": told.value,
        "probably": answer.probably.value if answer.probably else None,
        "because": silence_sentence(silence) if silence else None,
        "believed": bool(parts) and told is not Told.ROUTE,
        "since": exact(origin.from_ms) if origin and answer.followed.since_known else None,
        "since_seq": origin.from_seq if origin and origin.record else None,
        "why": None if told is Told.ROUTE else absence(topic, answer),
        "partial": answer.partial,
        "brokers": documents_of(MEMBERS, (Holder(*found) for found in groups_of(view, parts))),
        "queues": documents_of(QUEUES, queues_of(parts)),
        "mappings": mappings_document(mappings_of(view, topic)),
    }


# -- diff


def _what(change: BrokerChange) -> str:
    return "\n".join(
        f"{alike.what}: {counted(len(alike.topics), 'topic')} ({word(listed(alike.topics))})"
        for alike in change.queues
    )


CHANGES = (
    Column[BrokerChange]("cluster", "cluster", lambda change: change.cluster, drop=1),
    Column[BrokerChange]("broker", "broker", lambda change: change.broker),
    Column[BrokerChange]("change", "change", lambda change: change.change.value),
    Column[BrokerChange](
        "details", "members", lambda change: list(change.details), "\n".join, Kind.PROSE
    ),
    Column[BrokerChange]("topics", "topics", lambda change: change.topics, kind=Kind.NUMBER),
    Column[BrokerChange](None, "what", _what, kind=Kind.PROSE),
    Column[BrokerChange](
        "queues",
        None,
        lambda change: [
            {
                "what": alike.what,
                "topics": len(alike.topics),
                "examples": list(alike.topics[:EXAMPLES]),
            }
            for alike in change.queues
        ],
    ),
)


def changes_document(
    begin: Moment, end: Moment, answers: Iterable[ChangesAnswer], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "from": str(begin),
        "to": str(end),
        "sources": origins_document(origins),
        "nodes": [
            {
                "node": answer.node,
                "known": answer.changes is not None,
                "doubts": list(answer.doubts),
                "partial": answer.partial,
                **_changes_document(answer.changes),
            }
            for answer in answers
        ],
    }


def _changes_document(changes: Changes | None) -> dict[str, Any]:
    return {
        "brokers": documents_of(CHANGES, changes.brokers if changes else ()),
        "topics_came": list(changes.came) if changes else [],
        "topics_went": list(changes.went) if changes else [],
    }


# -- topic


_TOLD = {
    Told.NONE: "no route",
    Told.NOTHING: "node down",
    Told.STALLED: "nobody was answered",
    Told.UNKNOWN: "not known",
}


def _queues(version: Version) -> str:
    if not version.parts:
        if version.silence is not None and version.silence.broken:
            return "hardly anybody was answered"
        return _TOLD[version.told]
    sure = "" if version.told is Told.ROUTE else "at least "
    shapes = {short_queues(part.queues) for part in version.parts}
    if len(shapes) == 1:
        return f"{sure}{shapes.pop()}"
    each = [f"{part.broker} {short_queues(part.queues)}" for part in version.parts]
    return f"{sure}{word(listed(each))}"


def _lasted_ms(version: Version) -> int | None:
    return None if version.to_ms is None else max(0, version.to_ms - version.from_ms)


VERSIONS = (
    Column[Version]("valid_from", "from", lambda version: version.from_ms, kind=Kind.MOMENT),
    Column[Version]("valid_to", "to", lambda version: version.to_ms, kind=Kind.MOMENT, drop=1),
    Column[Version](None, "lasted", _lasted_ms, shown=span, kind=Kind.NUMBER),
    Column[Version]("seq", None, lambda version: version.from_seq),
    Column[Version]("told", None, lambda version: version.told.value),
    Column[Version](
        "brokers",
        "brokers",
        lambda version: [
            {**document_of(QUEUES, TopicQueues(part.broker, *part.queues)), **_place(part)}
            for part in version.parts
        ],
        shown=lambda parts: word(listed([part["broker"] for part in parts])) or None,
        kind=Kind.PROSE,
    ),
    Column[Version](None, "queues", _queues, kind=Kind.PROSE),
    Column[Version](
        "changes",
        "what changed",
        lambda version: list(version.changes),
        shown=lambda changes: word(listed(changes)),
        kind=Kind.PROSE,
    ),
    Column[Version](
        "cause", "cause", lambda version: version.cause.value if version.cause else None, drop=3
    ),
    Column[Version]("peer", "peer", lambda version: version.peer or None, drop=2),
    Column[Version](
        "because",
        None,
        lambda version: silence_sentence(version.silence) if version.silence else None,
    ),
)


def _place(part: Part) -> dict[str, Any]:
    return {"cluster": part.cluster, "addresses": _addresses(part)}


def versions_document(
    topic: str, answers: Iterable[tuple[str, Sequence[Version]]], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "sources": origins_document(origins),
        "nodes": [
            {"node": node, "versions": documents_of(VERSIONS, found)} for node, found in answers
        ],
    }
