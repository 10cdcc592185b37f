"""``routebook spark watch``: follow journals and raise alerts."""

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from routebook.cli.output import say
from routebook.disk import write_file
from routebook_spark.alerts.protobuf import check_protobuf
from routebook_spark.commands.options import Engine, JobFailed
from routebook_spark.errors import NoSuchFolder, NotAFolder, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.streaming.query import StreamingQuery

    from routebook_spark.alerts.limits import Limits
    from routebook_spark.alerts.sinks import Sink

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LOOK_S = 0.3
_ENDS_S = 10.0
_MOST_PARTITIONS = 8
_FOLDERS = "routebook-folders.json"


class OtherFolders(PipelineError):
    """A checkpoint that belongs to other folders."""

    def __init__(self, checkpoint: str, folders: list[str]) -> None:
        super().__init__(
            f"the checkpoint {checkpoint} is of {', '.join(folders)}; watch the same folders, or"
            " name another checkpoint (nodes that come into a watched folder later need none)"
        )


class _Span(click.ParamType[float]):
    """``10s``, ``2m``, ``500ms``: seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", str(value).strip())
        if found is None or not float(found[1]):
            self.fail(f"{value!r} is no span of time: write 10s, 2m or 1h", param, ctx)
        return float(found[1]) * _UNITS_S[found[2]]


def _address(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    if given is not None:
        try:
            parts = urlsplit(given)
        except ValueError as error:
            raise click.BadParameter(f"{error}", ctx, param) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise click.BadParameter("write https://host/path", ctx, param)
    return given


_PERCENT = click.FloatRange(0, 100, min_open=True)
_RATE = click.FloatRange(0, min_open=True)


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option(
    "--checkpoint",
    required=True,
    metavar="DIR",
    help="Where the watch remembers how far it came and what is open.",
)
@click.option(
    "--every",
    "every_s",
    type=_Span(),
    default="10s",
    show_default=True,
    help="How often to look for new records.",
)
@click.option(
    "--fleet",
    default="",
    metavar="NAME",
    help="The set of NameServers these are; nodes are compared within one only. Default: what each"
    " node says.",
)
@click.option("--once", is_flag=True, help="Take what there is, and end.")
@click.option(
    "--alerts",
    "alerts_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append alerts to this file, a line of JSON each.",
)
@click.option(
    "--webhook",
    callback=_address,
    metavar="URL",
    help="POST alerts there, each as JSON, until they are taken.",
)
@click.option(
    "--outbox",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where alerts wait for the webhook. Default: beside the checkpoint.",
)
@click.option("--json", "as_json", is_flag=True, help="Print alerts as JSON.")
@click.option(
    "--flap-penalty",
    type=_RATE,
    default=2000,
    show_default=True,
    help="Flapping: 1000 for each time a broker comes or goes, half of it 15 minutes later.",
)
@click.option(
    "--late-percent",
    type=_PERCENT,
    default=75,
    show_default=True,
    help="Late heartbeats: a gap of more than this part of the timeout.",
)
@click.option(
    "--divergence",
    "divergence_s",
    type=_Span(),
    default="90s",
    show_default=True,
    help="Divergence: nodes disagree about a broker for longer.",
)
@click.option(
    "--stall",
    "stall_s",
    type=_Span(),
    default="5s",
    show_default=True,
    help="Stalled nodes: one was not awake for this long.",
)
@click.option(
    "--mass-loss-percent",
    type=_PERCENT,
    default=30,
    show_default=True,
    help="Mass loss: a node loses more than this part of its brokers within a minute.",
)
@click.option(
    "--size-percent",
    type=_PERCENT,
    default=75,
    show_default=True,
    help="Registration size: this part of the 16 MiB a frame can hold.",
)
@click.option(
    "--unknown-per-minute",
    type=_RATE,
    default=300,
    show_default=True,
    help="Unknown topics: a node is asked for one of them more often.",
)
@click.option(
    "--all-unknown-per-minute",
    type=_RATE,
    default=3000,
    show_default=True,
    help="Unknown topics: a node is asked for all of them together more often.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Where Spark runs, such as spark://host:7077. Default: all cores of this machine.",
)
@click.option(
    "--memory",
    default="1g",
    show_default=True,
    metavar="SIZE",
    help="Memory of Spark in this process.",
)
@click.option("--debug", is_flag=True, help="Show an error as Spark tells it, with its stack.")
def watch(
    folders: tuple[str, ...],
    checkpoint: str,
    every_s: float,
    fleet: str,
    once: bool,
    alerts_file: Path | None,
    webhook: str | None,
    outbox: Path | None,
    as_json: bool,
    master: str | None,
    memory: str,
    debug: bool,
    **limits: float,
) -> None:
    """Follow the journals in FOLDER and below it and raise alerts.

    Brokers that flap, heartbeats that are nearly too late, nodes that disagree, mass loss,
    registrations near the frame limit, storms of queries for unknown topics, lost records,
    nodes that were killed, slept, or cannot be read. Each is told once when it is raised and
    once when it is resolved, also across restarts with the same checkpoint.

    FOLDER may be a pattern in quotes, such as '/data/*/journal'; what fits it later is
    followed too.
    """
    engine = Engine("", master, memory, debug)
    with engine.sentences(), ExitStack() as stack:
        paths = [_folder(folder) for folder in folders]
        _check_folders(checkpoint, sorted(paths))
        _mention_empty(paths)
        check_protobuf()  # before Spark is started in vain
        spark = stack.enter_context(engine.session("watch", settings=_settings(master)))
        from routebook_spark import watch as watching
        from routebook_spark.alerts.sinks import as_json as plainly

        sinks = _sinks(checkpoint, alerts_file, webhook, outbox, as_json=as_json)
        for sink in sinks:
            stack.enter_context(closing(sink))

        def tell(number: int, rows: list["Row"]) -> None:
            told = [plainly(row.asDict()) for row in rows]
            # The console last: what is seen there is kept elsewhere already.
            for sink in reversed(sinks):
                sink.tell(told)

        query = watching.follow(
            spark,
            paths,
            watching.Watching(
                checkpoint=checkpoint,
                every_s=None if once else every_s,
                fleet=fleet,
                limits=_limits(**limits),
            ),
            tell=tell,
        )
        _remember_folders(checkpoint, sorted(paths))
        _wait(query, ", ".join(folders))


def _settings(master: str | None) -> dict[str, str]:
    settings = {"spark.sql.shuffle.partitions": str(_partitions(master))}
    with suppress(ImportError):  # the session says what is missing
        from routebook_spark.session import QUIET

        # A query that is stopped looks for the reason in a long message, by a pattern that recurses
        # for each letter of it.
        settings["spark.driver.extraJavaOptions"] = f"{QUIET} -Xss16m"
    return settings


def _partitions(master: str | None) -> int:
    """Of the state; each costs a trigger its share, and there are only so many buckets."""
    if master is None or master.startswith("local"):
        return min(os.cpu_count() or 1, _MOST_PARTITIONS)
    return _MOST_PARTITIONS


def _folder(given: str) -> str:
    """As the source wants it: a folder, or a pattern below one that is there."""
    from routebook.journal.errors import JournalError
    from routebook_spark.source.roots import root_of

    if Path(given.removeprefix("file://")).is_file():
        raise NotAFolder(given)
    try:
        root = root_of(given)
    except JournalError as error:
        if "://" in given.removeprefix("file://"):
            raise JobFailed(str(error)) from error
        raise NoSuchFolder(given) from error
    return str(root.base.resolve() / root.pattern)


def _limits(
    *,
    flap_penalty: float,
    late_percent: float,
    divergence_s: float,
    stall_s: float,
    mass_loss_percent: float,
    size_percent: float,
    unknown_per_minute: float,
    all_unknown_per_minute: float,
) -> "Limits":
    from routebook_spark.alerts.limits import Limits

    return Limits(
        flap_penalty=flap_penalty,
        late_share=late_percent / 100,
        divergence_s=divergence_s,
        stall_s=stall_s,
        mass_loss_share=mass_loss_percent / 100,
        size_share=size_percent / 100,
        unknown_per_minute=unknown_per_minute,
        all_unknown_per_minute=all_unknown_per_minute,
    )


def _sinks(
    checkpoint: str,
    alerts_file: Path | None,
    webhook: str | None,
    outbox: Path | None,
    *,
    as_json: bool,
) -> list["Sink"]:
    from routebook_spark.alerts.sinks import Console, JsonLines, Outbox, Webhook

    found: list[Sink] = [Console(sys.stdout, as_json=as_json)]
    if alerts_file is not None:
        found.append(JsonLines(alerts_file))
    if webhook is not None:
        beside = _local(checkpoint)
        if outbox is None and beside is None:
            raise JobFailed("the checkpoint is not on this machine; --outbox says where to wait")
        folder = outbox or Path(f"{beside}-outbox")
        found.append(Webhook(webhook, Outbox(folder)))
    return found


# -- the folders a checkpoint is of


def _local(checkpoint: str) -> Path | None:
    path = checkpoint.removeprefix("file://").removeprefix("file:")
    return None if "://" in path else Path(path)


def _check_folders(checkpoint: str, folders: list[str]) -> None:
    """Spark knows the sources of a checkpoint by their places, not by their names."""
    here = _local(checkpoint)
    try:
        known = json.loads((here / _FOLDERS).read_text(encoding="utf-8")) if here else folders
    except (OSError, ValueError):
        return
    if known != folders:
        raise OtherFolders(checkpoint, known)


def _remember_folders(checkpoint: str, folders: list[str]) -> None:
    here = _local(checkpoint)
    if here is not None:
        here.mkdir(parents=True, exist_ok=True)
        write_file(here / _FOLDERS, json.dumps(folders).encode())


# -- running


def _mention_empty(folders: list[str]) -> None:
    """Journals may come later; but silence for want of them looks like all is well."""
    from routebook_spark.source.roots import root_of

    for folder in folders:
        root = root_of(folder)
        if not root.journals():
            where = f"what fits {folder}" if root.pattern else f"{folder} or below it"
            say(f"there is no journal in {where} yet")


def _wait(query: "StreamingQuery", what: str) -> None:
    """Until it has ended by itself, or Ctrl-C or SIGTERM say so; raises what it failed with."""
    with _told_to_stop() as stop:
        say(f"watching {what}; Ctrl-C ends it")
        while query.isActive and not stop.wait(_LOOK_S):
            pass
        failed = query.exception()
        _end(query)
        if failed is not None:
            raise failed


def _end(query: "StreamingQuery") -> None:
    """When the trigger under way is done, unless it is a long one."""
    deadline_s = time.monotonic() + _ENDS_S
    before = _done(query)
    while (
        query.isActive
        and query.status["isTriggerActive"]
        and _done(query) == before
        and time.monotonic() < deadline_s
    ):
        time.sleep(_LOOK_S / 10)
    query.stop()


def _done(query: "StreamingQuery") -> int | None:
    """The last trigger; where they follow each other closely none is seen to be over."""
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


@contextmanager
def _told_to_stop() -> Iterator[threading.Event]:
    """Signals only set the event: an exception would come in the middle of a call to Spark."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
