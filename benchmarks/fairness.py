"""What bystanders wait for while somebody floods a NameServer with one class of requests.

    python -m benchmarks.fairness [--seconds 5] [--rounds 3] [--floods connections,queries]

A fresh server for each flood, and for each the same four bystanders, one request in flight each:

* a client that asks for a route over a connection it has
* a client that connects anew for every question
* a broker that registers the same again and again
* a broker that registers something new each time

The flood comes from 127.0.0.2, the bystanders from 127.0.0.1. Waits are those of the server and of
the one thread of this program, which serves a bystander between any two pieces of the flood. A
request without an answer when the time is up counts as long as it has waited.
"""

import argparse
import contextlib
import select
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.fleet import many_topics
from benchmarks.frames import (
    Broker,
    UnexpectedAnswer,
    ask,
    connect,
    encode_request,
    registration,
    route_query,
    topic_table,
)
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import REAL_SERVERS, spread
from benchmarks.servers import JAVA_HEAP, CannotRun, Launcher, Server, two_cores

HOST, FLOOD_HOST = "127.0.0.1", "127.0.0.2"
REGISTER_BROKER, ALL_TOPICS, RECENT = 103, 206, 19_002
SERVED_TOPICS = 2_000
FLOODED_TOPICS = 60_000
PIECE = 128 * 1024
READ_BYTES = 256 * 1024
EVENTS_AT_ONCE = 8
PAUSE_NS = 5_000_000  # between two requests of a bystander
CROWD = 1_024
TOPIC = many_topics(1)[0]


