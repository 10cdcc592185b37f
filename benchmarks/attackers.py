"""Connections that do their worst to a server, and one that goes on asking it for a route.

One thread carries everything without blocking and looks at the bystander after each piece, so what
the bystander waits for is the server.
"""

import json
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fairness import EVENTS_AT_ONCE, FLOOD_HOST, HOST, PIECE
from benchmarks.frames import UnexpectedAnswer
from benchmarks.servers import CannotRun, Server
from benchmarks.waits import Bystander

READ_BYTES = 1 << 20
PATIENCE_S = 10.0  # of a bystander, with one question
MOST_MB = 6_000  # a server that takes more is ended
LOOK_S = 0.1  # between two looks at the server's memory
ENDLESS = 1 << 30


@dataclass(frozen=True, slots=True)
class Wave:
    """What some connections do at the same time.

    ``frames`` are those of the connection with this number, an endless iterator for a flood;
    ``window`` is how many requests are in flight, ``batch`` how many a frame of them stands for.
    ``counts`` is False for what only sets the stage.
    A wave ends when all is answered, or after ``seconds``.
    """

    frames: Callable[[int], Iterator[bytes]]
    connections: int = 1
    window: int = 64
    batch: int = 1
    reads: bool = True
    counts: bool = True
    then_closes: bool = False
    seconds: float = 10.0


class ServerGone(Exception):
    """The server ended, or was ended because it took too much; the sentence says which."""


class Witness(Bystander):
    """A bystander that connects again when it is cut off, and keeps count of it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._looked = 0.0
        self.cut_off = 0
        self.peak_mb = 0.0
        super().__init__(server)

    def look(self) -> None:
        self._look_after_server()
        if time.perf_counter_ns() - self._asked_ns > PATIENCE_S * 1e9:
            self.waits.longest_ns = time.perf_counter_ns() - self._asked_ns
            raise UnexpectedAnswer(f"the bystander has waited for {PATIENCE_S:.0f} s")
        try:
            super().look()
        except (UnexpectedAnswer, OSError):
            self._connect_again()

    def watch_for(self, seconds: float) -> None:
        """Ask for so long, and wait for the answer to the last question: it may be the longest."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            self._rest()
        asked = self.waits.questions
        while self.waits.questions == asked:
            self._rest()

    def _rest(self) -> None:
        poller = select.poll()
        poller.register(self.connection, select.POLLIN)
        poller.poll(100)
        self.look()

    def _connect_again(self) -> None:
        """The question that was not answered waits on."""
        self._look_after_server(at_once=True)
        asked_ns = self._asked_ns
        self.cut_off += 1
        self.connection.close()
        self._received.clear()
        try:
            self.connection = socket.create_connection((HOST, self._server.port), timeout=1.0)
            self.connection.setblocking(False)
            self._ask()
        except OSError:
            time.sleep(0.05)
        self._asked_ns = asked_ns

    def _look_after_server(self, *, at_once: bool = False) -> None:
        now = time.perf_counter()
        if not at_once and now - self._looked < LOOK_S:
            return
        self._looked = now
        process = self._server.process
        if process.poll() is not None:
            raise ServerGone(f"the server died with code {process.returncode}")
        with suppress(OSError, CannotRun):  # it is about to end
            self.peak_mb = self._server.peak_rss_mb()
        if self.peak_mb > MOST_MB:
            process.kill()
            raise ServerGone(f"ended at {MOST_MB:,} MB")


