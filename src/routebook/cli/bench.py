"""``routebook bench``: route queries per second, and how long each takes.

Every connection keeps ``depth`` questions in flight and asks the next as soon as one is answered.
Nodes are measured one after the other, so that each has the whole generator to itself.
"""

import asyncio
import math
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from routebook.cli.columns import Column, Kind, documents_of, table_of
from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.loops import run_loop
from routebook.cli.nameservers import Asking, asking_options, failure
from routebook.cli.output import Output, json_option, say
from routebook.client import (
    ConnectionLost,
    Dialing,
    NameServerClient,
    NameServerError,
    NodeError,
    Refused,
)
from routebook.client.connection import Connection
from routebook.client.dialing import dial, numeric_endpoints, resolved
from routebook.client.node import Answer
from routebook.client.reasons import why_not_connected
from routebook.client.requests import checked, route_question
from routebook.wire.address import Address
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command

REDIAL_S = 0.1
NO_ANSWER = "no answer in time"
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of each node: ``connections`` times ``depth`` questions at any time."""

    question: Command
    connections: int
    depth: int
    seconds: float
    timeout_s: float


@dataclass(slots=True)
class Tally:
    """What became of the questions: routes, answers that are none, and no answers."""

    latencies_s: "array[float]" = field(default_factory=lambda: array("d"))
    refusals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Measured:
    """``busy`` is the share of one core the generator used. Latencies are sorted."""

    node: Address
    seconds: float
    busy: float
    latencies_s: Sequence[float]
    refusals: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def errors(self) -> Counter[str]:
        return self.refusals + self.failures

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds

    def latency_ms(self, percent: float) -> float | None:
        """The smallest latency that ``percent`` of the answers did not exceed; None without any."""
        if not self.latencies_s:
            return None
        rank = math.ceil(len(self.latencies_s) * percent / 100)
        return round(self.latencies_s[max(rank, 1) - 1] * 1000, 3)


@click.command()
@click.option("-t", "--topic", help="Ask for this topic; else for the first one there is.")
@click.option("--connections", type=click.IntRange(1, 1000), default=4, show_default=True)
@click.option(
    "--depth",
    type=click.IntRange(1, 10_000),
    default=16,
    show_default=True,
    help="Questions in flight on each connection.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long each node is asked.",
)
@json_option
@asking_options
def bench(
    asking: Asking,
    topic: str | None,
    connections: int,
    depth: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Measure how fast NameServers answer route queries, one node after the other.

    Exit code 1 when some questions were not answered with a route, 3 when none was answered.
    """

    async def measured() -> tuple[str, list[Measured]]:
        async with asking.client() as client:
            chosen = topic or await _some_topic(client)
            load = Load(route_question(chosen), connections, depth, seconds, asking.timeout_s)
            nodes = await client.nodes()
        return chosen, [await measure(node, load, asking.dialing) for node in nodes]

    try:
        chosen, results = run_loop(measured())
    except NameServerError as error:
        raise failure(error) from error
    Output(as_json).show(
        lambda: results,
        table=lambda results: table_of(COLUMNS, results, title=f"topic {chosen}"),
        data=lambda results: {
            "topic": chosen,
            "connections": connections,
            "depth": depth,
            "nodes": documents_of(COLUMNS, results),
        },
    )
    say(
        f"The generator, one Python process, used {max(r.busy for r in results):.0%} of a core;"
        " towards 100% it is the limit and not the nodes."
    )
    _judge(results)


async def _some_topic(client: NameServerClient) -> str:
    topics = await client.topics()
    if not topics:
        raise Negative("the NameServers know no topic to ask for; name one with --topic")
    return topics[0]


def _judge(results: Sequence[Measured]) -> None:
    said = [
        f"{result.node}: {count} x {error}"
        for result in results
        for error, count in result.errors.most_common(3)
    ]
    if not said:
        return
    if not any(result.latencies_s or result.refusals for result in results):
        raise CannotAsk("no question was answered: " + "; ".join(said))
    raise Negative("not every question was answered with a route: " + "; ".join(said))


# -- measuring


async def measure(node: Address, load: Load, dialing: Dialing) -> Measured:
    """Ask one node for ``load.seconds``; answers that come later do not count."""
    loop = asyncio.get_running_loop()
    tally = Tally()
    opened = await asyncio.gather(*(_opened(node, dialing, tally) for _ in range(load.connections)))
    began, worked = loop.time(), time.thread_time()
    stream = _Stream(node, load, dialing, tally, until=began + load.seconds)
    await asyncio.gather(*map(stream.run, opened))
    # Longer than the window only while the last answers are waited for.
    busy = (time.thread_time() - worked) / max(load.seconds, loop.time() - began)
    return Measured(
        node, load.seconds, busy, sorted(tally.latencies_s), tally.refusals, tally.failures
    )


