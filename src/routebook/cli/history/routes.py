"""What ``routebook history`` shows of routes: at a moment, between two, and all there were."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from routebook.cli.columns import table_of
from routebook.documents.history.routes import (
    CHANGES,
    MEMBERS,
    VERSIONS,
    Holder,
    absence,
    groups_of,
    mappings_of,
    queues_of,
)
from routebook.documents.routes import MAPPINGS, QUEUES
from routebook.history.questions import ChangesAnswer, RouteAnswer
from routebook.history.telling.versions import Told, Version
from routebook.history.times import Moment
from routebook.plain import one_line, word
from routebook.words import counted, listed, to_second

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
    Told.STALLED: "what it believed",
}


def _tables(topic: str, answer: RouteAnswer, shown: Version) -> Iterator[RenderableType]:
    view = answer.followed.view
    yield table_of(
        MEMBERS,
        (
            Holder(part, group, *member)
            for part, group in groups_of(view, shown.parts)
            for member in part.addrs
        ),
    )
    yield Text()
    yield table_of(QUEUES, queues_of(shown.parts))
    if mappings := mappings_of(view, topic):
        yield Text()
        yield table_of(MAPPINGS, mappings)


_PARTIAL = (
    "What was before the journal begins is not known: brokers that did not register since are"
    " missing."
)


def _since(origin: Version, answer: RouteAnswer) -> str:
    if origin.record is None:
        return f"So at least since the journal begins, at {to_second(answer.begins_ms)}."
    changes = f": {listed(origin.changes)}" if origin.changes else ""
    return f"So since {to_second(origin.from_ms)} (record {origin.from_seq}){changes}."


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
            yield table_of(CHANGES, found.brokers)
        for what, topics in (("came", found.came), ("went", found.went)):
            if topics:
                names = word(listed(topics))
                yield Text(f"\n{counted(len(topics), 'topic')} {what}: {names}")
        if answer.partial:
            yield Text(_PARTIAL, style="yellow")


# -- topic


def versions(answers: Iterable[tuple[str, Sequence[Version]]]) -> Iterator[RenderableType]:
    for number, (node, found) in enumerate(answers):
        if number:
            yield Text()
        yield Text(f"{node}\n", style="bold")
        yield table_of(VERSIONS, found)
