"""``routebook serve``: run a node."""

import gc
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import javaproperties

from routebook.cli.errors import CannotStart
from routebook.settings import KEYS, Key, Settings, SettingsError, Source, resolve
from routebook.version import __version__

if TYPE_CHECKING:
    from routebook.logs.writing import LogWriter


def _parameter(key: Key) -> str:
    """Click wants an identifier; the key itself may have dots."""
    return key.keywords[0]


def _setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for key in sorted(KEYS.values(), key=lambda key: key.name, reverse=True):
        if key.ignored:
            continue
        names = ["-n", "--namesrvAddr"] if key.name == "namesrvAddr" else []
        default = f"  [default: {key.default}]" if key.default else ""
        text = f"{key.meaning} ({key.name}){default}"
        option = click.option(*names, *key.flags, _parameter(key), metavar="VALUE", help=text)
        command = option(command)
    return command


@click.command()
@click.option(
    "-c",
    "--config-file",
    "--configFile",
    "config_file",
    type=click.Path(path_type=Path),
    help="A properties file, as RocketMQ's NameServer takes it.",
)
@click.option(
    "-p",
    "--print-config-item",
    "--printConfigItem",
    "print_only",
    is_flag=True,
    help="Print all settings and exit.",
)
@_setting_options
def serve(config_file: Path | None, print_only: bool, **flags: str | None) -> None:
    """Run a node until it is told to stop.

    Settings come from the defaults, the -c file, updates made by mqadmin, ROUTEBOOK_* environment
    variables and options; a later one of these overrides the earlier ones.
    """
    try:
        settings, sources = _settings(config_file, flags)
    except SettingsError as error:
        raise CannotStart(str(error)) from error
    if print_only:
        for name in sorted(settings.values):
            click.echo(f"{name}={settings.values[name]}")
        return
    # Imported here so that -p and --help stay quick.
    from routebook.logs.writing import logging_to_stderr

    with logging_to_stderr(log_format=settings.gateway.log_format) as log:
        _run(settings, sources, log)


def _settings(config_file: Path | None, flags: dict[str, str | None]) -> tuple[Settings, str]:
    """The settings and a text of where they come from."""
    from routebook.server import remote_config

    sources: list[Source] = []
    if config_file is not None:
        sources.append(Source(str(config_file), _read_properties(config_file)))
    own = [
        Source("environment", _environment()),
        Source("command line", _given(flags)),
    ]
    settings = resolve([*sources, *own], Path.home())
    if settings.allow_remote_config:
        remote = remote_config.load(settings.data_dir)
        sources.append(Source(str(settings.data_dir / remote_config.FILE_NAME), remote))
        settings = resolve([*sources, *own], Path.home())
    names = [source.name for source in (*sources, *own) if source.values]
    return settings, ", ".join(["defaults", *names])


def _read_properties(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return dict(javaproperties.load(file))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path} is not a properties file: {error}") from error


def _environment() -> dict[str, str]:
    names = {variable: key.name for key in KEYS.values() for variable in key.variables}
    return {names[variable]: text for variable, text in os.environ.items() if variable in names}


def _given(flags: dict[str, str | None]) -> dict[str, str]:
    texts = {key.name: flags.get(_parameter(key)) for key in KEYS.values()}
    return {name: text for name, text in texts.items() if text is not None}


def _run(settings: Settings, sources: str, log: "LogWriter") -> None:
    # The tables hold millions of small objects and no cycles; walking them all is what a full
    # collection would do, and it would keep every request waiting. What is walked at a time is
    # few objects rather than many, which takes no more time in all.
    gc.freeze()
    gc.set_threshold(2_500, 2, 6_000)
    from routebook.table_memory import table_memory

    table_memory.use()
    # Threads write the journal and the log. Whenever the loop has let one of them in, it has its
    # turn again after this long rather than after 5 ms.
    sys.setswitchinterval(0.001)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))  # a connection is a file
    from routebook.cli.loops import run_loop

    try:
        run_loop(_serve(settings, sources, log))
    except SettingsError as error:
        raise CannotStart(str(error)) from error


async def _serve(settings: Settings, sources: str, log: "LogWriter") -> None:
    from routebook.app import NameServer
    from routebook.cli.loops import say_now, stop_signals
    from routebook.server.service_manager import ServiceManager, kept_informed

    stop = stop_signals()
    manager = ServiceManager.of(os.environ)
    async with NameServer(settings) as node:
        log.on_error = lambda error: node.erred("writing the log", error)
        node.gateway_ready = lambda url: say_now(f"page, HTTP API and metrics on {url}")
        say_now(f"routebook {__version__} ready on {node.address} (configuration: {sources})")
        async with kept_informed(manager, f"ready on {node.address}"):
            await stop.wait()
        say_now("stopping")
    say_now("stopped")
