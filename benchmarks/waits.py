"""How long one peer can keep another waiting: every request code, and the worst that fits a frame.

    python -m benchmarks.waits [--quick] [--cases 206,bare] [--before PYTHON]

A bystander asks for the route of one topic, the next question as soon as the answer is there, while
another peer does its worst. Its longest wait is told twice: by the clock, beside the longest wait
of the same bystander with nobody else there (the noise of the machine), and in CPU time of the
server's loop between question and answer, which other programs do not touch. ``--before`` is an
interpreter that has another version of Routebook: the same is done to both.
"""

import argparse
import contextlib
import json
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frames import UnexpectedAnswer, connect, route_query
from benchmarks.records import Measured, add_places, note, save
from benchmarks.servers import CannotRun, Launcher, Server, two_cores
from benchmarks.wait_cases import Case, Scale, World, worlds

PIECE = 256 * 1024
QUIET_S = 1.0
AFTER_S = 0.5  # what is done when the answer is given counts too
DEADLINE_S = 120.0
BYSTANDER_TOPIC = "bystander"


@dataclass(slots=True)
class Waits:
    """Of one bystander: the longest by the clock, and in CPU time of the server's loop."""

    longest_ns: int = 0
    longest_cpu_ns: int = 0
    questions: int = 0


class Bystander:
    """One question in flight at any time."""

    def __init__(self, server: Server) -> None:
        self._schedule = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/schedstat")
        self.connection = connect(server.port)
        self.connection.setblocking(False)
        self._query = route_query(BYSTANDER_TOPIC)
        self._received = bytearray()
        self.waits = Waits()
        self._ask()

    def _cpu_ns(self) -> int:
        return int(self._schedule.read_text().split()[0])

    def _ask(self) -> None:
        self._cpu_before_ns = self._cpu_ns()
        self._asked_ns = time.perf_counter_ns()
        self.connection.send(self._query)

    def look(self) -> None:
        try:
            data = self.connection.recv(65_536)
        except BlockingIOError:
            return
        if not data:
            raise UnexpectedAnswer("the server closed the bystander's connection")
        self._received += data
        if len(self._received) < 4 + int.from_bytes(self._received[:4], "big"):
            return
        self._received.clear()
        waits = self.waits
        waits.longest_ns = max(waits.longest_ns, time.perf_counter_ns() - self._asked_ns)
        waits.longest_cpu_ns = max(waits.longest_cpu_ns, self._cpu_ns() - self._cpu_before_ns)
        waits.questions += 1
        self._ask()

    def look_for(self, seconds: float) -> None:
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            select.select([self.connection], [], [], left)
            self.look()
        asked = self.waits.questions
        while self.waits.questions == asked:  # the one in flight may be the longest
            if not select.select([self.connection], [], [], DEADLINE_S)[0]:
                raise UnexpectedAnswer(f"the bystander has waited for {DEADLINE_S:.0f} s")
            self.look()

    def begin_anew(self) -> None:
        self.waits = Waits()


class Offender:
    """A connection that sends frames and reads what it is answered, in the bystander's sight."""

    def __init__(self, server: Server, bystander: Bystander) -> None:
        self.connection = connect(server.port)
        self.connection.setblocking(False)
        self._bystander = bystander
        self._received = bytearray()

    def send(self, frames: Sequence[bytes], *, answers: int) -> str:
        """Send all and wait for so many answers; how the last one was, in a word."""
        unsent = [memoryview(frame) for frame in frames]
        last = "nothing"
        give_up = time.perf_counter() + DEADLINE_S
        try:
            while unsent or answers:
                if time.perf_counter() > give_up:
                    return f"no answer in {DEADLINE_S:.0f} s"
                wanted = [self.connection] if unsent else []
                readable, writable, _ = select.select(
                    [self.connection, self._bystander.connection], wanted, [], 1.0
                )
                self._bystander.look()
                if writable:
                    sent = self.connection.send(unsent[0][:PIECE])
                    unsent[0] = unsent[0][sent:]
                    if not unsent[0]:
                        del unsent[0]
                if self.connection in readable:
                    data = self.connection.recv(1 << 20)
                    if not data:
                        return "closed"
                    self._received += data
                    for code in self._taken():
                        last, answers = f"code {code}", answers - 1
        except (ConnectionError, BrokenPipeError):
            return "closed"
        return last

    def _taken(self) -> Iterator[int]:
        while len(self._received) >= 8:
            length = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < length:
                return
            header = self._received[8 : 8 + int.from_bytes(self._received[5:8], "big")]
            if self._received[4]:
                yield int.from_bytes(header[:2], "big")
            else:
                yield int(json.loads(bytes(header))["code"])
            del self._received[:length]

    def close(self) -> None:
        self.connection.close()


