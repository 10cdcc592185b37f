"""``routebook relay``: answer route queries from a cache of its own."""

import asyncio
import logging
import signal
from pathlib import Path

import click
from click.core import ParameterSource

from routebook.cli.errors import CannotStart
from routebook.cli.loops import run_loop, say_now, stop_signals
from routebook.cli.nameservers import Asking, asking_options
from routebook.logs.writing import logging_to_stderr
from routebook.relay.cache import MAX_BYTES
from routebook.relay.relay import DEFAULT_PORT, Relay, RelaySettings
from routebook.settings import ListenSettings, SettingsError, TlsSettings
from routebook.version import __version__

logger = logging.getLogger(__name__)

TIMEOUT_S = 2.0  # clients wait three seconds for a relay

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--listen-port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True
)
@click.option("--bind-address", default="0.0.0.0", show_default=True, metavar="HOST")
@click.option("--listen-cert", type=_FILE, help="Take TLS too, with this certificate (PEM).")
@click.option("--listen-key", type=_FILE, help="Its key (PEM).")
@click.option(
    "--poll",
    "poll_s",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How often what clients ask for is asked anew.",
)
@click.option(
    "--forget-after",
    "forget_after_s",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Forget what NameServers have denied for this long.",
)
@click.option(
    "--max-topics",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Routes held; the one asked for longest ago makes room.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    default=MAX_BYTES,
    show_default=True,
    help="Bytes held for all answers; the one asked for longest ago makes room.",
)
@asking_options
@click.pass_context
def relay(
    context: click.Context,
    asking: Asking,
    listen_port: int,
    bind_address: str,
    listen_cert: Path | None,
    listen_key: Path | None,
    poll_s: float,
    forget_after_s: float,
    max_topics: int,
    max_bytes: int,
) -> None:
    """Answer routes, clusters, topics and broker groups from a cache until told to stop.

    Answers go on when all NameServers are down, and say how old they are. --timeout is the
    deadline of a question to NameServers, 2 seconds unless given.
    """
    if (listen_cert is None) != (listen_key is None):
        raise click.UsageError("--listen-cert and --listen-key go together")
    given = context.get_parameter_source("timeout_s") is not ParameterSource.DEFAULT
    try:
        settings = RelaySettings(
            nameservers=asking.source,
            listen=ListenSettings(bind_address=bind_address, listen_port=listen_port),
            tls=TlsSettings(cert_path=listen_cert, key_path=listen_key),
            dialing=asking.dialing,
            timeout_s=asking.timeout_s if given else TIMEOUT_S,
            poll_s=poll_s,
            forget_after_s=forget_after_s,
            max_topics=max_topics,
            max_bytes=max_bytes,
        )
        with logging_to_stderr():
            run_loop(_run(settings, asking.source.description))
    except SettingsError as error:
        raise CannotStart(str(error)) from error


async def _run(settings: RelaySettings, nameservers: str) -> None:
    stop = stop_signals()
    async with Relay(settings) as relay:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _log_status, relay)
        say_now(
            f"routebook {__version__} relay ready on {relay.address} (NameServers: {nameservers})"
        )
        await stop.wait()
        say_now("stopping")
    say_now("stopped")


def _log_status(relay: Relay) -> None:
    status = relay.status()
    logger.info(
        "status: %d topics, %d bytes, %d forgotten for room, %d denied; %d hits, %d misses,"
        " %d refused; oldest answer %s s, outage %s s",
        status.topics,
        status.held_bytes,
        status.forgotten_for_room,
        status.forgotten_denied,
        status.hits,
        status.misses,
        status.refused,
        "-" if status.oldest_age_s is None else f"{status.oldest_age_s:.1f}",
        "-" if status.outage_s is None else f"{status.outage_s:.1f}",
    )