def compressed_registration(number: int, topics: Sequence[str], counter: int) -> bytes:
    """As a 5.x broker sends it with compressedRegister."""
    version = b'{"counter":%d,"stateVersion":0,"timestamp":%d}' % (counter, time.time_ns() // 10**6)
    configs = [f"{topic} 8 8 6 SINGLE_TAG {{}}".encode() for topic in topics]
    pieces = [_sized(version), _int(len(configs)), *map(_sized, configs), _sized(b"[]"), _int(0)]
    body = zlib.compress(b"".join(pieces), 1)
    broker = Broker(number)
    fields = {
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        "brokerAddr": broker.address,
        "brokerId": "0",
        "brokerName": broker.name,
        "clusterName": "BenchCluster",
        "compressed": "true",
        "haServerAddr": broker.address,
        "heartbeatTimeoutMillis": "3600000",
    }
    return encode_request(REGISTER_BROKER, fields, body_bytes=len(body)) + body


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _sized(piece: bytes) -> bytes:
    return _int(len(piece)) + piece


class Frames:
    """Counts whole answers in what comes over a connection, and keeps none of them."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    def count(self, data: bytes) -> int:
        whole, position = 0, 0
        while position < len(data):
            if self._left:
                taken = min(self._left, len(data) - position)
                self._left -= taken
                position += taken
                whole += not self._left
                continue
            taken = min(4 - len(self._head), len(data) - position)
            self._head += data[position : position + taken]
            position += taken
            if len(self._head) == 4:
                self._left, self._head = int.from_bytes(self._head, "big"), b""
        return whole


@dataclass(eq=False)
class Bystander:
    """One request in flight, the next one a little after its answer; anew: each on its own."""

    port: int
    request: Callable[[int], bytes]
    anew: bool = False
    waits_ns: list[int] = field(default_factory=list)
    connection: socket.socket | None = None
    _frames: Frames = field(default_factory=Frames)
    _asked_ns: int = 0
    _rest_until_ns: int = 0
    _unsent: bytes = b""

    def look(self) -> None:
        """Ask, send on or receive, as far as that is possible now."""
        now_ns = time.perf_counter_ns()
        if not self._asked_ns:
            if now_ns < self._rest_until_ns:
                return
            if self.connection is None:
                self.connection = opened(self.port, HOST)
            self._asked_ns = now_ns
            self._unsent = self.request(len(self.waits_ns))
        assert self.connection is not None
        try:
            if self._unsent:
                self._unsent = self._unsent[self.connection.send(self._unsent) :]
            data = self.connection.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:  # not connected yet reads as one, too
            if error.errno == 107:  # ENOTCONN
                return
            raise UnexpectedAnswer(f"a bystander was cut off: {error}") from error
        if not data:
            raise UnexpectedAnswer("the server closed the connection of a bystander")
        if self._frames.count(data):
            self._answered()

    def _answered(self) -> None:
        now_ns = time.perf_counter_ns()
        self.waits_ns.append(now_ns - self._asked_ns)
        self._asked_ns, self._rest_until_ns = 0, now_ns + PAUSE_NS
        if self.anew and self.connection is not None:
            self.connection.close()
            self.connection, self._frames = None, Frames()

    def finish(self) -> None:
        if self._asked_ns:
            self.waits_ns.append(time.perf_counter_ns() - self._asked_ns)
        if self.connection is not None:
            self.connection.close()

    def longest_ms(self) -> float:
        return max(self.waits_ns, default=0) / 1e6


def opened(port: int, source: str) -> socket.socket:
    """A connection on its way."""
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.bind((source, 0))
    connection.setblocking(False)
    connection.connect_ex((HOST, port))
    return connection


@dataclass(eq=False)
class Flooder:
    """Sends one request after the other, without waiting for answers if ``pipelined``."""

    connection: socket.socket
    request: Callable[[], bytes]
    pipelined: bool
    answered: int = 0
    _unsent: bytes = b""
    _frames: Frames = field(default_factory=Frames)
    _idle: bool = True

    @property
    def sends(self) -> bool:
        return self.pipelined or self._idle or bool(self._unsent)

    def push(self) -> None:
        if not self._unsent:
            if not (self.pipelined or self._idle):
                return
            self._unsent, self._idle = self.request(), False
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[self.connection.send(self._unsent[:PIECE]) :]

    def pull(self) -> bool:
        """Whether the connection is still there."""
        try:
            data = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if whole := self._frames.count(data):
            self.answered += whole
            self._idle = True
        return bool(data)


def flood(flooders: Sequence[Flooder], bystanders: Sequence[Bystander], seconds: float) -> None:
    by_fd = {flooder.connection.fileno(): flooder for flooder in flooders}
    end = time.perf_counter() + seconds
    with select.epoll() as poller:
        for fd in by_fd:
            poller.register(fd, select.EPOLLIN | select.EPOLLOUT)
        while time.perf_counter() < end:
            for fd, events in poller.poll(0.0005, EVENTS_AT_ONCE):
                flooder = by_fd[fd]
                if events & select.EPOLLOUT and flooder.sends:
                    flooder.push()
                if events & ~select.EPOLLOUT and not flooder.pull():
                    poller.unregister(fd)
                    continue
                poller.modify(fd, select.EPOLLIN | (select.EPOLLOUT if flooder.sends else 0))
                for bystander in bystanders:
                    bystander.look()
            for bystander in bystanders:
                bystander.look()
    for bystander in bystanders:
        bystander.finish()


# -- the floods


@dataclass(frozen=True, slots=True)
class Flood:
    name: str
    title: str
    connections: int
    pipelined: bool = False
    extension: bool = False


FLOODS = (
    Flood("none", "nobody", 0),
    Flood("queries", "route queries, pipelined", 100, pipelined=True),
    Flood("heartbeats", "unchanged registrations, 2,000 topics", 100),
    Flood("registrations", "changed compressed registrations, 60,000 topics", 150),
    Flood("lists", "lists of all topics", 200),
    Flood("recent", "latest records (RECENT)", 400, extension=True),
)
CONNECTIONS = "connections"


def requests_of(kind: Flood) -> Callable[[int], Callable[[], bytes]]:
    """What each connection of a flood sends, by its number."""
    match kind.name:
        case "queries":
            burst = route_query(TOPIC) * 256
            return lambda number: lambda: burst
        case "heartbeats":
            table = topic_table(many_topics(SERVED_TOPICS))
            return lambda number: _repeated(
                b"".join(registration(Broker(300 + number), table, timestamp_ms=1))
            )
        case "registrations":
            topics = [f"flooded-{number:05}" for number in range(FLOODED_TOPICS)]
            made = [compressed_registration(600, topics, counter) for counter in (1, 2)]
            return lambda number: _alternating([_of_broker(frame, 600 + number) for frame in made])
        case "lists":
            return lambda number: _repeated(encode_request(ALL_TOPICS, {}))
        case _:
            return lambda number: _repeated(encode_request(RECENT, {}))


def _repeated(frame: bytes) -> Callable[[], bytes]:
    return lambda: frame


def _alternating(frames: Sequence[bytes]) -> Callable[[], bytes]:
    turn = iter(range(1_000_000))
    return lambda: frames[next(turn) % len(frames)]


def _of_broker(frame: bytes, number: int) -> bytes:
    """The same registration of another broker; names and addresses are as long as the first's."""
    first, other = Broker(600), Broker(number)
    return frame.replace(first.name.encode(), other.name.encode()).replace(
        first.address.encode(), other.address.encode()
    )


def bystanders_at(port: int) -> dict[str, Bystander]:
    table = topic_table(["bystander", TOPIC])
    started_ms = time.time_ns() // 1_000_000

    def changed(number: int) -> bytes:
        return b"".join(registration(Broker(201), table, timestamp_ms=started_ms + number))

    same = b"".join(registration(Broker(200), table, timestamp_ms=started_ms))
    return {
        "query_ms": Bystander(port, lambda number: route_query(TOPIC)),
        "new_client_ms": Bystander(port, lambda number: route_query(TOPIC), anew=True),
        "unchanged_ms": Bystander(port, lambda number: same),
        "changed_ms": Bystander(port, changed),
    }


FIGURES = (
    ("query_ms", "route query"),
    ("new_client_ms", "connect and query"),
    ("unchanged_ms", "unchanged registration"),
    ("changed_ms", "changed registration"),
)


def measure(server: Server, kind: Flood, seconds: float) -> Measured:
    """The longest waits of the bystanders of one flood, in milliseconds."""
    with contextlib.ExitStack() as stack:
        _register_some(server, stack)
        requests = requests_of(kind) if kind.connections else None
        flooders = []
        for number in range(kind.connections):
            connection = socket.create_connection(
                (HOST, server.port), timeout=30, source_address=(FLOOD_HOST, 0)
            )
            stack.callback(connection.close)
            connection.setblocking(False)
            assert requests is not None
            flooders.append(Flooder(connection, requests(number), kind.pipelined))
        bystanders = bystanders_at(server.port)
        flood(flooders, list(bystanders.values()), seconds)
        found = {name: bystander.longest_ms() for name, bystander in bystanders.items()}
        found["flood_answered"] = sum(flooder.answered for flooder in flooders)
        found["peak_rss_mb"] = server.peak_rss_mb()
        return found


def _register_some(server: Server, stack: contextlib.ExitStack) -> None:
    table = topic_table(many_topics(SERVED_TOPICS))
    for number in range(16):
        connection = stack.enter_context(connect(server.port))
        answer = ask(connection, *registration(Broker(number), table, timestamp_ms=1))
        if answer.code != 0:
            raise UnexpectedAnswer(f"registration refused: {answer.code} {answer.remark}")


def measure_connections(server: Server, seconds: float) -> Measured:
    """1,024 clients connect at once and ask, and then go on asking, one request in flight each."""
    with contextlib.ExitStack() as stack:
        _register_some(server, stack)
        query = route_query(TOPIC)
        crowd = [Bystander(server.port, lambda number: query) for _ in range(CROWD)]
        while any(not member.waits_ns for member in crowd):
            for member in crowd:
                if not member.waits_ns:
                    member.look()
        first = [member.waits_ns[0] for member in crowd]
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for member in crowd:
                member.look()
        for member in crowd:
            member.finish()
        later = sorted(wait for member in crowd for wait in member.waits_ns[1:]) or [0]
        return {
            "first_longest_ms": max(first) / 1e6,
            "later_longest_ms": later[-1] / 1e6,
            "later_p99_ms": later[len(later) * 99 // 100] / 1e6,
        }


# -- the table


def markdown(results: dict[str, dict[str, list[Measured]]]) -> Iterator[str]:
    yield "| flood | longest wait of a bystander, ms | Routebook | Java |"
    yield "|---|---|---|---|"
    rows = [(kind.name, kind.title, FIGURES) for kind in FLOODS]
    crowd = (
        ("first_longest_ms", "of the first answers"),
        ("later_longest_ms", "of later ones"),
        ("later_p99_ms", "of later ones, p99"),
    )
    for name, title, figures in [(CONNECTIONS, f"{CROWD:,} clients at once", crowd), *rows]:
        for figure, what in figures:
            cells = [
                spread(results[name][server], figure, ",.1f")
                if results.get(name, {}).get(server)
                else "-"
                for server in REAL_SERVERS
            ]
            if any(cell != "-" for cell in cells):
                yield f"| {title} | {what} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    names = [CONNECTIONS, *(kind.name for kind in FLOODS)]
    parser = argparse.ArgumentParser(description="Flood a NameServer, and time the others.")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--floods", default=",".join(names), help="default: %(default)s")
    parser.add_argument("--servers", default=",".join(REAL_SERVERS), help="default: %(default)s")
    add_places(parser)
    options = parser.parse_args(arguments)
    wanted = options.floods.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"no flood is called {', '.join(sorted(unknown))}; choose from {names}")
    results: dict[str, dict[str, list[Measured]]] = {}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars)
        for _ in range(options.rounds):
            for name in options.servers.split(","):
                for kind in [None, *FLOODS]:
                    title = kind.name if kind is not None else CONNECTIONS
                    if title not in wanted or (kind and kind.extension and name == "java"):
                        continue
                    server = launcher.start(name)
                    try:
                        found = (
                            measure(server, kind, options.seconds)
                            if kind is not None
                            else measure_connections(server, options.seconds)
                        )
                    finally:
                        server.stop()
                    results.setdefault(title, {}).setdefault(name, []).append(found)
                    note(f"{name}, {title}: " + ", ".join(f"{k} {v:.1f}" for k, v in found.items()))
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    conditions = {
        "seconds": options.seconds,
        "rounds": options.rounds,
        "java_heap": " ".join(JAVA_HEAP),
    }
    note(f"every round: {save('fairness', conditions, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