def measured(server: Server, case: Case) -> Measured:
    bystander = Bystander(server)
    bystander.look_for(QUIET_S)
    noise = bystander.waits
    bystander.begin_anew()
    offenders: list[Offender] = []
    outcome = "nothing"
    for step in case.steps:
        offender = Offender(server, bystander)
        offenders.append(offender)
        if not step.counts:
            offender.send(step.frames, answers=step.answers)
            bystander.look_for(AFTER_S)
            bystander.begin_anew()
            continue
        outcome = offender.send(step.frames, answers=step.answers)
        if step.then_closes:
            for each in offenders:
                each.close()
    bystander.look_for(AFTER_S)
    waits = bystander.waits
    for each in offenders:
        each.close()
    bystander.look_for(AFTER_S)  # not counted: the next case begins with a quiet server
    bystander.connection.close()
    note(f"  {case.name}: {waits.longest_ns / 1e6:.1f} ms ({outcome})")
    return {
        "wait_ms": waits.longest_ns / 1e6,
        "noise_ms": noise.longest_ns / 1e6,
        "beyond_noise_ms": max(0, waits.longest_ns - noise.longest_ns) / 1e6,
        "loop_cpu_ms": waits.longest_cpu_ns / 1e6,
        "questions": waits.questions,
    }


def run(
    launcher: Launcher, name: str, world: World, wanted: Callable[[Case], bool]
) -> dict[str, Measured]:
    cases = [case for case in world.cases if wanted(case)]
    if not cases:
        return {}
    note(f"{world.name}: {len(cases)} cases")
    with tempfile.TemporaryDirectory(prefix="bench-waits-") as folder:
        settings = {"JOURNAL_RETAIN_MEGABYTES": "500", "MAX_ROUTE_ENTRIES": "10000000"}
        if world.pairs is not None:
            path = Path(folder) / "kvConfig.json"
            path.write_bytes(world.pairs())
            settings["KV_CONFIG_PATH"] = str(path)
        server = launcher.start(name, settings=settings)
        try:
            with contextlib.ExitStack() as cleanup:
                for frames in world.brokers():
                    connection = cleanup.enter_context(connect(server.port))
                    _registered(connection, frames)
                return {case.name: measured(server, case) for case in cases}
        finally:
            server.stop()


def _registered(connection: socket.socket, frames: Sequence[bytes]) -> None:
    for frame in frames:
        connection.sendall(frame)
    with connection.makefile("rb") as answers:
        for _ in frames:
            answers.read(int.from_bytes(answers.read(4), "big"))


def markdown(results: dict[str, dict[str, Measured]]) -> Iterator[str]:
    names = list(results)
    columns = ("longest wait, ms", "noise", "of it the loop's CPU time")
    yield "| case |" + "".join(f" {name}: {column} |" for name in names for column in columns)
    yield "|---|" + "---|" * (len(names) * len(columns))
    for case in results[names[-1]]:
        cells = []
        for name in names:
            figures = results[name].get(case)
            if figures is None:
                cells += ["-"] * len(columns)
            else:
                cells += [f"{figures[f]:.1f}" for f in ("wait_ms", "noise_ms", "loop_cpu_ms")]
        yield f"| {case} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    parser = argparse.ArgumentParser(description="How long one peer keeps another waiting.")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of everything")
    parser.add_argument("--cases", default="", help="only those whose names contain one of these")
    add_places(parser)
    options = parser.parse_args(arguments)
    words = [word for word in options.cases.split(",") if word]
    scale = Scale(50 if options.quick else 1)
    results: dict[str, dict[str, Measured]] = {}
    servers = {"before": "before"} if options.before else {}
    try:
        cores = two_cores()
        launcher = Launcher(cores, options.python, options.java_jars, options.before)
        for name, server in {**servers, "now": "routebook"}.items():
            results[name] = {}
            for world in worlds(scale):
                results[name] |= run(
                    launcher,
                    server,
                    world,
                    lambda case: not words or any(w in case.name for w in words),
                )
    except (CannotRun, UnexpectedAnswer) as error:
        note(str(error))
        return 2
    print("\n".join(markdown(results)))
    if not options.quick:
        note(f"every figure: {save('waits', {'cases': options.cases}, results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
