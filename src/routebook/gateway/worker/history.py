"""Questions about the past: the same answers as ``routebook history --json`` gives."""

from collections.abc import Callable
from time import time_ns
from typing import Any

from routebook.documents.history import counts, events, routes
from routebook.documents.history import window as windows
from routebook.documents.history.answering import Answering, broker_names
from routebook.gateway.api.failures import Failure
from routebook.gateway.api.pages import page_of
from routebook.gateway.worker.frames import Job
from routebook.gateway.worker.workplace import Told, Workplace
from routebook.history import questions
from routebook.history.comparing.comparison import comparison_of
from routebook.history.counts import demand_for, signs_of
from routebook.history.questions import period
from routebook.history.telling.explain import merged
from routebook.history.times import AtTime, Moment, parse
from routebook.history.window import TopicHeld, topics_held, window_of
from routebook.journal.view import View
from routebook.words import exact

Document = dict[str, Any]
Ask = Callable[[Job, Answering], Document]


def _question(ask: Ask) -> Callable[[Job, Workplace, Told], Document]:
    """``ask`` put to the journals of a job; its document with what troubled them."""

    def asked(job: Job, place: Workplace, told: Told) -> Document:
        with place.answering(job, told) as answering:
            document = ask(job, answering)
            return {**document, "troubles": answering.all_troubles()}

    return asked


def _moment(job: Job, name: str) -> Moment | None:
    text = job.parameters.get(name)
    return None if text is None else parse(text, now_ms=_now_ms())


def _moment_or_now(job: Job, name: str) -> Moment:
    return _moment(job, name) or AtTime(_now_ms())


def _now_ms() -> int:
    return time_ns() // 1_000_000


@_question
def span(job: Job, answering: Answering) -> Document:
    return {
        "sources": [
            {
                **document,
                "from": exact(journal.first.wall_ms),
                "to": exact(journal.last.wall_ms) if journal.stopped else None,
                "from_seq": journal.first.seq,
                "to_seq": journal.last.seq,
            }
            for journal, document in zip(
                answering.journals, routes.origins_document(answering.origins), strict=True
            )
        ]
    }


@_question
def route(job: Job, answering: Answering) -> Document:
    name, moment = job.parameters["topic"], _moment_or_now(job, "at")
    answers = answering.each(lambda journal: questions.route_at(journal, name, moment))
    return routes.routes_document(name, moment, answers, answering.origins)


@_question
def diff(job: Job, answering: Answering) -> Document:
    begin, end = _moment_or_now(job, "from"), _moment_or_now(job, "to")
    answers = answering.each(
        lambda journal: questions.changes_between(
            journal,
            begin,
            end,
            topic=job.parameters.get("topic"),
            broker=job.parameters.get("broker"),
        )
    )
    return routes.changes_document(begin, end, answers, answering.origins)


@_question
def topic(job: Job, answering: Answering) -> Document:
    name, begin, end = job.parameters["topic"], _moment(job, "from"), _moment(job, "to")
    answers = answering.each(
        lambda journal: (
            journal.node,
            questions.versions_of(journal, name, period(journal, begin, end)),
        )
    )
    if not any(version.parts for _, versions in answers for version in versions):
        raise answering.unknown(f"no route for {name}", name, View.topics)
    return routes.versions_document(name, answers, answering.origins)


@_question
def demand(job: Job, answering: Answering) -> Document:
    name, begin, end = job.parameters["topic"], _moment(job, "from"), _moment(job, "to")
    answers = answering.each(lambda journal: demand_for(journal, name, period(journal, begin, end)))
    return counts.demand_document(name, answers, answering.origins)


@_question
def broker(job: Job, answering: Answering) -> Document:
    name, begin, end = job.parameters["broker"], _moment(job, "from"), _moment(job, "to")
    answers = answering.each(
        lambda journal: (
            journal.node,
            questions.sessions_of(journal, name, period(journal, begin, end)),
        )
    )
    if not any(found.sessions or found.conflicts or found.refusals for _, found in answers):
        raise answering.unknown(f"no broker {name}", name, broker_names)
    return events.sessions_document(name, answers, answering.origins)


@_question
def heartbeats(job: Job, answering: Answering) -> Document:
    name, begin, end = job.parameters["broker"], _moment(job, "from"), _moment(job, "to")
    answers = answering.each(
        lambda journal: (journal.node, signs_of(journal, name, period(journal, begin, end)))
    )
    return counts.signs_document(name, answers, answering.origins)


@_question
def explain(job: Job, answering: Answering) -> Document:
    name, begin, end = job.parameters["name"], _moment(job, "from"), _moment(job, "to")
    answers = answering.each(
        lambda journal: questions.explanation(journal, name, period(journal, begin, end))
    )
    brokers = merged([answer.broker for answer in answers])
    of_topic = job.parameters["only_topic"] or not brokers
    lines = merged([answer.topic for answer in answers]) if of_topic else brokers
    if not lines:
        raise answering.unknown(
            f"nothing about {name}", name, lambda view: {*view.topics(), *broker_names(view)}
        )
    shown = lines[-job.parameters["limit"] :]
    document = events.explanation_document(
        name, "topic" if of_topic else "broker", shown, answering.origins
    )
    return {**document, "left_out": len(lines) - len(shown)}


@_question
def compare(job: Job, answering: Answering) -> Document:
    if len(answering.journals) < 2:
        said = "; ".join(answering.troubles) or "one node agrees with itself"
        raise Failure(404, "no_history", f"it takes the history of two nodes to compare: {said}")
    begin, end = _moment(job, "from"), _moment(job, "to")
    answer = comparison_of(
        answering.journals,
        topic=job.parameters.get("topic"),
        begin=begin if isinstance(begin, AtTime) else None,
        end=end if isinstance(end, AtTime) else None,
    )
    return events.comparison_document(answer, answering.origins)


@_question
def topics(job: Job, answering: Answering) -> Document:
    given = job.parameters
    name, moment = given["broker"], _moment_or_now(job, "at")
    part = (given.get("q") or "").casefold()
    held = answering.each(
        lambda journal: topics_held(
            journal, name, moment, wanted=lambda topic: part in topic.casefold()
        )
    )[0]
    wanted = [each for each in held.topics if given.get("cluster") in (None, each.cluster)]
    page = page_of(wanted, _held_key, limit=given["limit"], cursor=given.get("cursor"))
    return {
        **windows.topics_held_document(
            name, moment, held.node, answering.origins, known=held.known
        ),
        "total": page.total,
        "next": page.next,
        "topics": [windows.topic_held_document(each) for each in page.rows],
    }


def _held_key(held: TopicHeld) -> tuple[str, ...]:
    return held.cluster, held.topic


@_question
def window(job: Job, answering: Answering) -> Document:
    begin, end = _moment_or_now(job, "from"), _moment_or_now(job, "to")
    found = answering.each(lambda journal: window_of(journal, begin, end))[0]
    return windows.window_document(found, answering.origins, with_groups=job.parameters["topology"])
