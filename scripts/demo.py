"""The whole story in a few minutes: three nodes, brokers with faults, tables, a report.

    make demo [ARGS="--seconds 30 --folder DIR"]

Everything is the real program on loopback, as an operator would start it. One node is killed and
started again on the way, so that its journal has something to tell.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROUTEBOOK = str(Path(sys.executable).with_name("routebook"))
NODES = 3
READY_S = 20.0
PATIENCE_S = 60.0  # brokers are still there when the nodes stop
TOPICS_ASKED = ("topic-0000", "topic-0001", "no-such-topic")


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


class Node:
    """A node in a process; it keeps its folder and port when it is started again."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self._folder, self.name, self.port = folder / name, name, port
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def journal(self) -> Path:
        return self._folder / "journal"

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = (self._folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [
                    *(ROUTEBOOK, "serve", "--bind-address", "127.0.0.1"),
                    *("--listen-port", str(self.port), "--data-dir", str(self._folder)),
                    *("--kv-config-path", str(self._folder / "kvConfig.json")),
                    *("--node-id", self.name, "--journal-window-seconds", "5"),
                    *("--gateway-port", "0"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.1)
        raise SystemExit(f"demo: node {self.name} did not start; see {self._folder / 'log'}")

    def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(30)


@contextmanager
def nodes_in(folder: Path) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    try:
        for number, port in enumerate(free_ports(NODES), 1):
            nodes.append(Node(folder, f"node-{number}", port))
        yield nodes
    finally:
        for node in nodes:
            node.end(signal.SIGTERM)


def ask(nodes: list[Node]) -> None:
    """Clients that look for topics, so that there is demand; one of them does not exist."""
    for node in nodes:
        for topic in TOPICS_ASKED:
            subprocess.run(
                [ROUTEBOOK, "route", topic, "-n", f"127.0.0.1:{node.port}"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )


def live(folder: Path, seconds: float, seed: int) -> list[Path]:
    """Run the cluster; the journals it leaves."""
    with nodes_in(folder) as nodes:
        addresses = ";".join(f"127.0.0.1:{node.port}" for node in nodes)
        say(f"{NODES} nodes run: {addresses}")
        say(f"six brokers with twenty topics register, and things go wrong for {seconds:.0f} s")
        log = (folder / "simulate.log").open("ab")
        simulation = subprocess.Popen(
            [
                *(ROUTEBOOK, "simulate", "-n", addresses, "--brokers", "6", "--topics", "20"),
                *("--faults", "kill,hang,flap,drain,churn", "--every", "4"),
                *(
                    "--duration",
                    str(seconds + PATIENCE_S),
                    "--seed",
                    str(seed),
                    "--heartbeat-timeout",
                    "5",
                ),
            ],
            stdin=subprocess.DEVNULL,
            stderr=log,  # nodes that cannot be reached, which is the idea
        )
        log.close()
        try:
            started = time.monotonic()
            ask(nodes)
            _wait(started + seconds * 0.4)
            say(f"{nodes[1].name} is killed")
            nodes[1].end(signal.SIGKILL)
            _wait(started + seconds * 0.6)
            nodes[1].start()
            say(f"{nodes[1].name} is back, and remembers")
            ask(nodes)
            _wait(started + seconds)
            say("the nodes stop and seal their journals")
            for node in nodes:
                node.end(signal.SIGTERM)
        finally:
            if simulation.poll() is None:
                simulation.terminate()
                simulation.wait(30)
    return [node.journal for node in nodes]


def _wait(until: float) -> None:
    time.sleep(max(until - time.monotonic(), 0.0))


def run(*arguments: str) -> None:
    say(f"routebook {' '.join(arguments)}")
    done = subprocess.run([ROUTEBOOK, *arguments], check=False)
    if done.returncode:
        raise SystemExit(f"demo: routebook {arguments[0]} {arguments[1]} failed, see above")


def main() -> int:
    parser = argparse.ArgumentParser(description="The whole story in a few minutes.")
    parser.add_argument("--seconds", type=float, default=60.0, help="of life (60)")
    parser.add_argument("--seed", type=int, default=7, help="of the faults (7)")
    parser.add_argument("--folder", type=Path, help="for journals, tables and the report")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="routebook-demo-"))
    if options.folder and folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"demo: {folder} is not empty; choose another --folder")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SystemExit("demo: Spark needs Java 17; install a JDK and try again")
    journals = live(folder, options.seconds, options.seed)
    tables, page = folder / "tables", folder / "report.html"
    run("spark", "ingest", *map(str, journals), "--tables", str(tables))
    run("spark", "build", "--tables", str(tables))
    run("spark", "report", "--tables", str(tables), "--out", str(page))
    say(f"the report is {page}; open it in a browser")
    say(f"ask more: {ROUTEBOOK} spark explain broker-0 --tables {tables}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
