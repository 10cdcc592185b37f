"""``routebook kv``: key-value pairs. Every node has its own, so all of them are asked and told."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from routebook.cli.errors import Negative
from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import confirm, heard, results_of, show_results, yes_option
from routebook.cli.output import Output, console, json_option, output_options, say, warn
from routebook.cli.pairs import pairs_table
from routebook.client import Address, NameServerError, NodeClient
from routebook.client.errors import what
from routebook.plain import json_text, plain


@click.group()
def kv() -> None:
    """Read and write key-value pairs.

    Nodes do not share them: all are asked, and told. Ordered topics are configured in the
    namespace ORDER_TOPIC_CONFIG, a key for each topic.
    """


@kv.command(name="list")
@click.argument("namespace")
@output_options
@asking_options
def list_(asking: Asking, output: Output, namespace: str) -> None:
    """Show all pairs of NAMESPACE.

    Where nodes disagree the table says which of them have what.
    """

    def look() -> Mapping[Address, dict[str, str] | NameServerError]:
        tables = asking.run(lambda client: client.on_every_node(lambda n: n.kv_table(namespace)))
        heard(tables)
        return tables

    tables = output.show(
        look,
        table=lambda tables: pairs_table(heard(tables)),
        data=lambda tables: {
            "namespace": namespace,
            "nodes": [
                {"node": str(node), "pairs": None, "error": what(table)}
                if isinstance(table, NameServerError)
                else {"node": str(node), "pairs": dict(sorted(table.items())), "error": None}
                for node, table in tables.items()
            ],
        },
    )
    _warn_of_failures(tables)
    if not any(heard(tables).values()):
        say(f"nothing in the namespace {namespace}")


@kv.command()
@click.argument("namespace")
@click.argument("key")
@json_option
@asking_options
def get(asking: Asking, namespace: str, key: str, as_json: bool) -> None:
    """Print the value of KEY and nothing else; exit code 1 when there is none.

    A warning on standard error says when nodes disagree.
    """
    values = _values(asking, namespace, key)
    said = heard(values)
    value = next((value for value in said.values() if value is not None), None)
    if as_json:
        click.echo(json_text(_document(namespace, key, value, values), indent=2))
    elif value is not None:
        # Exact for programs, where click.echo would leave colours out; printable on a terminal.
        sys.stdout.write((plain(value) if console().is_terminal else value) + "\n")
    _warn_of_failures(values)
    if len(set(said.values())) > 1:
        views = (f"{node} has {'none' if v is None else repr(v)}" for node, v in said.items())
        warn(f"the nodes disagree: {'; '.join(views)}")
    if value is None:
        raise Negative(f"{namespace} has no key {key}; `routebook kv list` shows those there are")


def _document(
    namespace: str,
    key: str,
    value: str | None,
    values: Mapping[Address, str | NameServerError | None],
) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "key": key,
        "value": value,
        "nodes": [
            {"node": str(node), "value": None, "error": what(found)}
            if isinstance(found, NameServerError)
            else {"node": str(node), "value": found, "error": None}
            for node, found in values.items()
        ],
    }


@kv.command()
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@json_option
@asking_options
def put(asking: Asking, namespace: str, key: str, value: str, as_json: bool) -> None:
    """Set KEY to VALUE on every node."""

    async def written(node: NodeClient) -> None:
        await node.put_kv(namespace, key, value)

    results = asking.run(lambda client: client.on_every_node(written))
    about = {"namespace": namespace, "key": key, "value": value}
    show_results(results_of(results, lambda _: "written"), about, as_json=as_json)


@kv.command()
@click.argument("namespace")
@click.argument("key")
@yes_option
@json_option
@asking_options
def delete(asking: Asking, namespace: str, key: str, yes: bool, as_json: bool) -> None:
    """Delete KEY on every node."""
    values = _values(asking, namespace, key)
    held = {value for value in heard(values).values() if value is not None}
    if not held:
        raise Negative(f"{namespace} has no key {key}; `routebook kv list` shows those there are")
    confirm(
        f"{key} in {namespace} is {' or '.join(map(repr, sorted(held)))}.",
        f"Delete it from {len(values)} nodes?",
        yes=yes,
    )

    async def deleted(node: NodeClient) -> bool:
        await node.delete_kv(namespace, key)
        return values[node.address] is not None

    results = asking.run(lambda client: client.on_every_node(deleted))
    show_results(
        results_of(results, lambda had: "deleted" if had else "had no such key"),
        {"namespace": namespace, "key": key},
        as_json=as_json,
    )


def _values(
    asking: Asking, namespace: str, key: str
) -> Mapping[Address, str | NameServerError | None]:
    return asking.run(lambda client: client.on_every_node(lambda n: n.find_kv(namespace, key)))


def _warn_of_failures(results: Mapping[Address, object]) -> None:
    for node, found in results.items():
        if isinstance(found, NameServerError):
            warn(f"{node} could not be asked: {what(found)}")
