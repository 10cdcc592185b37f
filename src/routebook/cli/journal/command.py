"""``routebook journal``: check, read and export the journal of a node."""

import functools
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from routebook.cli.errors import NO, Negative
from routebook.cli.journal import views as views
from routebook.cli.output import Output, json_option, note, warn
from routebook.cli.progress import progress_shown
from routebook.disk import new_file
from routebook.history.times import AtSeq, AtTime, BadTime, Moment, parse
from routebook.journal.errors import JournalError
from routebook.journal.locate import locate
from routebook.journal.pairs import line_without_values
from routebook.journal.reader import Line, Progress, Range, follow, last_lines, read_lines
from routebook.journal.record import Record, decode, event_types, place_of
from routebook.journal.selection import Selection
from routebook.journal.stats import stats_of
from routebook.journal.verify import verify as verified
from routebook.settings import KEYS, make_settings

POLL_S = 0.2
SHOW_PROGRESS_AFTER_S = 1.0


def default_folder() -> Path:
    """Where a node of this user writes."""
    given = os.environ.get(KEYS["dataDir"].variables[0], "")
    return make_settings(Path.home(), data_dir=given).data_dir / "journal"


class _Damage:
    """What could not be read: said when it is met, and exit code 1 at the end."""

    def __init__(self) -> None:
        self._any = False

    def note(self, error: JournalError) -> None:
        self._any = True
        warn(f"{error}")

    def complain(self) -> None:
        if self._any:
            raise click.exceptions.Exit(NO)


def journal_at(given: Path) -> Path:
    """The journal that somebody means by ``given``, who is told if it is another folder.

    Raises JournalError.
    """
    found = locate(given)
    if found != given:
        note(f"{given} is no journal; this is {found}")
    return found


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --journal and --json, and errors of the journal as sentences."""

    @functools.wraps(command)
    def wrapped(folder: Path | None, as_json: bool, **others: Any) -> Any:
        try:
            found = journal_at(folder or default_folder())
            return command(folder=found, output=Output(as_json), **others)
        except JournalError as error:
            raise Negative(str(error)) from error

    wrapped = json_option(wrapped)
    return click.option(
        "--journal",
        "folder",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The folder of the journal, or the one it is in. Default: that of a node of yours.",
    )(wrapped)


def _moment(ctx: click.Context, param: click.Parameter, given: str | None) -> Moment | None:
    if given is None:
        return None
    try:
        return parse(given, now_ms=time.time_ns() // 1_000_000)
    except BadTime as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --type, --topic and --broker as ``selection``."""

    @functools.wraps(command)
    def wrapped(
        types: tuple[str, ...], topic: str | None, broker: str | None, **others: Any
    ) -> Any:
        return command(selection=Selection(types, topic, broker), **others)

    wrapped = click.option("--broker", help="Only what concerns brokers of this name.")(wrapped)
    wrapped = click.option("--topic", help="Only what concerns this topic.")(wrapped)
    return click.option(
        "--type",
        "types",
        type=click.Choice(list(event_types()), case_sensitive=False),
        multiple=True,
        metavar="TYPE",
        help="Only records of this type; may be given again.",
    )(wrapped)


_values_option = click.option(
    "--values",
    is_flag=True,
    help="With the values of key-value pairs. Default: their lengths.",
)


