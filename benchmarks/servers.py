"""The servers under test as child processes, each pinned to the server core."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frames import UnexpectedAnswer, ask, connect, route_query

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
JAVA_HEAP = ("-Xms1g", "-Xmx1g")


class CannotRun(Exception):
    """Something this machine lacks; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Cores:
    server: int
    generator: int


def two_cores() -> Cores:
    """Choose the first two cores this process may use and move it to the second."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise CannotRun("a server and its load need a core each: this machine offers one")
    if shutil.which("taskset") is None:
        raise CannotRun("taskset is missing: install util-linux")
    os.sched_setaffinity(0, {allowed[1]})
    return Cores(server=allowed[0], generator=allowed[1])


@dataclass(slots=True)
class Server:
    name: str
    port: int
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    started: float  # on the clock of time.perf_counter
    start_seconds: float = 0.0

    def _status_kb(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
        raise CannotRun(f"no {name} in /proc/{self.process.pid}/status")

    def rss_mb(self) -> float:
        return self._status_kb("VmRSS") / 1024

    def peak_rss_mb(self) -> float:
        return self._status_kb("VmHWM") / 1024

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def threads_seconds(self) -> float:
        """CPU time of all threads but the first, which serves."""
        return sum(
            int((task / "schedstat").read_text().split()[0]) / 1e9
            for task in Path(f"/proc/{self.process.pid}/task").iterdir()
            if task.name != str(self.process.pid)
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def cpu_seconds(pid: int) -> float:
    # The command name, in brackets, may hold spaces: count the fields after it.
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / CLOCK_TICKS


def busy_seconds() -> float:
    """Sum what all cores have worked for all programs since the machine started."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, soft_irq = (int(ticks) for ticks in fields[:7])
    return (user + nice + system + irq + soft_irq) / CLOCK_TICKS


def children_seconds(times: os.times_result) -> float:
    return times.children_user + times.children_system


@dataclass(frozen=True, slots=True)
class Launcher:
    """How to start each kind of server; a started one has answered its first request."""

    cores: Cores
    python: Path
    java_jars: Path
    before: Path | None = None  # interpreter that has another version of Routebook

    def start(
        self,
        name: str,
        *,
        answer_bytes: int = 0,
        port: int | None = None,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        pairs: bytes | None = None,
        begun_by: Sequence[str] = (),
    ) -> Server:
        """Start a server; ``data_dir``, which outlives it, and ``settings`` are for Routebook.

        ``settings`` are named as in the environment, without ``ROUTEBOOK_``; ``pairs`` is the
        key-value file the server finds. ``begun_by`` are words of a command that becomes what
        follows them: ``sh -c 'ulimit -n 99; exec "$@"' sh``.
        """
        folder = tempfile.TemporaryDirectory(prefix=f"bench-{name}-")
        port = port or free_port()
        home = Path(folder.name)
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)}
        match name:
            case "routebook" | "before":
                command = self._routebook(port, self.before if name == "before" else self.python)
                environment["ROUTEBOOK_DATA_DIR"] = str(data_dir or home / "data")
                environment["ROUTEBOOK_GATEWAY_PORT"] = "0"
                environment |= {f"ROUTEBOOK_{key}": text for key, text in (settings or {}).items()}
            case "java":
                command = self._java(port, home)
            case "null":
                command = [sys.executable, str(ROOT / "benchmarks/load/null_server.py")]
                command += ["--port", str(port), "--answer-bytes", str(answer_bytes)]
            case _:
                raise CannotRun(f"no server is called {name}")
        if pairs is not None:  # where both look for it by default
            (home / "namesrv").mkdir()
            (home / "namesrv/kvConfig.json").write_bytes(pairs)
        with (home / "output.log").open("wb") as output:
            started = time.perf_counter()
            process = subprocess.Popen(
                ["taskset", "-c", str(self.cores.server), *begun_by, *command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        server = Server(name, port, process, folder, started)
        try:
            self._wait_until_it_answers(server)
        except (CannotRun, KeyboardInterrupt):
            process.kill()
            raise
        server.start_seconds = time.perf_counter() - started
        return server

    def _routebook(self, port: int, python: Path | None) -> list[str]:
        if python is None:
            raise CannotRun("no interpreter has the version before: name one with --before")
        if not python.exists():
            raise CannotRun(f"{python} is missing: run make install")
        listen = ["--listen-port", str(port), "--bind-address", "127.0.0.1"]
        return [str(python), "-m", "routebook", "serve", *listen]

    def _java(self, port: int, home: Path) -> list[str]:
        if not list(self.java_jars.glob("rocketmq-namesrv-*.jar")):
            raise CannotRun(f"no NameServer jars in {self.java_jars}: run make peers")
        config = home / "namesrv.conf"
        config.write_text(f"listenPort={port}\nbindAddress=127.0.0.1\n")
        places = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
        main = "org.apache.rocketmq.namesrv.NamesrvStartup"
        return ["java", *JAVA_HEAP, *places, "-cp", f"{self.java_jars}/*", main, "-c", str(config)]

    def _wait_until_it_answers(self, server: Server) -> None:
        give_up = time.perf_counter() + START_TIMEOUT_S
        while time.perf_counter() < give_up:
            try:
                with connect(server.port) as connection:
                    ask(connection, route_query("bench-is-anyone-there"))
            except (OSError, UnexpectedAnswer):
                if server.process.poll() is not None:
                    break
                time.sleep(0.002)
            else:
                return
        output = (Path(server.folder.name) / "output.log").read_text(errors="replace")
        raise CannotRun(f"{server.name} did not start:\n{output[-2000:]}")


def free_port() -> int:
    # Below the ephemeral range: a connect to a port in it can meet itself while nobody listens.
    for port in random.sample(range(20_000, 30_000), 100):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise CannotRun("no free port between 20000 and 30000")
