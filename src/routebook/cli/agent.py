"""``routebook agent``: keep the services of a brokers.toml registered as brokers."""

import asyncio
import logging
import signal
from dataclasses import replace
from pathlib import Path

import click

from routebook.agent.agents import Agents
from routebook.agent.config import AgentConfig, BadConfig, load
from routebook.cli.errors import CannotStart
from routebook.cli.loops import completed, run_loop, say_now, stop_signals
from routebook.cli.nameservers import Asking, asking_options, failure
from routebook.client import NameServerError
from routebook.logs.writing import logging_to_stderr
from routebook.version import __version__

logger = logging.getLogger(__name__)


@click.command()
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="brokers.toml; read again at SIGHUP.",
)
@click.option("--check", is_flag=True, help="Only say whether the file is right.")
@click.option(
    "--leave-wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="Before leaving, be without write permission for this long.",
)
@asking_options
@click.pass_context
def agent(context: click.Context, asking: Asking, path: Path, check: bool, wait_s: float) -> None:
    """Register services as brokers and keep them registered until told to stop.

    -n and --tls-* are stronger than the file; NAMESRV_ADDR and the HTTP address service are asked
    when neither names NameServers.
    """
    given = _Given(path, context.params["namesrv_addr"], context.params["unit_name"])
    try:
        config = given.load()
    except BadConfig as error:
        raise CannotStart(str(error)) from error
    if check:
        topics = sum(len(broker.topics) for broker in config.brokers)
        click.echo(f"{path} is right (brokers: {len(config.brokers)}, topics: {topics})")
        return
    with logging_to_stderr():
        try:
            run_loop(
                _run(given, config, Agents(asking.dialing, timeout_s=asking.timeout_s), wait_s)
            )
        except NameServerError as error:
            raise failure(error) from error


class _Given:
    """The file, and what the command line has to say against it."""

    def __init__(self, path: Path, namesrv_addr: str | None, unit: str | None) -> None:
        self.path = path
        self._namesrv_addr = namesrv_addr
        self._unit = unit

    def load(self) -> AgentConfig:
        """Raises BadConfig, also for TLS files that cannot be used."""
        config = load(self.path)
        if config.tls is not None:
            try:
                config.tls.context()
            except OSError as error:
                raise BadConfig(f"{self.path}: tls: the files cannot be used: {error}") from error
        return replace(
            config,
            nameservers=config.nameservers if self._namesrv_addr is None else self._namesrv_addr,
            unit=self._unit or config.unit,
        )


async def _run(given: _Given, config: AgentConfig, agents: Agents, wait_s: float) -> None:
    stop, reload = stop_signals(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    loop.add_signal_handler(signal.SIGUSR1, agents.log_status)
    watching: asyncio.Task[None] | None = None
    try:
        if await completed(agents.apply(config), unless=stop):
            say_now(_ready(agents))
            watching = asyncio.create_task(agents.watch())
            while await completed(_signalled(reload), unless=stop):
                reload.clear()
                await completed(_reload(given, agents), unless=stop)
            say_now("leaving")
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await agents.leave(wait_s=wait_s)
    say_now("stopped")


async def _signalled(event: asyncio.Event) -> None:
    await event.wait()


async def _reload(given: _Given, agents: Agents) -> None:
    try:
        await agents.apply(given.load())
    except (BadConfig, NameServerError) as error:
        logger.error("nothing has changed: %s", error)  # noqa: TRY400 - it is a sentence
    else:
        logger.info("%s is in effect (brokers: %d)", given.path, len(agents))


def _ready(agents: Agents) -> str:
    statuses = [status for _, status in agents.statuses()]
    nodes = {status.address for status in statuses}
    done = sum(status.acknowledged is not None for status in statuses)
    return (
        f"routebook {__version__} agent ready (brokers: {len(agents)}, nodes: {len(nodes)},"
        f" registered: {done} of {len(statuses)})"
    )
