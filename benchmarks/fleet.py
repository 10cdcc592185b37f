"""The brokers of a benchmark: registered over the wire, alive as long as their connections."""

import socket
import time

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

TOPIC_ON_16 = "bench-topic-on-16"
TOPIC_ON_300 = "bench-topic-on-300"
TOPICS_OF_LARGE_BROKER = 10_000


def many_topics(count: int) -> list[str]:
    return [f"bench-topic-{number:05}" for number in range(count)]


class Fleet:
    """300 brokers, a connection each: all serve one topic, the first 16 a second one."""

    def __init__(self, port: int) -> None:
        self._port = port
        # A first registration of exactly one topic would be refused, hence TBW102.
        on_16 = topic_table([TOPIC_ON_16, TOPIC_ON_300, "TBW102"])
        on_300 = topic_table([TOPIC_ON_300, "TBW102"])
        now_ms = time.time_ns() // 1_000_000
        self._registrations = [
            registration(Broker(n), on_16 if n < 16 else on_300, timestamp_ms=now_ms)
            for n in range(300)
        ]
        self._connections = [connect(port) for _ in self._registrations]
        self.refresh()
        self._check_route(TOPIC_ON_16, 16)
        self._check_route(TOPIC_ON_300, 300)

    def refresh(self) -> None:
        """Register again; a connection silent for two minutes would be closed as idle."""
        for connection, pieces in zip(self._connections, self._registrations, strict=True):
            answer = ask(connection, *pieces)
            if answer.code != 0:
                raise UnexpectedAnswer(f"registration refused: {answer.code} {answer.remark}")

    def _check_route(self, topic: str, wanted: int) -> None:
        with connect(self._port) as client:
            found = brokers_in_route(ask(client, route_query(topic)))
        if found != wanted:
            raise UnexpectedAnswer(f"{topic} is on {found} brokers, {wanted} have registered it")

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class LargeBroker:
    """One broker with 10,000 topics in two versions that differ in every topic."""

    def __init__(self, port: int) -> None:
        self.connection: socket.socket = connect(port)
        names = many_topics(TOPICS_OF_LARGE_BROKER)
        now_ms = time.time_ns() // 1_000_000
        self.versions = tuple(
            registration(Broker(999), topic_table(names, queues=queues), timestamp_ms=stamp)
            for queues, stamp in ((8, now_ms), (4, now_ms + 1))
        )

    @property
    def frame_bytes(self) -> int:
        return sum(len(piece) for piece in self.versions[0])

    def close(self) -> None:
        self.connection.close()