@dataclass(eq=False)
class Attacker:
    """One connection of a wave; the codes of its answers are counted, nothing else is kept."""

    connection: socket.socket
    frames: Iterator[bytes]
    window: int
    batch: int
    reads: bool
    codes: Counter[int] = field(default_factory=Counter)
    remark: str = ""  # of the last refusal
    sent: int = 0
    closed: bool = False
    _unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    _received: bytearray = field(default_factory=bytearray)
    _skipped: int = 0  # bytes of an answer that are still to come, and of no interest
    _no_more: bool = False

    @property
    def in_flight(self) -> int:
        return self.sent - self.codes.total()

    @property
    def done(self) -> bool:
        return self.closed or (self._no_more and not self._unsent and not self.in_flight)

    @property
    def events(self) -> int:
        """What to wait for."""
        sends = self._unsent or (not self._no_more and self.in_flight < self.window)
        return (select.EPOLLIN if self.reads else 0) | (select.EPOLLOUT if sends else 0)

    def push(self) -> None:
        if not self._unsent and not self._no_more and self.in_flight < self.window:
            frame = next(self.frames, b"")
            self._unsent, self._no_more = memoryview(frame), not frame
            self.sent += self.batch * bool(frame)
        try:
            self._unsent = self._unsent[self.connection.send(self._unsent[:PIECE]) :]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True

    def pull(self) -> None:
        try:
            data = self.connection.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        skipped = min(self._skipped, len(data))
        self._skipped -= skipped
        self._received += memoryview(data)[skipped:]
        while len(self._received) >= 8:
            end = 4 + int.from_bytes(self._received[:4], "big")
            body = 8 + int.from_bytes(self._received[5:8], "big")
            if len(self._received) < body:
                return
            header = bytes(self._received[8:body])
            self._note(header, binary=bool(self._received[4]))
            self._skipped = max(0, end - len(self._received))
            del self._received[:end]

    def _note(self, header: bytes, *, binary: bool) -> None:
        if binary:
            self.codes[int.from_bytes(header[:2], "big")] += 1
            return
        told = json.loads(header)
        self.codes[int(told["code"])] += 1
        if told["code"]:
            self.remark = str(told.get("remark", ""))


def opened(port: int, source: str, *, reads: bool) -> socket.socket:
    """A connection on its way; one that will not read holds as little as possible itself."""
    connection = socket.socket()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not reads:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    connection.bind((source, 0))
    connection.setblocking(False)
    connection.connect_ex((HOST, port))
    return connection


def play(server: Server, wave: Wave, witness: Witness) -> list[Attacker]:
    """Play one wave in the sight of ``witness``; its connections stay open.

    Raises ServerGone, and UnexpectedAnswer when the witness has waited for too long.
    """
    attackers = [
        Attacker(
            opened(server.port, FLOOD_HOST, reads=wave.reads),
            wave.frames(number),
            wave.window,
            wave.batch,
            wave.reads,
        )
        for number in range(wave.connections)
    ]
    by_fd = {attacker.connection.fileno(): attacker for attacker in attackers}
    end = time.perf_counter() + wave.seconds
    with select.epoll() as poller:
        poller.register(witness.connection, select.EPOLLIN)
        watched = witness.connection
        for fd, attacker in by_fd.items():
            poller.register(fd, attacker.events)
        waiting = len(attackers)
        while waiting and time.perf_counter() < end:
            for fd, events in poller.poll(0.05, EVENTS_AT_ONCE):
                if fd in by_fd:
                    _served(by_fd[fd], events)
                    if by_fd[fd].done:
                        poller.unregister(fd)
                        waiting -= 1
                    else:
                        poller.modify(fd, by_fd[fd].events)
                witness.look()
            witness.look()
            if witness.connection is not watched:  # a connection that was closed is out already
                watched = witness.connection
                poller.register(watched, select.EPOLLIN)
    return attackers


def _served(attacker: Attacker, events: int) -> None:
    if events & select.EPOLLOUT:
        attacker.push()
    if events & ~select.EPOLLOUT:
        attacker.pull()


def outcome(attackers: Sequence[Attacker], *, reads: bool = True) -> str:
    """How a wave ended for those who made it, in a few words."""
    codes = sum((attacker.codes for attacker in attackers), Counter[int]())
    words = [f"{codes.pop(0):,} answered"] if codes[0] else []
    words += [f"{count:,} refused with code {code}" for code, count in codes.most_common()]
    if closed := sum(attacker.closed for attacker in attackers):
        words.append("closed" if len(attackers) == 1 else f"{closed:,} closed")
    if unanswered := sum(each.in_flight for each in attackers if not each.closed):
        words.append(f"{unanswered:,} {'not answered' if reads else 'not read'}")
    return ", ".join(words) or "nothing"


def last_remark(attackers: Sequence[Attacker]) -> str:
    """What those who were refused were told, cut to a line."""
    told = [attacker.remark for attacker in attackers if attacker.remark]
    return told[-1].partition("\n")[0][:200] if told else ""


def written_bytes(server: Server) -> int:
    """What the server has written to files so far, those of processes it has ended included."""
    for line in Path(f"/proc/{server.process.pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    return 0
