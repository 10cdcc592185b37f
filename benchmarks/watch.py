"""What a watch gives and what it costs: from a change to those who watch, and to the node.

    python -m benchmarks.watch [--watchers 10000] [--rounds 3] [--skip storm]

A fresh node for each round. One broker changes the queues of a topic, with a pause in between that
is longer than the pace of a watcher, and the clock runs from sending that until a frame with the
new number has arrived. Measured are

* one watcher, and the last of many idle ones, each also while 100 others do not read
* resident memory of the node for each watcher of one topic
* many watchers come back after a restart: bytes sent to each, with their etags and without
* the storm of ``benchmarks.storm`` with 1,000 watchers of ten topics each, and without, in turn

Watchers are read by this process, on the generator's core: with thousands of them part of the time
is its own.
"""

import argparse
import json
import random
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.fleet import many_topics
from benchmarks.frames import (
    Broker,
    UnexpectedAnswer,
    ask,
    connect,
    encode_request,
    registration,
    topic_table,
)
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import median, spread
from benchmarks.servers import CannotRun, Launcher, Server, two_cores
from benchmarks.storm import registrations_of, storm

HEALTH, WATCH = 19_001, 19_005
TOPIC = "bench-watched"
PAUSE_S = 0.07  # longer than the pace of a watcher
STALLED = 100
STALLED_TOPICS = 500
STALLED_BROKERS = 60  # so that no socket takes all that there is to tell
STORM_WATCHERS, STORM_TOPICS = 1_000, 10
DEADLINE_S = 60.0
FIGURES = (
    ("one_p50_ms", "a change reaches one watcher: p50, ms", ".2f"),
    ("one_p99_ms", "p99, ms", ".2f"),
    ("last_p50_ms", "a change reaches the last of all watchers: p50, ms", ".1f"),
    ("last_p99_ms", "p99, ms", ".1f"),
    ("stalled_one_p99_ms", "one watcher, while 100 others do not read: p99, ms", ".2f"),
    ("stalled_last_p99_ms", "the last of all, while 100 others do not read: p99, ms", ".1f"),
    ("watcher_bytes", "memory of the node for a watcher, bytes", ",.0f"),
    ("resumed_bytes", "bytes sent to one that comes back after a restart", ",.0f"),
    ("new_bytes", "the same without etags", ",.0f"),
)
STORM_FIGURES = (
    ("seconds", "all registrations answered, s", ".2f"),
    ("p50_ms", "route queries meanwhile: p50, ms", ".2f"),
    ("p99_ms", "route queries meanwhile: p99, ms", ".1f"),
    ("longest_ms", "route queries meanwhile: longest, ms", ".1f"),
)


def watch_request(topics: dict[str, str]) -> bytes:
    body = json.dumps({"topics": topics}, separators=(",", ":")).encode()
    return encode_request(WATCH, {}, body_bytes=len(body)) + body


