"""``routebook config``: the settings of nodes."""

from collections.abc import Mapping
from typing import Any

import click

from routebook.cli.nameservers import Asking, asking_options
from routebook.cli.node_results import NotDone, check_answered, results_of, show_results
from routebook.cli.output import Output, json_option, output_options
from routebook.cli.pairs import pairs_table
from routebook.client import Address, NameServerClient, NameServerError, NodeClient
from routebook.client.errors import what

Configs = Mapping[Address, dict[str, str] | NameServerError]


@click.group()
def config() -> None:
    """Show or change the settings of nodes."""


@config.command()
@click.option("--all-nodes", is_flag=True, help="Ask every node, not one.")
@output_options
@asking_options
def show(asking: Asking, output: Output, all_nodes: bool) -> None:
    """Show the settings of a node, or of all of them and where they differ."""

    async def looked(client: NameServerClient) -> Configs:
        if all_nodes:
            return await client.on_every_node(lambda node: node.config())
        settings = await client.config()
        assert client.chosen is not None  # it has just answered
        return {client.chosen: settings}

    configs = output.show(
        lambda: asking.run(looked),
        table=lambda configs: pairs_table(
            {n: c for n, c in configs.items() if not isinstance(c, NameServerError)}
        ),
        data=lambda configs: {"nodes": _documents(configs)},
    )
    check_answered(configs, refusal="the settings are not shown")


def _documents(configs: Configs) -> list[dict[str, Any]]:
    return [
        {"node": str(node), "config": None, "error": what(found)}
        if isinstance(found, NameServerError)
        else {"node": str(node), "config": dict(sorted(found.items())), "error": None}
        for node, found in configs.items()
    ]


@config.command(name="set")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@json_option
@asking_options
def set_(asking: Asking, settings: tuple[str, ...], as_json: bool) -> None:
    """Change settings on every node.

    Nodes of ours must allow it (allowRemoteConfig) and take live settings only.
    """
    wanted = dict(map(_setting, settings))

    async def changed(node: NodeClient) -> dict[str, str]:
        await node.update_config(wanted)
        return await node.config()

    def said(now: dict[str, str]) -> str:
        # RocketMQ's own nodes say success to keys they do not know.
        if ignored := sorted(key for key, value in wanted.items() if now.get(key) != value):
            raise NotDone(f"said success, but {', '.join(ignored)} did not change")
        return "changed"

    results = asking.run(lambda client: client.on_every_node(changed))
    show_results(results_of(results, said), {"config": wanted}, as_json=as_json)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise click.UsageError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()
