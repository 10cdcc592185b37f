"""``routebook history``: questions about the past, answered from journals."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, time_ns
from typing import Any, TypeVar

import click
from rich.console import Group, RenderableType

from routebook.cli.errors import NO, Negative
from routebook.cli.history import events
from routebook.cli.history import routes as views
from routebook.cli.history.sources import sources
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, json_option, say, warn
from routebook.cli.progress import OnProgress, progress_shown
from routebook.documents.history import events as happenings
from routebook.documents.history import routes
from routebook.documents.history.answering import Answering, broker_names
from routebook.history import questions
from routebook.history.comparing.comparison import comparison_of
from routebook.history.finding.journals import Journal
from routebook.history.finding.recent import Source
from routebook.history.questions import period
from routebook.history.telling.explain import merged
from routebook.history.times import AtTime, BadTime, Moment, parse
from routebook.journal.errors import JournalError
from routebook.journal.view import View

Found = TypeVar("Found")

SHOW_PROGRESS_AFTER_S = 1.0
LINES = 50


def _moment(ctx: click.Context, param: click.Parameter, given: str | None) -> Moment | None:
    if given is None:
        return None
    try:
        return parse(given, now_ms=time_ns() // 1_000_000)
    except BadTime as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _moment_option(
    flag: str, name: str, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(flag, name, callback=_moment, metavar="TIME", **more)


class _Answering(Answering):
    """What keeps all journals from answering ends the command."""

    def __init__(self, asked: Sequence[Source], told: OnProgress) -> None:
        try:
            super().__init__(asked, told)
        except JournalError as error:
            raise Negative(str(error)) from error

    def each(self, ask: Callable[[Journal], Found]) -> list[Found]:
        try:
            return super().each(ask)
        except JournalError as error:
            raise Negative(str(error)) from error

    def complain(self) -> None:
        """Say what is damaged; exit code 1 if anything is."""
        for trouble in (troubles := self.all_troubles()):
            warn(f"{trouble}")
        if troubles:
            raise click.exceptions.Exit(NO)


@contextmanager
def _answering(asked: Sequence[Source]) -> Iterator[_Answering]:
    """Shows how far the reading is, when it takes long."""
    began_s = monotonic()
    with progress_shown() as told:

        def told_later(stage: str, done: int, total: int) -> None:
            if monotonic() - began_s > SHOW_PROGRESS_AFTER_S:
                told(stage, done, total)

        yield _Answering(asked, told_later)


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --journal, -n and --json, as ``asked`` and ``output``."""

    @functools.wraps(command)
    def wrapped(asking: Asking, folders: tuple[Path, ...], as_json: bool, **others: Any) -> Any:
        context = click.get_current_context()
        namesrv_addr = context.params["namesrv_addr"]
        if namesrv_addr is not None and folders:
            raise click.UsageError("give --journal or -n, not both")
        downloads = context.with_resource(TemporaryDirectory(prefix="routebook-history-"))
        asked = sources(folders, namesrv_addr, asking, Path(downloads))
        return command(asked=asked, output=Output(as_json), **others)

    shown = asking_options(json_option(wrapped))
    return click.option(
        "--journal",
        "folders",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="DIR",
        help="A node's journal, or the folder it is in; once for each node. With -n, or else"
        " NAMESRV_ADDR, nodes are asked for their latest records instead. Without any: the journal"
        " of a node of yours.",
    )(shown)


def _period_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = _moment_option(
        "--to", "end", help="Up to this moment; default the end of the journal."
    )(command)
    return _moment_option("--from", "begin", help="From this moment; default the beginning.")(
        command
    )


def _show(output: Output, shown: RenderableType, data: Any) -> None:
    output.show(lambda: None, table=lambda _: shown, data=lambda _: data)


@click.group()
def history() -> None:
    """Ask journals what a node knew, when, and why.

    Moments are ISO times (2026-11-15T03:12:04Z; UTC without a zone), times of the last 24 hours
    (08:30), times before now (15m, 2h30m, 1d), sequence numbers of records (seq:1234) or "now".

    Exit code 1 when there is no answer, or when a journal is damaged.
    """


@history.command()
@click.argument("topic")
@_moment_option("--at", "moment", default="now", help="The moment; default now.")
@_common
def route(output: Output, asked: list[Source], topic: str, moment: Moment) -> None:
    """Show the route of TOPIC as clients were told it, node by node, and since when.

    Exit code 1 when there was none.
    """
    with _answering(asked) as answering:
        answers = answering.each(lambda journal: questions.route_at(journal, topic, moment))
    _show(
        output,
        Group(*views.routes(topic, moment, answers)),
        routes.routes_document(topic, moment, answers, answering.origins),
    )
    answering.complain()
    if not any(answer.shows_route for answer in answers):
        raise click.exceptions.Exit(NO)


