"""What commands show: tables for people, JSON for programs, once or again and again.

    @click.command()
    @output_options
    def topics(output: Output) -> None:
        output.show(lambda: fetch(), table=..., data=...)

On a terminal tables are coloured and as wide as it is; elsewhere they are plain text of
whatever width the content has. JSON is one document per look, a line each when watching.
"""

import functools
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console, Group, RenderableType
from rich.text import Text

from routebook.cli.errors import JSON_WANTED
from routebook.plain import json_text, plain

Seen = TypeVar("Seen")

_UNBOUNDED = 10_000  # columns; a file has no edge


@dataclass(frozen=True, slots=True)
class Output:
    """``watch_s`` None: look once."""

    as_json: bool = False
    watch_s: float | None = None

    def show(
        self,
        look: Callable[[], Seen],
        *,
        table: Callable[[Seen], RenderableType],
        data: Callable[[Seen], Any],
    ) -> Seen:
        """Look and show what is seen; when watching, again and again until Ctrl-C.

        An error ends one look, and shows while watching: the next look may succeed.
        """
        if self.watch_s is None:
            seen = look()
            if self.as_json:
                click.echo(json_text(data(seen), indent=2))
            else:
                _print(table(seen))
            return seen
        try:
            if self.as_json:
                self._watch_json(look, data)
            elif console().is_terminal:
                self._watch_screen(look, table)
            else:
                self._watch_text(look, table)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(0) from None

    def _watch_json(self, look: Callable[[], Seen], data: Callable[[Seen], Any]) -> NoReturn:
        while True:
            seen = _looked(look)
            value = {"error": seen.reason} if isinstance(seen, _Failed) else data(seen)
            click.echo(json_text(value))
            self._pause()

    def _watch_text(
        self, look: Callable[[], Seen], table: Callable[[Seen], RenderableType]
    ) -> NoReturn:
        while True:
            seen = _looked(look)
            click.echo(_now())
            if isinstance(seen, _Failed):
                click.echo(f"Error: {seen.reason}")
            else:
                _print(table(seen))
            self._pause()

    def _watch_screen(
        self, look: Callable[[], Seen], table: Callable[[Seen], RenderableType]
    ) -> NoReturn:
        from rich.live import Live

        last: tuple[RenderableType, ...] = ()
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                seen = _looked(look)
                if isinstance(seen, _Failed):
                    problem = Text(f"{_now()} Error: {seen.reason}", style="bold red")
                    live.update(Group(*last, problem), refresh=True)
                else:
                    shown = table(seen)
                    last = (
                        Text(_now(), style="dim"),
                        Text(shown) if isinstance(shown, str) else shown,
                    )
                    live.update(Group(*last), refresh=True)
                self._pause()

    def _pause(self) -> None:
        assert self.watch_s is not None
        sys.stdout.flush()
        time.sleep(self.watch_s)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --json, --watch and an ``output: Output``."""

    @functools.wraps(command)
    def wrapped(as_json: bool, watch_s: float | None, **others: Any) -> Any:
        return command(output=Output(as_json, watch_s), **others)

    wrapped = click.option(
        "--watch",
        "watch_s",
        is_flag=False,
        flag_value=2.0,
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help="Look again and again, every 2 seconds unless given.",
    )(wrapped)
    return json_option(wrapped)


json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


def console(*, stderr: bool = False) -> Console:
    """Where tables go; colours and width as the terminal has them."""
    screen = _Console(stderr=stderr, highlight=False)
    return (
        screen
        if screen.is_terminal
        else _Console(stderr=stderr, highlight=False, width=_UNBOUNDED, color_system=None)
    )


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # dealt with where the program ends


def json_wanted() -> bool:
    """Whether the command that runs was given --json, be it in the wrong place."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(JSON_WANTED))


def say(text: str) -> None:
    """Progress and remarks, beside the output."""
    _tell({"note": text}, text)


def note(text: str) -> None:
    _tell({"note": text}, f"Note: {text}")


def warn(text: str) -> None:
    _tell({"warning": text}, f"Warning: {text}")


def tell_error(text: str, exit_code: int) -> None:
    _tell({"error": text, "exit_code": exit_code}, f"Error: {text}")


def _tell(document: Mapping[str, object], sentence: str) -> None:
    """One thing on standard error: as an object on a line if JSON is wanted."""
    if json_wanted():
        click.echo(json_text(document), err=True)
        return
    sentence = plain(sentence)
    screen = console(stderr=True)
    if screen.is_terminal:
        screen.print(Text(sentence))  # which breaks no word
    else:
        click.echo(sentence, err=True)


def _print(renderable: RenderableType) -> None:
    if isinstance(renderable, str):
        # A long list: nothing in it for rich to lay out, and no markup of whoever named the topics.
        if renderable:
            click.echo(renderable)
        return
    screen = console()
    if screen.is_terminal:
        screen.print(renderable)
        return
    with screen.capture() as captured:
        screen.print(renderable)
    for line in captured.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class _Failed:
    reason: str


def _looked(look: Callable[[], Seen]) -> Seen | _Failed:
    try:
        return look()
    except click.UsageError:
        raise
    except click.ClickException as error:
        return _Failed(error.format_message())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
