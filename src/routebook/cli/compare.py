"""``routebook compare``: where the views of the nodes differ."""

from collections.abc import Callable, Iterator
from functools import partial

import click
from rich.console import Group, RenderableType
from rich.text import Text

from routebook.audit.compare import Comparison, Difference
from routebook.audit.findings import examples
from routebook.audit.settle import SETTLE_S, settled
from routebook.audit.view import take_views
from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.completion import complete_topics
from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.output import Output, output_options
from routebook.cli.progress import progress_shown
from routebook.client import Address, NameServerClient
from routebook.documents.audit import DIFFERENCES, comparison_document
from routebook.plain import one_line, word
from routebook.words import counted


@click.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option(
    "--settle",
    "settle_s",
    type=click.FloatRange(min=0),
    default=SETTLE_S,
    show_default=True,
    metavar="SECONDS",
    help="Ask again after this time for what differs, and keep what still does; 0: do not.",
)
@click.option("--all-topics", is_flag=True, help="Name all topics of a difference, not a few.")
@output_options
@asking_options
def compare(
    asking: Asking, output: Output, topics: tuple[str, ...], settle_s: float, all_topics: bool
) -> None:
    """Ask every node and show where their views differ, in all topics or in each TOPIC.

    Exit code 1 when they differ, or when a node or a topic could not be asked for; 3 when no
    node could be asked.
    """

    def compared() -> Comparison:
        with progress_shown(wanted=output.watch_s is None) as told:

            async def work(client: NameServerClient) -> Comparison:
                views = await take_views(
                    client, topics=topics or None, progress=partial(told, "routes")
                )
                return (await settled(client, views, settle_s=settle_s)).comparison

            return asking.run(work)

    comparison = output.show(
        compared,
        table=lambda comparison: Group(*_parts(comparison, all_topics=all_topics)),
        data=comparison_document,
    )
    _judge(comparison, topics)


def _judge(comparison: Comparison, topics: tuple[str, ...]) -> None:
    if not comparison.nodes:
        raise CannotAsk("no node could be asked; check that they run")
    if comparison.differences:
        raise Negative(f"the nodes differ: {counted(len(comparison.differences), 'difference')}")
    if not comparison.complete:
        raise Negative("the comparison is incomplete")
    if topics and not comparison.topic_count:
        raise Negative("no node knows " + " or ".join(topics))


def _sayings(comparison: Comparison, *, all_topics: bool) -> Iterator[Column[Difference]]:
    """What the table has instead of lists: a few topics, and a column for each node."""
    yield Column(
        None,
        "topics",
        lambda difference: _topics(difference, all_topics=all_topics),
        kind=Kind.PROSE,
    )
    for node in comparison.nodes:
        yield Column(None, str(node), _saying(node), kind=Kind.PROSE)


def _saying(node: Address) -> Callable[[Difference], str]:
    return lambda difference: difference.says.get(node, "not asked")


def _parts(comparison: Comparison, *, all_topics: bool) -> Iterator[RenderableType]:
    if comparison.differences:
        yield table_of(
            (*DIFFERENCES, *_sayings(comparison, all_topics=all_topics)), comparison.differences
        )
    elif comparison.nodes:
        topics = counted(comparison.topic_count, "topic")
        yield Text(
            f"{len(comparison.nodes)} nodes say the same of {topics}"
            if len(comparison.nodes) > 1
            else f"{comparison.nodes[0]} knows {topics}, and there is no other node to differ from"
        )
    for node, reason in comparison.failures.items():
        yield Text(f"{node} could not be asked: {one_line(reason)}", style="bold red")
    for node, errors in comparison.unanswered.items():
        lines = [f"{word(topic)} ({one_line(reason)})" for topic, reason in sorted(errors.items())]
        yield Text(f"{node} did not tell {', '.join(examples(lines))}", style="bold red")


def _topics(difference: Difference, *, all_topics: bool) -> str:
    names = [word(topic) for topic in difference.topics]
    if not names:
        return "none"
    shown = names if all_topics else examples(names)
    return f"{len(names)}: {', '.join(shown)}" if len(names) > 1 else names[0]
