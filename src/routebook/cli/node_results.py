"""What became of a call made on every node: shown node by node, and as an exit code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from routebook.cli.columns import Column, Kind, documents_of, judged, table_of
from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.nameservers import failure
from routebook.cli.output import Output
from routebook.client import Address, AllNodesFailed, NameServerError, NodeError
from routebook.client.errors import answered, what
from routebook.plain import plain

Result = TypeVar("Result")


class NotDone(Exception):
    """A node said success and did something else."""


@dataclass(frozen=True, slots=True)
class NodeResult:
    """``text`` is what was done, or why not; ``heard`` whether the node answered at all."""

    node: str
    done: bool
    text: str
    heard: bool = True


COLUMNS = (
    Column[NodeResult]("node", "node", lambda result: result.node),
    Column[NodeResult]("done", None, lambda result: result.done),
    Column[NodeResult]("outcome", None, lambda result: result.text),
    Column[NodeResult](
        None,
        "outcome",
        lambda result: judged(result.text, good=result.done),
        kind=Kind.PROSE,
    ),
)


def results_of(
    results: Mapping[Address, Result | NameServerError], done: Callable[[Result], str]
) -> list[NodeResult]:
    """``done`` says what a result means, or raises NotDone."""

    def outcome(node: Address, result: Result | NameServerError) -> NodeResult:
        if isinstance(result, NameServerError):
            return NodeResult(str(node), False, what(result), heard=answered(result))
        try:
            return NodeResult(str(node), True, done(result))
        except NotDone as error:
            return NodeResult(str(node), False, str(error))

    return [outcome(node, result) for node, result in results.items()]


def show_results(outcomes: list[NodeResult], about: Mapping[str, Any], *, as_json: bool) -> None:
    """Show all of them; raises Negative unless every node did it, CannotAsk if none was heard."""
    Output(as_json).show(
        lambda: outcomes,
        table=lambda outcomes: table_of(COLUMNS, outcomes),
        data=lambda outcomes: {
            **about,
            "nodes": documents_of(COLUMNS, outcomes),
        },
    )
    failed = [outcome for outcome in outcomes if not outcome.done]
    if not failed:
        return
    where = ", ".join(outcome.node for outcome in failed)
    if not any(outcome.heard for outcome in outcomes):
        raise CannotAsk(f"nothing was changed: {where} could not be asked; check that they run")
    raise Negative(
        f"not done on {where}; the nodes disagree until it is, so repeat this when they can"
        if len(failed) < len(outcomes)
        else f"not done on {where}"
    )


def heard(results: Mapping[Address, Result | NameServerError]) -> dict[Address, Result]:
    """What the nodes that answered said; raises CannotAsk or Negative when none did."""
    said = {n: r for n, r in results.items() if not isinstance(r, NameServerError)}
    if not said:
        errors = [r for r in results.values() if isinstance(r, NodeError)]
        refused = next((error for error in errors if answered(error)), None)
        raise failure(refused or AllNodesFailed(errors))
    return said


def check_answered(results: Mapping[Address, Result | NameServerError], *, refusal: str) -> None:
    """Raises CannotAsk when a node could not be asked, Negative when one refused."""
    failures = {n: r for n, r in results.items() if isinstance(r, NameServerError)}
    silent = [error for error in failures.values() if not answered(error)]
    if silent:
        raise CannotAsk(f"not every node answered: {'; '.join(map(str, silent))}")
    if failures:
        raise Negative(f"{refusal} at {', '.join(map(str, failures))}")


def confirm(loss: str, question: str, *, yes: bool) -> None:
    """Go on only with ``yes`` or somebody who agrees; raises Negative."""
    if yes:
        return
    click.echo(plain(loss), err=True)
    try:
        agreed = click.confirm(plain(question), err=True)
    except click.Abort:  # nobody there to answer, or Ctrl-C
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise Negative("nothing was changed; confirm, or give --yes")


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