async def _opened(node: Address, dialing: Dialing, tally: Tally) -> Connection | None:
    """A new connection; None and one error more when there is none to be had."""
    try:
        async with asyncio.timeout(dialing.connect_timeout_s):
            return await dial(node, numeric_endpoints(node) or await resolved(node), dialing)
    except TimeoutError:
        tally.failures["no connection in time"] += 1
    except OSError as error:
        tally.failures[f"no connection: {why_not_connected(error)}"] += 1
    return None


class _Stream:
    """Questions over connections, each of which is replaced when it breaks."""

    def __init__(
        self, node: Address, load: Load, dialing: Dialing, tally: Tally, *, until: float
    ) -> None:
        self._node = node
        self._load = load
        self._dialing = dialing
        self._tally = tally
        self._until = until
        self._gave_up: set[Connection] = set()
        self._loop = asyncio.get_running_loop()

    async def run(self, connection: Connection | None) -> None:
        """Ask over one connection, and its successors, until the time is over."""
        while True:
            if connection is not None:
                await self._use(connection)
            if self._loop.time() + REDIAL_S >= self._until:
                return
            await asyncio.sleep(REDIAL_S)
            connection = await _opened(self._node, self._dialing, self._tally)

    async def _use(self, connection: Connection) -> None:
        """Until the time is over and the last answers are there, or the connection breaks."""
        try:
            for _ in range(self._load.depth):
                self._ask(connection)
            try:
                async with asyncio.timeout_at(self._until):
                    await connection.wait_lost()
            except TimeoutError:
                await self._drain(connection)
        finally:
            await connection.close()

    def _ask(self, connection: Connection) -> None:
        try:
            (pending,) = connection.send([self._load.question])
        except ConnectionLost:
            return  # asked again over the next one
        sent_at = time.perf_counter()  # the loop's own clock may count in milliseconds

        def answered(answer: "asyncio.Future[Command]") -> None:
            latency_s = time.perf_counter() - sent_at
            error = answer.exception()
            if isinstance(error, NodeError):
                what = NO_ANSWER if connection in self._gave_up else error.what
                self._tally.failures[what] += 1
            elif self._loop.time() < self._until:
                self._take(answer.result(), latency_s)
                self._ask(connection)

        pending.answer.add_done_callback(answered)

    def _take(self, answer: Command, latency_s: float) -> None:
        if answer.code == ResponseCode.SUCCESS:
            self._tally.latencies_s.append(latency_s)
        else:
            self._tally.refusals[self._refusal(answer)] += 1

    def _refusal(self, answer: Command) -> str:
        try:
            checked(self._load.question, Answer(self._node, answer))
        except Refused as error:
            return error.what
        raise AssertionError(answer.code)

    async def _drain(self, connection: Connection) -> None:
        deadline = self._loop.time() + self._load.timeout_s
        while connection.in_flight and self._loop.time() < deadline:  # noqa: ASYNC110 - for two reasons
            await asyncio.sleep(0.005)
        self._gave_up.add(connection)


# -- showing


def _columns() -> Sequence[Column[Measured]]:
    def latency(name: str, heading: str, percent: int) -> Column[Measured]:
        return Column(
            name,
            heading,
            lambda result: result.latency_ms(percent),
            shown=lambda latency_ms: f"{latency_ms:.2f}",
            kind=Kind.NUMBER,
        )

    return (
        Column("node", "node", lambda result: str(result.node)),
        Column("seconds", None, lambda result: result.seconds),
        Column("answers", None, lambda result: len(result.latencies_s)),
        Column(
            "per_second",
            "routes/s",
            lambda result: round(result.per_second, 1),
            shown=lambda per_second: f"{per_second:.0f}",
            kind=Kind.NUMBER,
        ),
        *(latency(f"p{percent}_ms", f"p{percent} ms", percent) for percent in PERCENTILES),
        latency("max_ms", "max ms", 100),
        Column(
            "errors",
            "errors",
            lambda result: dict(result.errors),
            shown=lambda errors: sum(errors.values()),
            kind=Kind.NUMBER,
        ),
        Column("generator_busy", None, lambda result: round(result.busy, 3)),
    )


COLUMNS = _columns()