class Watchers:
    """Many connections that watch, read when something is there."""

    def __init__(self, port: int, count: int, topics: dict[str, str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._sockets: list[socket.socket] = []
        self._tails: dict[socket.socket, bytes] = {}
        self.received = 0
        request = watch_request(topics)
        for _ in range(count):
            made = connect(port)
            made.sendall(request)
            made.setblocking(False)
            self._sockets.append(made)
            self._tails[made] = b""
            self._selector.register(made, selectors.EVENT_READ)
        self.wait_for(b'"synced"')

    def wait_for(self, text: bytes) -> tuple[float, float]:
        """When the first and when the last of them had got ``text``."""
        missing = set(self._sockets)
        first = 0.0
        deadline = time.perf_counter() + DEADLINE_S
        while missing:
            for key, _ in self._selector.select(timeout=1.0):
                made = key.fileobj
                assert isinstance(made, socket.socket)
                data = made.recv(1 << 16)
                if not data:
                    raise UnexpectedAnswer("the node closed the connection of a watcher")
                self.received += len(data)
                seen = self._tails[made] + data
                self._tails[made] = seen[-len(text) :]
                if text in seen and made in missing:
                    missing.discard(made)
                    first = first or time.perf_counter()
            if time.perf_counter() > deadline:
                raise UnexpectedAnswer(f"{len(missing)} watchers were not told of a change")
        return first, time.perf_counter()

    def read_for(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            for key, _ in self._selector.select(timeout=left):
                assert isinstance(key.fileobj, socket.socket)
                self.received += len(key.fileobj.recv(1 << 16))

    def close(self) -> None:
        self._selector.close()
        for made in self._sockets:
            made.close()


class Changer:
    """A broker that gives its topic another number of queues each time."""

    _queues = 1000

    def __init__(self, port: int) -> None:
        self._connection = connect(port)
        self.change()

    def change(self) -> bytes:
        """What a frame that tells of it has in it."""
        Changer._queues += 1
        table = topic_table([TOPIC, "TBW102"], queues=Changer._queues)
        pieces = registration(Broker(1), table, timestamp_ms=time.time_ns() // 1_000_000)
        answer = ask(self._connection, *pieces)
        if answer.code != 0:
            raise UnexpectedAnswer(f"registration refused: {answer.remark}")
        return b'"readQueueNums":%d,' % Changer._queues

    def close(self) -> None:
        self._connection.close()


def times_ms(watchers: Watchers, changer: Changer, changes: int) -> list[float]:
    """From each change to the last of the watchers, sorted."""
    taken = []
    for _ in range(changes):
        watchers.read_for(PAUSE_S)
        began = time.perf_counter()
        text = changer.change()  # whose answer comes before the frames, or between them
        taken.append((watchers.wait_for(text)[1] - began) * 1e3)
    return sorted(taken)


def quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def stalled(port: int, opened: ExitStack) -> None:
    """Watchers of much, which never read."""
    topics = many_topics(STALLED_TOPICS)
    table = topic_table(topics)
    for number in range(2, 2 + STALLED_BROKERS):
        broker = opened.enter_context(connect(port))
        now_ms = time.time_ns() // 1_000_000
        ask(broker, *registration(Broker(number), table, timestamp_ms=now_ms))
    request = watch_request(dict.fromkeys(topics, "") | {TOPIC: ""})
    for _ in range(STALLED):
        made = opened.enter_context(connect(port))
        made.sendall(request)
    deadline = time.perf_counter() + DEADLINE_S
    while (parked := watched(port, "parked")) < STALLED:
        if time.perf_counter() > deadline:
            raise UnexpectedAnswer(f"{parked} of {STALLED} readers are parked")
        time.sleep(0.1)


def until_gone(port: int) -> None:
    """Until the node has let go of all watchers but those that do not read."""
    deadline = time.perf_counter() + DEADLINE_S
    while watched(port, "watchers") > STALLED:
        if time.perf_counter() > deadline:
            raise UnexpectedAnswer(f"{watched(port, 'watchers')} watchers are there yet")
        time.sleep(0.1)


def watched(port: int, what: str) -> int:
    with connect(port) as client:
        health = json.loads(ask(client, encode_request(HEALTH, {})).body)
    count: int = health["watch"][what]
    return count


def latencies(launcher: Launcher, watchers: int, changes: int) -> Measured:
    server = launcher.start("routebook")
    try:
        with ExitStack() as opened:
            changer = Changer(server.port)
            opened.callback(changer.close)
            one = Watchers(server.port, 1, {TOPIC: ""})
            ones = times_ms(one, changer, changes)
            one.close()
            before = server.rss_mb()
            many = Watchers(server.port, watchers, {TOPIC: ""})
            grown = server.rss_mb() - before
            lasts = times_ms(many, changer, max(10, changes // 5))
            stalled(server.port, opened)
            lasts_beside = times_ms(many, changer, max(10, changes // 5))
            many.close()
            until_gone(server.port)
            one = Watchers(server.port, 1, {TOPIC: ""})
            ones_beside = times_ms(one, changer, min(changes, 100))
            one.close()
    finally:
        server.stop()
    return {
        "one_p50_ms": quantile(ones, 0.5),
        "one_p99_ms": quantile(ones, 0.99),
        "last_p50_ms": quantile(lasts, 0.5),
        "last_p99_ms": quantile(lasts, 0.99),
        "stalled_one_p99_ms": quantile(ones_beside, 0.99),
        "stalled_last_p99_ms": quantile(lasts_beside, 0.99),
        "watcher_bytes": grown * 1024 * 1024 / watchers,
    }


def reconnects(launcher: Launcher, watchers: int) -> Measured:
    """Bytes each watcher is sent after a restart, with etags and without."""
    with tempfile.TemporaryDirectory() as folder:
        server = launcher.start("routebook", data_dir=Path(folder))
        changer = Changer(server.port)
        try:
            with connect(server.port) as first:
                etag = etag_told(first)
        finally:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait()
            changer.close()
        again = launcher.start("routebook", data_dir=Path(folder), port=server.port)
        try:
            sent = {}
            for name, known in (("resumed_bytes", etag), ("new_bytes", "")):
                back = Watchers(again.port, watchers, {TOPIC: known})
                sent[name] = back.received / watchers
                back.close()
        finally:
            again.stop()
            server.folder.cleanup()
    return sent


def etag_told(connection: socket.socket) -> str:
    connection.sendall(watch_request({TOPIC: ""}))
    data = b""
    while b'"etag":"' not in data or b'"synced"' not in data:
        data += connection.recv(1 << 16)
    return data.partition(b'"etag":"')[2][:16].decode()


def drain(port: int, count: int) -> None:
    """Watch and read until told to end; a process of its own beside a storm."""
    names, rng = many_topics(10_000), random.Random(7)
    selector = selectors.DefaultSelector()
    for _ in range(count):
        made = connect(port)
        made.sendall(watch_request(dict.fromkeys(rng.sample(names, STORM_TOPICS), "")))
        made.setblocking(False)
        selector.register(made, selectors.EVENT_READ)
    print("watching", flush=True)
    with suppress(KeyboardInterrupt):
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(1 << 18):
                    selector.unregister(key.fileobj)


def storm_beside(launcher: Launcher, watchers: int, brokers: int, topics: int) -> Measured:
    server: Server = launcher.start("routebook")
    reader = None
    try:
        if watchers:
            words = ["-m", "benchmarks.watch", "--drain", str(server.port), str(watchers)]
            reader = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
            assert reader.stdout is not None
            reader.stdout.readline()
        return storm(server, registrations_of(brokers, topics))
    finally:
        if reader is not None:
            reader.kill()
            reader.wait()
        server.stop()


def markdown(rounds: Sequence[Measured], storms: dict[str, list[Measured]]) -> Iterator[str]:
    yield "| figure | median (smallest..largest) |"
    yield "|---|---|"
    for figure, title, form in FIGURES:
        if rounds and figure in rounds[0]:
            yield f"| {title} | {spread(rounds, figure, form)} |"
    if storms["without"]:
        yield ""
        yield "| storm | without watchers | with | ratio of medians |"
        yield "|---|---|---|---|"
        for figure, title, form in STORM_FIGURES:
            without, beside = storms["without"], storms["with"]
            ratio = median(beside, figure) / median(without, figure)
            columns = f"{spread(without, figure, form)} | {spread(beside, figure, form)}"
            yield f"| {title} | {columns} | {ratio:.2f} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Measure what a watch gives and costs.")
    parser.add_argument("--watchers", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=300, help="of the storm")
    parser.add_argument("--topics", type=int, default=10_000, help="of each of them")
    parser.add_argument("--skip", default="", help="latencies, reconnects, storm")
    parser.add_argument("--drain", nargs=2, type=int, help=argparse.SUPPRESS)
    add_places(parser)
    options = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if options.drain:
        drain(*options.drain)
        return 0
    skipped = options.skip.split(",")
    rounds: list[Measured] = []
    storms: dict[str, list[Measured]] = {"without": [], "with": []}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars)
        for _ in range(options.rounds):
            figures: Measured = {}
            if "latencies" not in skipped:
                figures |= latencies(launcher, options.watchers, options.changes)
            if "reconnects" not in skipped:
                figures |= reconnects(launcher, options.watchers)
            rounds.append(figures)
            note(", ".join(f"{name} {value:.2f}" for name, value in figures.items()))
            if "storm" not in skipped:
                for name, count in (("without", 0), ("with", STORM_WATCHERS)):
                    storms[name].append(
                        storm_beside(launcher, count, options.brokers, options.topics)
                    )
                    note(f"storm {name} watchers: {storms[name][-1]['seconds']:.2f} s")
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(rounds, storms)))
    conditions = {
        "watchers": options.watchers,
        "changes": options.changes,
        "rounds": options.rounds,
        "stalled": STALLED,
        "storm": f"{options.brokers} x {options.topics}, {STORM_WATCHERS} watchers",
    }
    note(f"every round: {save('watch', conditions, {'rounds': rounds, 'storms': storms})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
