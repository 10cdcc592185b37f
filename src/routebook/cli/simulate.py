"""``routebook simulate``: a cluster of simulated brokers, with faults."""

import asyncio
import itertools
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from routebook.cli.columns import Column, Kind, table_of
from routebook.cli.errors import CannotAsk
from routebook.cli.loops import completed, run_loop, say_now, stop_signals
from routebook.cli.nameservers import Asking, asking_options, failure
from routebook.cli.output import console, json_option
from routebook.client import NameServerError
from routebook.logs.writing import logging_to_stderr
from routebook.plain import json_text, one_line
from routebook.simulation.broker import BrokerView
from routebook.simulation.cluster import Happened, SimulatedCluster
from routebook.simulation.faults import FAULT_KINDS, Fault, FaultKind, random_faults

REFRESH_S = 0.5
RECENT = 8  # events below the live table
ABOVE_AND_BELOW = RECENT + 8  # lines of a terminal that are not rows


def _parse_faults(
    context: click.Context, option: click.Parameter, text: str
) -> tuple[FaultKind, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known: dict[str, FaultKind] = {kind: kind for kind in FAULT_KINDS}
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(FAULT_KINDS)}")
    return tuple(known[name] for name in names)


@click.command()
@click.option("--brokers", type=click.IntRange(1, 10_000), default=3, show_default=True)
@click.option(
    "--topics",
    type=click.IntRange(0, 200_000),
    default=10,
    show_default=True,
    help="On every broker, the same ones.",
)
@click.option("--queues", type=click.IntRange(1, 1024), default=8, show_default=True)
@click.option("--cluster", default="SimulatedCluster", show_default=True, metavar="NAME")
@click.option("--prefix", default="broker", show_default=True, help="Brokers are PREFIX-0, ...")
@click.option(
    "--faults",
    default="",
    callback=_parse_faults,
    metavar="KIND,...",
    help=f"What may go wrong: {', '.join(FAULT_KINDS)}.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Between faults, on average.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same seed, the same faults."
)
@click.option(
    "--duration",
    "duration_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Without it: until Ctrl-C.",
)
@click.option("--listen", is_flag=True, help="Brokers accept connections on ports of 127.0.0.1.")
@click.option(
    "--heartbeat-timeout",
    "heartbeat_timeout_s",
    type=click.FloatRange(min=0.5),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long NameServers list a broker that hangs.",
)
@click.option("--kill", is_flag=True, help="End without unregistering.")
@json_option
@asking_options
def simulate(
    asking: Asking,
    brokers: int,
    topics: int,
    queues: int,
    cluster: str,
    prefix: str,
    faults: tuple[FaultKind, ...],
    every_s: float,
    seed: int,
    duration_s: float | None,
    listen: bool,
    heartbeat_timeout_s: float,
    kill: bool,
    as_json: bool,
) -> None:
    """Run a cluster of simulated brokers through the agent real services use.

    On a terminal a table shows how the brokers stand; elsewhere each event is a line.
    """
    screen = console()
    show: _Lines | _Screen
    show = _Screen(screen, cluster) if screen.is_terminal and not as_json else _Lines(as_json)
    simulation = SimulatedCluster(
        asking.source,
        brokers=brokers,
        topics=topics,
        queues=queues,
        cluster=cluster,
        prefix=prefix,
        listen=listen,
        heartbeat_timeout_s=heartbeat_timeout_s,
        dialing=asking.dialing,
        on_event=show.event,
    )
    plan = random_faults(faults, brokers=brokers, seed=seed, every_s=every_s) if faults else ()
    if duration_s is not None:
        limit_s = duration_s
        plan = itertools.takewhile(lambda fault: fault.at_s < limit_s, plan)
    with show.shown(simulation):
        try:
            run_loop(_simulate(simulation, iter(plan), duration_s, kill, show))
        except NameServerError as error:
            raise failure(error) from error


