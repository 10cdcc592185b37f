"""What a client feels while brokers register: route queries timed between pieces of registrations.

One thread carries everything without blocking. A registration leaves in pieces of ``PIECE`` bytes
and the probe is looked at after each, so what the probe measures is the server's delay and not
this program's: a piece takes some 50 microseconds to hand to the kernel.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.frames import UnexpectedAnswer, decode_answer

PIECE = 128 * 1024
READ_BYTES = 256 * 1024
# Few at a time: epoll hands ready connections out in turn, and none waits long for its turn.
EVENTS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Latencies:
    """Sorted nanoseconds of every finished query."""

    values: Sequence[int]

    def quantile_ms(self, share: float) -> float:
        if not self.values:
            return float("nan")
        return self.values[min(len(self.values) - 1, int(len(self.values) * share))] / 1e6

    @property
    def longest_ms(self) -> float:
        return self.quantile_ms(1.0)


class _AnswerReader:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()

    def find_frame(self) -> bytes | None:
        """Return the answer, or None until all of it has arrived."""
        try:
            data = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise UnexpectedAnswer("the server closed a connection")
        self._received += data
        if len(self._received) < 4:
            return None
        if len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            return None
        frame = bytes(self._received)
        self._received.clear()
        return frame


class Probe:
    """One connection, one query in flight, the next one sent as soon as the answer is there."""

    def __init__(self, connection: socket.socket, query: bytes) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._query = query
        self._reader = _AnswerReader(connection)
        self._nanos: list[int] = []
        self._ask()

    def _ask(self) -> None:
        self._sent_at_ns = time.perf_counter_ns()
        self.connection.send(self._query)

    def look(self) -> None:
        if self._reader.find_frame() is not None:
            self._nanos.append(time.perf_counter_ns() - self._sent_at_ns)
            self._ask()

    def finish(self) -> Latencies:
        """Wait for the query in flight, so that the longest one cannot be the one left out."""
        answered = len(self._nanos)
        while len(self._nanos) == answered:
            select.select([self.connection], [], [], 60)
            self.look()
        return Latencies(sorted(self._nanos))


class Registrar:
    """One broker's connection: a registration leaves piece by piece, then its answer arrives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self._reader = _AnswerReader(connection)
        self._unsent: list[memoryview] = []

    def begin(self, pieces: Sequence[bytes]) -> None:
        self._unsent = [memoryview(piece) for piece in pieces]

    @property
    def sending(self) -> bool:
        return bool(self._unsent)

    def push(self) -> None:
        try:
            sent = self.connection.send(self._unsent[0][:PIECE])
        except BlockingIOError:
            return
        if sent == len(self._unsent[0]):
            del self._unsent[0]
        else:
            self._unsent[0] = self._unsent[0][sent:]

    def answered(self) -> bool:
        frame = self._reader.find_frame()
        if frame is None:
            return False
        answer = decode_answer(frame)
        if answer.code != 0:
            raise UnexpectedAnswer(f"registration refused: code {answer.code} {answer.remark}")
        return True


def probe_while_registering(
    probe: Probe,
    registrars: Sequence[Registrar],
    *,
    next_registration: Callable[[Registrar], Sequence[bytes] | None],
    deadline_s: float,
) -> tuple[Latencies, float]:
    """Register with everyone at once while the probe asks; return its latencies and the seconds.

    ``next_registration`` says what a connection sends first and after every answer, or None when
    it is done. Ends when all are done; raises UnexpectedAnswer when that takes ``deadline_s``.
    """
    by_fd = {registrar.connection.fileno(): registrar for registrar in registrars}
    waiting: set[int] = set()
    started = time.perf_counter()
    with select.epoll() as poller:
        poller.register(probe.connection, select.EPOLLIN)
        for fd, registrar in by_fd.items():
            pieces = next_registration(registrar)
            if pieces is not None:
                registrar.begin(pieces)
                poller.register(fd, select.EPOLLIN | select.EPOLLOUT)
                waiting.add(fd)
        while waiting:
            if time.perf_counter() - started > deadline_s:
                raise UnexpectedAnswer(
                    f"{len(waiting)} registrations unanswered after {deadline_s} seconds"
                )
            for fd, events in poller.poll(1.0, EVENTS_AT_ONCE):
                if fd not in by_fd:
                    probe.look()
                    continue
                registrar = by_fd[fd]
                if events & select.EPOLLOUT and registrar.sending:
                    registrar.push()
                    probe.look()
                    if not registrar.sending:
                        poller.modify(fd, select.EPOLLIN)
                if events & ~select.EPOLLOUT and registrar.answered():
                    pieces = next_registration(registrar)
                    if pieces is None:
                        poller.unregister(fd)
                        waiting.remove(fd)
                    else:
                        registrar.begin(pieces)
                        poller.modify(fd, select.EPOLLIN | select.EPOLLOUT)
    seconds = time.perf_counter() - started
    return probe.finish(), seconds


def probe_quietly(probe: Probe, seconds: float) -> Latencies:
    """Probe with nobody registering: the noise of the machine."""
    deadline = time.perf_counter() + seconds
    while (left := deadline - time.perf_counter()) > 0:
        select.select([probe.connection], [], [], left)
        probe.look()
    return probe.finish()
