"""``routebook drain`` and ``routebook undrain``: write permission of a broker, everywhere."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from rich.text import Text

from routebook.audit.write_permission import ROUND_S, NodeState, Round, WritePermission
from routebook.cli.columns import Column, Kind, documents_of, judged, table_of
from routebook.cli.completion import complete_brokers
from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import heard
from routebook.cli.output import Output, console, json_option, say, warn
from routebook.client import Address, NameServerClient
from routebook.documents.suggestions import close_names
from routebook.plain import plain
from routebook.system_topics import is_system_topic
from routebook.words import listed

_some = partial(listed, most=5)

NodeRow = tuple[Address, NodeState]


@dataclass(frozen=True, slots=True)
class Words:
    """How a direction is spoken of."""

    wanted: bool
    told: str
    left: str
    done: str


DRAIN = Words(False, "taken from", "writable", "drained")
UNDRAIN = Words(True, "given back to", "not writable", "writable again")


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("broker", shell_complete=complete_brokers),
        click.option(
            "--wait/--no-wait",
            default=True,
            show_default=True,
            help="Wait until it is so on every node.",
        ),
        click.option(
            "--within",
            "within_s",
            type=click.FloatRange(min=0),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait.",
        ),
        json_option,
        asking_options,
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


@click.command()
@_options
def drain(asking: Asking, broker: str, wait: bool, within_s: float, as_json: bool) -> None:
    """Take write permission from all topics of BROKER on every node, and wait until none is left.

    Producers learn it with their next look at the route, within 30 seconds by default. Exit code 1
    when a topic is still writable at the end, a node could not be asked, or one refused: a refusal
    ends it at once.
    """
    _change(asking, broker, DRAIN, wait=wait, within_s=within_s, as_json=as_json)


@click.command()
@_options
def undrain(asking: Asking, broker: str, wait: bool, within_s: float, as_json: bool) -> None:
    """Give write permission back to the topics of BROKER it was taken from, on every node.

    Topics that the broker registered without write permission stay without it. NameServers that
    are not Routebook's cannot tell them apart and give it to all topics, which is warned of.
    Exit code 1 when a topic is still not writable at the end, a node could not be asked, or one
    refused: a refusal ends it at once.
    """
    _change(asking, broker, UNDRAIN, wait=wait, within_s=within_s, as_json=as_json)


def _change(
    asking: Asking, broker: str, words: Words, *, wait: bool, within_s: float, as_json: bool
) -> None:
    async def changed(client: NameServerClient) -> Round:
        permission = WritePermission(client, broker, wanted=words.wanted)
        known = await permission.known()
        if not any(heard(known).values()):
            close = close_names(broker, (await client.cluster_view()).brokers)
            remedy = close or "`routebook brokers` lists them"
            raise Negative(f"no node knows a broker named {broker}; {remedy}")
        told = await permission.tell()
        if not wait:
            return told
        with _progress(broker, words) as report:
            return await permission.settle(told, within_s=within_s, round_s=ROUND_S, report=report)

    last = asking.run(changed)
    Output(as_json).show(
        lambda: last,
        table=lambda last: table_of(_columns(words, waited=wait), last.nodes.items()),
        data=lambda last: _document(broker, last, words, waited=wait),
    )
    _warn_of_given(broker, last)
    if last.ordered and not words.wanted:
        warn(
            f"the order configuration of {_some(sorted(last.ordered))} names {broker}, and"
            " producers follow it whatever the permission; change it with `routebook kv put"
            " ORDER_TOPIC_CONFIG`"
        )
    strangers = [str(node) for node, state in last.nodes.items() if state.topics == 0]
    if strangers and not words.wanted:
        warn(
            f"{', '.join(strangers)} knows no topic of {broker}; should it register there,"
            " its topics are writable, so drain it again"
        )
    if not last.done:
        waited = wait and not last.refused
        raise Negative(_not_done(broker, last, words, f"within {within_s:g} s" if waited else ""))


def _warn_of_given(broker: str, last: Round) -> None:
    """What write permission was given to although nobody had taken it, or could not be given to."""
    if last.blunt:
        kept = sorted({t for s in last.nodes.values() if s.told is not None for t in s.told.kept})
        known = f", {_some(kept)} among them" if kept else ""
        warn(
            f"{', '.join(map(str, last.blunt))} cannot tell what was taken and gave write"
            f" permission to all topics of {broker}, also to those it registered without{known};"
            " a changed registration of the broker corrects that"
        )
    waiting = sorted({t for s in last.nodes.values() if s.told is not None for t in s.told.waiting})
    if waiting:
        warn(
            f"the master of {broker} is away; {_some(waiting)} will be writable when it"
            " registers again"
        )


@contextmanager
def _progress(broker: str, words: Words) -> Iterator[Callable[[Round], None]]:
    """Tell how far it is: a bar on a terminal, else a line for each change."""
    screen = console(stderr=True)
    said: set[str] = set()

    def say_changes(now: Round) -> None:
        for line in _lines(now, words):
            if line not in said:
                said.add(line)
                if screen.is_terminal:
                    screen.print(Text(plain(line)))  # above the bar
                else:
                    say(line)

    if not screen.is_terminal:
        yield say_changes
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(plain(broker), total=None)

        def report(now: Round) -> None:
            topics = sum(state.topics or 0 for state in now.nodes.values())
            left = sum(len(state.left or ()) for state in now.nodes.values())
            bar.update(task, total=topics, completed=topics - left)
            say_changes(now)

        yield report


def _lines(now: Round, words: Words) -> Iterator[str]:
    for node, state in now.nodes.items():
        if state.refused:
            continue  # which ends it, and is said at the end
        if state.error is not None:
            yield f"{node}: {state.error}; trying again"
        elif state.left:
            undone = " again, by a registration" if node in now.undone else ""
            yield (
                f"{node}: {len(state.left)} of {state.topics} topics {words.left}{undone}:"
                f" {_some(state.left)}"
            )


def _columns(words: Words, *, waited: bool) -> Sequence[Column[NodeRow]]:
    return (
        Column("node", "node", lambda row: str(row[0])),
        Column("done", None, lambda row: row[1].done),
        Column("topics", "topics", lambda row: row[1].topics, kind=Kind.NUMBER),
        Column(
            "left",
            f"still {words.left}" if words is DRAIN else words.left,
            lambda row: None if row[1].left is None else list(row[1].left),
            shown=len,
            kind=Kind.NUMBER,
        ),
        Column("error", None, lambda row: row[1].error),
        Column("refused", None, lambda row: row[1].refused),
        Column("kept", None, lambda row: [] if row[1].told is None else list(row[1].told.kept)),
        Column("all_topics", None, lambda row: row[1].told is not None and row[1].told.blunt),
        Column(
            None,
            "outcome",
            lambda row: judged(_outcome(row[1], words, waited=waited), good=row[1].done),
            kind=Kind.PROSE,
        ),
    )


def _outcome(state: NodeState, words: Words, *, waited: bool) -> str:
    if state.error is not None:
        return state.error
    told = state.told
    if not waited and told is not None:
        of = "" if told.changed == told.topics else f"{told.changed} of "
        return f"write permission {words.told} {of}{told.topics} topics"
    if not state.topics:
        return "does not know the broker"
    if state.left:
        return _some(state.left)
    kept = [] if told is None else [t for t in told.kept if not is_system_topic(t, frozenset())]
    return f"{words.done}, but for what was registered so: {_some(kept)}" if kept else words.done


def _document(broker: str, last: Round, words: Words, *, waited: bool) -> dict[str, Any]:
    return {
        "broker": broker,
        "wanted": "writable" if words.wanted else "drained",
        "done": last.done,
        "waited": waited,
        "nodes": documents_of(_columns(words, waited=waited), last.nodes.items()),
        "differing": list(last.differing),
        "ordered_topics": sorted(last.ordered),
    }


def _not_done(broker: str, last: Round, words: Words, when: str) -> str:
    reasons = [
        f"{node}: {state.error}"
        if state.error is not None
        else f"{len(state.left or ())} topics {words.left} at {node} ({_some(state.left or ())})"
        for node, state in last.nodes.items()
        if not state.done
    ]
    if not reasons:
        reasons = [f"nodes differ in {_some(last.differing)}; `routebook compare` shows it"]
    return f"{broker} is not {words.done} everywhere {when}".rstrip() + ": " + "; ".join(reasons)