@history.command()
@_moment_option("--from", "begin", required=True, help="The first moment.")
@_moment_option("--to", "end", default="now", help="The second one; default now.")
@click.option("--topic", help="Only what concerns this topic.")
@click.option("--broker", help="Only what concerns brokers of this name.")
@_common
def diff(
    output: Output,
    asked: list[Source],
    begin: Moment,
    end: Moment,
    topic: str | None,
    broker: str | None,
) -> None:
    """Show which brokers and topics came, went or changed between two moments."""
    with _answering(asked) as answering:
        answers = answering.each(
            lambda journal: questions.changes_between(
                journal, begin, end, topic=topic, broker=broker
            )
        )
    _show(
        output,
        Group(*views.changes(begin, end, answers)),
        routes.changes_document(begin, end, answers, answering.origins),
    )
    answering.complain()


@history.command(name="topic")
@click.argument("topic")
@_period_options
@_common
def topic_(
    output: Output, asked: list[Source], topic: str, begin: Moment | None, end: Moment | None
) -> None:
    """Show all versions of the route of TOPIC: from when to when, what changed, and why.

    Exit code 1 when no node ever had a route for it.
    """
    with _answering(asked) as answering:
        answers = answering.each(
            lambda journal: (
                journal.node,
                questions.versions_of(journal, topic, period(journal, begin, end)),
            )
        )
    if not any(v.parts for _, versions in answers for v in versions):
        raise Negative(str(answering.unknown(f"no route for {topic}", topic, View.topics)))
    _show(
        output,
        Group(*views.versions(answers)),
        routes.versions_document(topic, answers, answering.origins),
    )
    answering.complain()


@history.command()
@click.argument("name")
@_period_options
@_common
def broker(
    output: Output, asked: list[Source], name: str, begin: Moment | None, end: Moment | None
) -> None:
    """Show the sessions of the brokers called NAME: how long, how regular, why they ended.

    Conflicts and refused requests too. Exit code 1 when no node ever knew one.
    """
    with _answering(asked) as answering:
        answers = answering.each(
            lambda journal: (
                journal.node,
                questions.sessions_of(journal, name, period(journal, begin, end)),
            )
        )
    if not any(found.sessions or found.conflicts or found.refusals for _, found in answers):
        raise Negative(str(answering.unknown(f"no broker {name}", name, broker_names)))
    _show(
        output,
        Group(*events.sessions(answers)),
        happenings.sessions_document(name, answers, answering.origins),
    )
    answering.complain()


@history.command()
@click.argument("name", metavar="TOPIC|BROKER")
@click.option("--topic", "only_topic", is_flag=True, help="A topic, though a broker is called so.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=LINES,
    show_default=True,
    help="The last lines only; 0: all.",
)
@_period_options
@_common
def explain(
    output: Output,
    asked: list[Source],
    name: str,
    only_topic: bool,
    limit: int,
    begin: Moment | None,
    end: Moment | None,
) -> None:
    """Tell in sentences what happened to a topic or broker.

    Brokers have a topic of their own name: unless --topic is given, the broker is told of.
    """
    with _answering(asked) as answering:
        answers = answering.each(
            lambda journal: questions.explanation(journal, name, period(journal, begin, end))
        )
    brokers = merged([answer.broker for answer in answers])
    lines = merged([answer.topic for answer in answers]) if only_topic or not brokers else brokers
    if not lines:
        unknown = answering.unknown(
            f"nothing about {name}", name, lambda view: {*view.topics(), *broker_names(view)}
        )
        raise Negative(str(unknown))
    shown = lines[-limit:] if limit else lines
    _show(
        output,
        Group(*events.explanation(shown, answering.origins)),
        happenings.explanation_document(
            name, "broker" if lines is brokers else "topic", shown, answering.origins
        ),
    )
    if len(shown) < len(lines):
        say(f"{len(lines) - len(shown)} earlier lines are left out; --limit 0 shows all.")
    answering.complain()


@history.command()
@click.option("--topic", help="Only this topic.")
@_period_options
@_common
def compare(
    output: Output,
    asked: list[Source],
    topic: str | None,
    begin: Moment | None,
    end: Moment | None,
) -> None:
    """Show when nodes told clients different things, what, and how that ended.

    Give --journal at least twice, or -n with several nodes. Times are those of the first node.
    Differences that the clocks of the nodes may account for are not shown; of time in which a node
    was down, stalled or silent, nothing is said.
    """
    if len(asked) < 2:
        raise click.UsageError(
            "give --journal at least twice, or -n with several nodes: one node agrees with itself"
        )
    times = (begin, end)
    if not all(moment is None or isinstance(moment, AtTime) for moment in times):
        raise click.UsageError("nodes have sequence numbers of their own: give times")
    with _answering(asked) as answering:
        try:
            answer = comparison_of(
                answering.journals,
                topic=topic,
                begin=begin if isinstance(begin, AtTime) else None,
                end=end if isinstance(end, AtTime) else None,
            )
        except JournalError as error:
            raise Negative(str(error)) from error
    _show(
        output,
        Group(*events.comparison(answer)),
        happenings.comparison_document(answer, answering.origins),
    )
    answering.complain()
    if not answer.comparison.compared_ms:
        raise click.exceptions.Exit(NO)
