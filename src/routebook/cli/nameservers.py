"""Options of every command that asks NameServers, and the client they make.

@click.command()
@asking_options
def topics(asking: Asking) -> None:
    names = asking.run(lambda client: client.topics())
"""

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import click

from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.output import note
from routebook.client import (
    AllNodesFailed,
    Credentials,
    Dialing,
    NameServerClient,
    NameServerError,
    Relayed,
    Tls,
)
from routebook.client.errors import answered
from routebook.client.sources import AddressSource, find_source
from routebook.plain import one_line
from routebook.words import span

Result = TypeVar("Result")


class Asking:
    """Which NameServers are asked, and how."""

    def __init__(self, source: AddressSource, dialing: Dialing, timeout_s: float) -> None:
        self.source = source
        self.dialing = dialing
        self.timeout_s = timeout_s
        self.tells_age = False  # whether the command itself says how old a relay's answers are
        self._running: tuple[asyncio.Runner, NameServerClient] | None = None

    def client(self) -> NameServerClient:
        """A client of one's own, for a loop of one's own."""
        return NameServerClient(self.source, timeout_s=self.timeout_s, dialing=self.dialing)

    def run(self, work: Callable[[NameServerClient], Awaitable[Result]]) -> Result:
        """``work`` to its end; errors of NameServers become one sentence.

        Every ``run`` has the same client, which keeps to the node it found.
        """
        if self._running is None:
            runner = asyncio.Runner()
            runner.get_loop().set_default_executor(_Unawaited())
            self._running = runner, self.client()
        runner, client = self._running

        async def with_client() -> Result:
            return await work(client)

        try:
            return runner.run(with_client())
        except NameServerError as error:
            raise failure(error) from error

    def close(self) -> None:
        if self._running is not None:
            runner, client = self._running
            self._running = None
            for node, told in client.relays.items() if not self.tells_age else ():
                note(f"{node} is a relay; {age_of(told)}")
            with runner:
                runner.run(client.close())


class _Unawaited(ThreadPoolExecutor):
    """Threads nobody waits for: a resolver may hang far longer than a command may take."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever awaits it decides
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future


def failure(error: NameServerError) -> click.ClickException:
    """``error`` as the sentence and the exit code of a command."""
    if answered(error):
        return Negative(str(error))
    if isinstance(error, AllNodesFailed):
        return CannotAsk(f"{error}; check that they run, and that -n or NAMESRV_ADDR names them")
    return CannotAsk(str(error))


def age_of(told: Relayed) -> str:
    """How old what a relay says is, and why it is not newer."""
    age = f"what it says is up to {span(told.age_ms)} old"
    return age if told.doubt is None else f"{age} and stale: {one_line(told.doubt)}"


def asking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the options and an ``asking: Asking``."""

    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        asking = asking_of(given)
        others = {name: value for name, value in given.items() if name not in _NAMES}
        try:
            return command(asking=asking, **others)
        finally:
            asking.close()

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def asking_of(given: Mapping[str, Any], *, timeout_s: float | None = None) -> Asking:
    """What the options say, by the names of their parameters; raises UsageError."""
    return Asking(
        _source(given["namesrv_addr"], given["unit_name"]),
        Dialing(
            tls=_tls(
                given["tls"],
                given["tls_trust"],
                given["tls_cert"],
                given["tls_key"],
                given["tls_insecure"],
            ),
            credentials=_credentials(given["access_key"], given["secret_key"]),
        ),
        timeout_s or given["timeout_s"],
    )


_NAMES = {
    "namesrv_addr",
    "unit_name",
    "timeout_s",
    "tls",
    "tls_trust",
    "tls_cert",
    "tls_key",
    "tls_insecure",
    "access_key",
    "secret_key",
}


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "-n",
        "--namesrv-addr",
        "--namesrvAddr",
        "namesrv_addr",
        metavar="HOST:PORT;...",
        help="NameServers to ask; else NAMESRV_ADDR, else the HTTP address service.",
    ),
    click.option("--unit-name", metavar="NAME", help="Unit name for the HTTP address service."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0, min_open=True),
        default=3.0,
        show_default=True,
        metavar="SECONDS",
        help="Deadline of each question.",
    ),
    click.option("--tls", is_flag=True, help="Speak TLS."),
    click.option("--tls-trust", type=_FILE, help="Authorities to verify nodes with (PEM)."),
    click.option("--tls-cert", type=_FILE, help="Certificate to show (PEM)."),
    click.option("--tls-key", type=_FILE, help="Its key (PEM)."),
    click.option("--tls-insecure", is_flag=True, help="Take any certificate."),
    click.option(
        "--access-key", envvar="ROCKETMQ_ACCESS_KEY", metavar="KEY", help="Sign requests (ACL)."
    ),
    click.option(
        "--secret-key",
        envvar="ROCKETMQ_SECRET_KEY",
        metavar="KEY",
        help="Better given as ROCKETMQ_SECRET_KEY: other users see command lines.",
    ),
)


def _source(namesrv_addr: str | None, unit: str | None) -> AddressSource:
    try:
        return find_source(option=namesrv_addr, unit=unit)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _tls(
    wanted: bool, trust: Path | None, cert: Path | None, key: Path | None, insecure: bool
) -> Tls | None:
    if not (wanted or trust or cert or insecure):
        return None
    settings = Tls(trust=trust, cert=cert, key=key, verify=not insecure)
    try:
        settings.context()
    except OSError as error:
        raise click.UsageError(f"the TLS files cannot be used: {error}") from error
    return settings


def _credentials(access_key: str | None, secret_key: str | None) -> Credentials | None:
    if access_key is None and secret_key is None:
        return None
    if not access_key or not secret_key:
        raise click.UsageError("--access-key and --secret-key go together")
    return Credentials(access_key, secret_key)
