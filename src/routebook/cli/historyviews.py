"""What ``routebook history`` shows of routes: at a moment, between two, and all there were."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from routebook.cli.output import table_of
from routebook.cli.plain import one_line, word
from routebook.history.changes import BrokerChange, Changes
from routebook.history.journals import Journal
from routebook.history.questions import ChangesAnswer, RouteAnswer
from routebook.history.sentences import Context, sentence, silence_sentence
from routebook.history.times import Moment
from routebook.history.versions import Part, Told, Version
from routebook.history.witness import Silence
from routebook.history.words import MASTER, short_queues
from routebook.journal.groups import GroupView
from routebook.journal.view import View
from routebook.words import EXAMPLES, counted, exact, listed, permission, span, to_second


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


def routes(topic: str, moment: Moment, answers: Iterable[RouteAnswer]) -> Iterator[RenderableType]:
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        yield from _route(topic, moment, answer)


def _route(topic: str, moment: Moment, answer: RouteAnswer) -> Iterator[RenderableType]:
    title = f"{word(topic)} at {answer.node}, {moment}"
    shown, origin = answer.shown, answer.followed.origin
    if shown is None or origin is None or not shown.parts:
        yield Text(f"{title}: {one_line(absence(topic, answer))}", style="bold red")
        return
    if answer.told is Told.ROUTE:
        yield Text(f"{title}\n", style="bold")
    else:
        told = one_line(absence(topic, answer))
        lead_in = _LEAD_IN.get(answer.probably or answer.told, "what was told before")
        if answer.partial:
            lead_in = "what is known of it, and there may be more"
        yield Text(f"{title}: {told}\n\n{lead_in}:\n", style="bold yellow")
    yield from _tables(topic, answer, shown)
    if answer.told is Told.ROUTE:
        yield Text(f"\n{one_line(_since(origin, answer))}")
    if answer.partial:
        yield Text(_PARTIAL, style="yellow")


_LEAD_IN = {
    Told.ROUTE: "what was told before, and probably still then",
    Told.STALLED: "what it believed, and told nobody",
}


def _groups(view: View, parts: Iterable[Part]) -> Iterator[tuple[Part, GroupView | None]]:
    """Parts of a route, each with its group, where the node still had it at the end."""
    for part in parts:
        yield part, view.groups.find(*part.name)


def _unconfirmed(group: GroupView | None) -> list[str]:
    return sorted(m.addr for m in group.members.values() if not m.confirmed) if group else []


def _tables(topic: str, answer: RouteAnswer, shown: Version) -> Iterator[RenderableType]:
    view = answer.followed.view
    yield table_of(
        ["cluster", "broker", "id", "role", "address", "zone", "confirmed"],
        (
            (
                part.cluster,
                part.broker,
                broker_id,
                "master" if broker_id == MASTER else "slave",
                addr,
                group.zone if group else None,
                Text("no", style="bold yellow") if addr in _unconfirmed(group) else "yes",
            )
            for part, group in _groups(view, shown.parts)
            for broker_id, addr in part.addrs
        ),
        right=["id"],
    )
    yield Text()
    yield table_of(
        ["broker", "read", "write", "permission"],
        ((p.broker, p.queues[0], p.queues[1], permission(p.queues[2])) for p in shown.parts),
        right=["read", "write"],
    )
    mappings = view.static_mappings(topic)
    if mappings:
        yield Text()
        yield table_of(
            ["broker", "scope", "queues in all", "epoch", "logical queues here"],
            (
                (
                    m.bname,
                    m.scope,
                    m.total_queues,
                    m.epoch,
                    " ".join(f"{i}" for i, _ in m.curr_id_map),
                )
                for m in sorted(mappings, key=lambda mapping: mapping.bname)
            ),
            right=["queues in all", "epoch"],
        )


_PARTIAL = (
    "What was before the journal begins is not known: brokers that did not register since are"
    " missing."
)


def _since(origin: Version, answer: RouteAnswer) -> str:
    if origin.record is None:
        return f"So at least since the journal begins, at {to_second(answer.begins_ms)}."
    changes = f": {listed(origin.changes)}" if origin.changes else ""
    return f"So since {to_second(origin.from_ms)} (record {origin.from_seq}){changes}."


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
        return f"nothing was told to anybody, {why}"
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
        "brokers": [
            {
                "cluster": part.cluster,
                "broker": part.broker,
                "addresses": {str(broker_id): addr for broker_id, addr in part.addrs},
                "acting_master": group.acting_master if group else None,
                "zone": group.zone if group else None,
                "unconfirmed": _unconfirmed(group),
            }
            for part, group in _groups(view, parts)
        ],
        "queues": [{"broker": part.broker, **_shape(part.queues)} for part in parts],
        "mappings": {
            mapping.bname: {
                "scope": mapping.scope,
                "total_queues": mapping.total_queues,
                "epoch": mapping.epoch,
                "queues": {str(logical): queue for logical, queue in mapping.curr_id_map},
            }
            for mapping in view.static_mappings(topic)
        },
    }


def _shape(queues: tuple[int, int, int, int]) -> dict[str, Any]:
    read, write, perm, flags = queues
    return {
        "read": read,
        "write": write,
        "perm": perm,
        "permission": permission(perm),
        "sys_flag": flags,
    }


# -- diff


def changes(
    begin: Moment, end: Moment, answers: Iterable[ChangesAnswer]
) -> Iterator[RenderableType]:
    for number, answer in enumerate(answers):
        if number:
            yield Text()
        yield Text(f"{answer.node}, from {begin} to {end}\n", style="bold")
        for doubt in answer.doubts:
            yield Text(one_line(doubt), style="yellow")
        found = answer.changes
        if found is None:
            yield Text(
                "not known: records are missing, and the node did not state its tables since",
                style="bold yellow",
            )
            continue
        if not found:
            yield Text("no difference")
        if found.brokers:
            yield table_of(
                ["cluster", "broker", "change", "members", "topics", "what"],
                map(_change_row, found.brokers),
                right=["topics"],
            )
        for what, topics in (("came", found.came), ("went", found.went)):
            if topics:
                names = word(listed(topics))
                yield Text(f"\n{counted(len(topics), 'topic')} {what}: {names}")
        if answer.partial:
            yield Text(_PARTIAL, style="yellow")


def _change_row(change: BrokerChange) -> tuple[object, ...]:
    what = "\n".join(
        f"{alike.what}: {counted(len(alike.topics), 'topic')} ({word(listed(alike.topics))})"
        for alike in change.queues
    )
    details = "\n".join(change.details)
    return change.cluster, change.broker, change.change.value, details, change.topics, what


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
        "brokers": [
            {
                "cluster": change.cluster,
                "broker": change.broker,
                "change": change.change.value,
                "details": list(change.details),
                "topics": change.topics,
                "queues": [
                    {
                        "what": alike.what,
                        "topics": len(alike.topics),
                        "examples": list(alike.topics[:EXAMPLES]),
                    }
                    for alike in change.queues
                ],
            }
            for change in (changes.brokers if changes else ())
        ],
        "topics_came": list(changes.came) if changes else [],
        "topics_went": list(changes.went) if changes else [],
    }


# -- topic


def versions(answers: Iterable[tuple[str, Sequence[Version]]]) -> Iterator[RenderableType]:
    for number, (node, found) in enumerate(answers):
        if number:
            yield Text()
        yield Text(f"{node}\n", style="bold")
        yield table_of(
            ["from", "to", "lasted", "brokers", "queues", "what changed", "cause", "peer"],
            map(_version_row, found),
            right=["lasted"],
        )


def _version_row(version: Version) -> tuple[object, ...]:
    to_ms = version.to_ms
    return (
        to_second(version.from_ms),
        None if to_ms is None else to_second(to_ms),
        None if to_ms is None else span(max(0, to_ms - version.from_ms)),
        word(listed([part.broker for part in version.parts])) or None,
        _queues(version),
        word(listed(version.changes)),
        version.cause.value if version.cause else None,
        version.peer or None,
    )


_TOLD = {
    Told.NONE: "no route",
    Told.NOTHING: "node down",
    Told.STALLED: "nobody was answered",
    Told.UNKNOWN: "not known",
}


def _queues(version: Version) -> str:
    if not version.parts:
        return _TOLD[version.told]
    sure = "" if version.told is Told.ROUTE else "at least "
    shapes = {short_queues(part.queues) for part in version.parts}
    if len(shapes) == 1:
        return f"{sure}{shapes.pop()}"
    each = [f"{part.broker} {short_queues(part.queues)}" for part in version.parts]
    return f"{sure}{word(listed(each))}"


def versions_document(
    topic: str, answers: Iterable[tuple[str, Sequence[Version]]], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "sources": origins_document(origins),
        "nodes": [
            {"node": node, "versions": [_version_document(version) for version in found]}
            for node, found in answers
        ],
    }


def _version_document(version: Version) -> dict[str, Any]:
    return {
        "valid_from": exact(version.from_ms),
        "valid_to": None if version.to_ms is None else exact(version.to_ms),
        "seq": version.from_seq,
        "told": version.told.value,
        "brokers": [
            {
                "cluster": part.cluster,
                "broker": part.broker,
                "addresses": {str(broker_id): addr for broker_id, addr in part.addrs},
                **_shape(part.queues),
            }
            for part in version.parts
        ],
        "changes": list(version.changes),
        "cause": version.cause.value if version.cause else None,
        "peer": version.peer or None,
        "because": silence_sentence(version.silence) if version.silence else None,
    }