async def _simulate(
    simulation: SimulatedCluster,
    plan: Iterator[Fault],
    duration_s: float | None,
    kill: bool,
    show: "_Lines | _Screen",
) -> None:
    stop = stop_signals()
    stopping = asyncio.create_task(stop.wait())
    playing: asyncio.Task[None] | None = None
    loop = asyncio.get_running_loop()
    try:
        show.draw()
        if await completed(simulation.start(), unless=stop):
            _check_registered(simulation.views())
            playing = asyncio.create_task(simulation.play(plan))
            left_s = duration_s or math.inf
            until = loop.time() + left_s
            while not stopping.done() and left_s > 0:
                await asyncio.wait([stopping], timeout=min(REFRESH_S, left_s))
                show.draw()
                if playing.done():
                    playing.result()  # a bug ends it all, the last fault does not
                left_s = until - loop.time()
    finally:
        await simulation.end(kill=kill)
        show.draw()
        if playing is not None:
            await playing
        stopping.cancel()


def _check_registered(views: list[BrokerView]) -> None:
    if not any(view.registered for view in views):
        raise CannotAsk(f"no NameServer took a registration: {views[0].error}")


class _Lines:
    """Each event is a line."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    @contextmanager
    def shown(self, simulation: SimulatedCluster) -> Iterator[None]:
        with logging_to_stderr(logging.WARNING):
            yield

    def draw(self) -> None:
        """Nothing: all of it has been said."""

    def event(self, event: Happened) -> None:
        say_now(_json_line(event) if self._as_json else _line(event))


class _Screen:
    """A table of the brokers, drawn again and again, and the last events."""

    def __init__(self, screen: Console, cluster: str) -> None:
        self._screen = screen
        self._cluster = cluster
        self._recent: list[Happened] = []
        self._simulation: SimulatedCluster | None = None

    @contextmanager
    def shown(self, simulation: SimulatedCluster) -> Iterator[None]:
        self._simulation = simulation
        # Log lines would tear the table apart; what they say is in it.
        with (
            logging_to_stderr(logging.CRITICAL),
            Live(console=self._screen, auto_refresh=False) as self._live,
        ):
            yield

    def draw(self) -> None:
        self._live.update(self._drawn(), refresh=True)

    def event(self, event: Happened) -> None:
        self._recent = [*self._recent, event][-RECENT:]

    def _drawn(self) -> RenderableType:
        assert self._simulation is not None
        rows = max(3, self._screen.height - ABOVE_AND_BELOW)
        views = self._simulation.views()
        return Group(
            brokers_table(self._cluster, views, rows),
            *(Text(_line(event)) for event in self._recent),
        )


COLUMNS = (
    Column[BrokerView](None, "broker", lambda view: view.name),
    Column[BrokerView](None, "address", lambda view: view.addr),
    Column[BrokerView](None, "id", lambda view: view.broker_id, kind=Kind.NUMBER),
    Column[BrokerView](
        None, "state", lambda view: view.state if view.writable else f"{view.state}, read-only"
    ),
    Column[BrokerView](None, "topics", lambda view: view.topics, kind=Kind.NUMBER),
    Column[BrokerView](None, "nodes", lambda view: f"{view.registered} of {view.nodes}"),
    Column[BrokerView](None, "last error", lambda view: view.error or "", kind=Kind.PROSE),
)


def brokers_table(cluster: str, views: list[BrokerView], rows: int) -> RenderableType:
    """At most ``rows`` brokers, those that are not as they should be first."""
    ordered = sorted(views, key=_well)
    well = sum(map(_well, views))
    table = table_of(
        COLUMNS,
        ordered[:rows],
        title=f"{cluster}: {well} of {len(views)} brokers registered everywhere",
    )
    hidden = len(views) - rows
    return Group(table, Text(f"... and {hidden} more")) if hidden > 0 else table


def _well(view: BrokerView) -> bool:
    return view.state == "up" and view.writable and view.registered == view.nodes > 0


def _line(event: Happened) -> str:
    return one_line(f"{event.at_s:.3f} {event.broker} {event.what} {event.detail}")


def _json_line(event: Happened) -> str:
    return json_text(
        {
            "at_s": event.at_s,
            "broker": event.broker,
            "event": event.what,
            "detail": event.detail,
        }
    )
