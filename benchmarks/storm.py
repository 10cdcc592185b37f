"""Every broker of a large cluster registers at once, as after a NameServer restart.

    python -m benchmarks.storm [--brokers 300] [--topics 10000] [--rounds 1]

All brokers serve the same topics; each registers on its own connection with its own data version
while one more connection keeps asking for the route of one topic. A fresh server per round. When
all are answered half of the brokers drop their connections, and the clock runs until the route
shows it.

The bodies are built before the clock starts and share the bytes of the topic table, so the sender
does little more than hand memory to the kernel.
"""

import argparse
import contextlib
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.fleet import many_topics
from benchmarks.frames import (
    Broker,
    UnexpectedAnswer,
    ask,
    brokers_in_route,
    connect,
    registration,
    route_query,
    topic_table,
)
from benchmarks.probing import Probe, Registrar, probe_while_registering
from benchmarks.records import Measured, add_places, note, save
from benchmarks.rows import BEFORE, REAL_SERVERS, TITLES, figure_table
from benchmarks.servers import JAVA_HEAP, CannotRun, Launcher, Server, two_cores

DEADLINE_S = 300.0
ROUTE_DEADLINE_S = 60.0
FIGURES = (
    ("seconds", "all registrations answered, s", ".2f"),
    ("p50_ms", "route queries meanwhile: p50, ms", ".2f"),
    ("p99_ms", "route queries meanwhile: p99, ms", ".1f"),
    ("longest_ms", "route queries meanwhile: longest, ms", ".1f"),
    ("queries", "route queries meanwhile: answered", ",.0f"),
    ("peak_rss_mb", "peak RSS, MB", ",.0f"),
    ("half_gone_s", "half of the brokers drop: route right after, s", ".3f"),
)


def registrations_of(brokers: int, topics: int) -> list[tuple[bytes, ...]]:
    table = topic_table(many_topics(topics))
    now_ms = time.time_ns() // 1_000_000
    return [registration(Broker(n), table, timestamp_ms=now_ms + n) for n in range(brokers)]


def storm(server: Server, registrations: Sequence[tuple[bytes, ...]]) -> Measured:
    query = route_query(many_topics(1)[0])
    with contextlib.ExitStack() as cleanup:
        connections = [cleanup.enter_context(connect(server.port)) for _ in registrations]
        pending = dict(zip(connections, registrations, strict=True))
        probing = cleanup.enter_context(connect(server.port))
        cpu_before = server.cpu_seconds()
        latencies, seconds = probe_while_registering(
            Probe(probing, query),
            [Registrar(connection) for connection in connections],
            next_registration=lambda registrar: pending.pop(registrar.connection, None),
            deadline_s=DEADLINE_S,
        )
        cpu = server.cpu_seconds() - cpu_before
        peak_rss_mb = server.peak_rss_mb()
        half_gone_s = seconds_until_half_are_gone(server, query, connections)
    return {
        "seconds": seconds,
        "server_cpu": cpu / seconds,
        "queries": len(latencies.values),
        "p50_ms": latencies.quantile_ms(0.5),
        "p99_ms": latencies.quantile_ms(0.99),
        "longest_ms": latencies.longest_ms,
        "peak_rss_mb": peak_rss_mb,
        "half_gone_s": half_gone_s,
    }


def seconds_until_half_are_gone(
    server: Server, query: bytes, connections: Sequence[socket.socket]
) -> float:
    """Also the proof that the storm did what it should: every broker must be in the route first."""
    with connect(server.port) as client:
        found = brokers_in_route(ask(client, query))
        if found != len(connections):
            raise UnexpectedAnswer(f"{len(connections)} brokers registered, the route has {found}")
        leaving = connections[: len(connections) // 2]
        started = time.perf_counter()
        for connection in leaving:
            connection.close()
        while brokers_in_route(ask(client, query)) != found - len(leaving):
            if time.perf_counter() - started > ROUTE_DEADLINE_S:
                raise UnexpectedAnswer("brokers that dropped their connections are still routed to")
            time.sleep(0.001)
        return time.perf_counter() - started


def markdown(results: dict[str, list[Measured]]) -> Iterator[str]:
    rows = [(results, figure, title, form) for figure, title, form in FIGURES]
    return figure_table("figure", [name for name in TITLES if name in results], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="Register a whole cluster at once.")
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--servers", default=",".join(REAL_SERVERS), help="default: %(default)s")
    add_places(parser)
    options = parser.parse_args(arguments)
    names = [*([BEFORE] if options.before else []), *options.servers.split(",")]
    results: dict[str, list[Measured]] = {name: [] for name in names}
    try:
        launcher = Launcher(two_cores(), options.python, options.java_jars, options.before)
        registrations = registrations_of(options.brokers, options.topics)
        for _ in range(options.rounds):
            for name in names:
                server = launcher.start(name)
                try:
                    figures = storm(server, registrations)
                finally:
                    server.stop()
                results[name].append(figures)
                note(f"{name}: {figures['seconds']:.2f} s")
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    conditions = {
        "brokers": options.brokers,
        "topics": options.topics,
        "rounds": options.rounds,
        "registration_bytes": sum(len(piece) for piece in registrations[0]),
        "java_heap": " ".join(JAVA_HEAP),
    }
    note(f"every round: {save('storm', conditions, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