def _range_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --from and --to as ``wanted``."""

    @functools.wraps(command)
    def wrapped(begin: Moment | None, end: Moment | None, **others: Any) -> Any:
        wanted = Range(
            from_seq=begin.seq if isinstance(begin, AtSeq) else None,
            to_seq=end.seq if isinstance(end, AtSeq) else None,
            from_ms=begin.wall_ms if isinstance(begin, AtTime) else None,
            to_ms=end.wall_ms if isinstance(end, AtTime) else None,
        )
        return command(wanted=wanted, **others)

    for flag, name, text in (("--to", "end", "Up to"), ("--from", "begin", "From")):
        wrapped = click.option(
            flag, name, callback=_moment, metavar="TIME", help=f"{text} this moment, included."
        )(wrapped)
    return wrapped


@contextmanager
def _progress(stage: str) -> Iterator[Progress]:
    """Shown when it takes long."""
    began_s = time.monotonic()
    with progress_shown() as told:

        def told_later(done: int, total: int) -> None:
            if time.monotonic() - began_s > SHOW_PROGRESS_AFTER_S:
                told(stage, done, total)

        yield told_later


@click.group()
def journal() -> None:
    """Check, read and export the journal of a node, running or not.

    Moments are ISO times (2026-11-15T03:12:04Z; UTC without a zone), times of the last 24 hours
    (08:30), times before now (15m, 2h30m, 1d), sequence numbers of records (seq:1234) or "now".

    Exit code 1 when a journal is damaged or cannot be read, or there is none.
    """


@journal.command()
@_common
def verify(folder: Path, output: Output) -> None:
    """Look for what was lost, cut, changed, inserted or moved: every file, line and hash.

    Exit code 1 when there is anything. Remarks, such as on foreign files, are none.
    """
    with _progress("verifying") as progress:
        report = verified(folder, progress=progress)
    output.show(
        lambda: report,
        table=lambda report: views.report(folder, report),
        data=lambda report: views.report_document(folder, report),
    )
    faults = sum(finding.serious for finding in report.findings)
    if faults:
        raise Negative(f"{views.counted(faults, 'fault')} found in {folder}")


@journal.command()
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many records.",
)
@click.option("-f", "--follow", "following", is_flag=True, help="Go on with what is written next.")
@_selection_options
@_values_option
@_common
def tail(
    folder: Path,
    output: Output,
    lines: int,
    following: bool,
    selection: Selection,
    values: bool,
) -> None:
    """Show the last records, and with -f those that are written from now on."""
    damage = _Damage()
    last = last_lines(folder, 1, damaged=damage.note)
    for line in last_lines(
        folder,
        lines,
        chosen=lambda line: _selected(line, selection, damage) is not None,
        damaged=damage.note,
    ):
        _show(line, output, selection, damage, values=values)
    if following:
        after = place_of(last[0].text).seq if last else 0
        try:
            for line in follow(folder, from_seq=after + 1, wait=_wait, damaged=damage.note):
                _show(line, output, selection, damage, values=values)
        except KeyboardInterrupt:
            pass  # how it is meant to end
    damage.complain()


@journal.command()
@_range_options
@_selection_options
@_values_option
@_common
def cat(folder: Path, output: Output, wanted: Range, selection: Selection, values: bool) -> None:
    """Show all records, or those that the options choose, in order.

    With --json the lines are as they are on disk, but for values of key-value pairs.
    """
    damage = _Damage()
    for line in read_lines(folder, wanted, damaged=damage.note):
        _show(line, output, selection, damage, values=values)
    damage.complain()


@journal.command()
@_common
def stats(folder: Path, output: Output) -> None:
    """Count records by type and by day, bytes, segments, kills and losses."""
    damage = _Damage()
    with _progress("reading") as progress:
        found = stats_of(folder, progress=progress, damaged=damage.note)
    output.show(
        lambda: found,
        table=lambda found: views.stats(folder, found),
        data=lambda found: views.stats_document(folder, found),
    )
    damage.complain()


@journal.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@_range_options
@_selection_options
@_values_option
@_common
def export(
    folder: Path,
    output: Output,
    file: Path,
    force: bool,
    wanted: Range,
    selection: Selection,
    values: bool,
) -> None:
    """Write records to FILE, one JSON object a line, packed if its name ends in .gz.

    FILE is complete or not there; "-" is standard output.
    """
    damage = _Damage()
    with _progress("exporting") as progress, _file(file, force=force) as target:
        count = 0
        for line in read_lines(folder, wanted, progress=progress, damaged=damage.note):
            if _selected(line, selection, damage) is not None:
                target.write(line.text if values else line_without_values(line.text))
                count += 1
    if str(file) != "-":
        output.show(
            lambda: count,
            table=lambda count: f"{views.counted(count, 'record')} written to {file}",
            data=lambda count: {"file": str(file), "records": count},
        )
    damage.complain()


def _wait() -> bool:
    time.sleep(POLL_S)
    return True


def _selected(line: Line, selection: Selection, damage: _Damage) -> Record | None:
    if not selection.may_have(line.text):
        return None
    try:
        record = decode(line.text)
    except JournalError as error:
        damage.note(error)
        return None
    return record if selection.has(record) else None


def _show(
    line: Line, output: Output, selection: Selection, damage: _Damage, *, values: bool
) -> None:
    record = _selected(line, selection, damage)
    if record is not None:
        click.echo(
            views.raw(line.text, values=values)
            if output.as_json
            else views.record(record, selection.topic, values=values)
        )


@contextmanager
def _file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """What is written to it gets its name at the end of the block."""
    if str(path) == "-":
        yield sys.stdout.buffer
        return
    if path.exists() and not force:
        raise Negative(f"{path} is there already; --force replaces it")
    try:
        with new_file(path) as file:
            if path.suffix != ".gz":
                yield file
                return
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packing:
                yield packing  # type: ignore[misc]
    except OSError as error:
        raise Negative(f"cannot write {path}: {error.strerror}") from error
