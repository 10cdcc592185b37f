"""Nodes in the test's own event loop, and as processes: ``python -m routebook serve``."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from routebook.app import NameServer
from routebook.settings import make_settings
from support.raw import BlockingPeer
from support.waiting import TIMEOUT_S, wait_for

READY = re.compile(r"ready on (\S+):(\d+)")


def local_node(folder: Path, **settings: object) -> NameServer:
    """A node to be entered: on a free port of 127.0.0.1, its files in ``folder``."""
    return NameServer(
        make_settings(folder, **{"listen_port": 0, "bind_address": "127.0.0.1", **settings})
    )


class NodeProcess:
    """One node with a folder for its home, its files and its output.

    Listens on a free port of 127.0.0.1 unless ``args`` say otherwise; the block waits until the
    node is ready and kills it at the end if it still runs. ``begun_by`` are words of a command
    that becomes what follows them: ``sh -c 'ulimit -n 99; exec "$@"' sh``.
    """

    def __init__(
        self,
        folder: Path,
        *args: str | Path,
        environment: Mapping[str, str] | None = None,
        port_from_file: bool = False,
        begun_by: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._stdout, self._stderr = folder / "stdout.log", folder / "stderr.log"
        self._args = [str(arg) for arg in args]
        self._environment = dict(environment or {})
        self._port_from_file = port_from_file
        self._begun_by = begun_by
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> "NodeProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "not started"
        return self._process

    @property
    def kv_path(self) -> Path:
        return self.folder / "kvConfig.json"

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def launch(self) -> None:
        """Start the process and do not wait for anything."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ROUTEBOOK_", "NAMESRV"))}
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    *self._begun_by,
                    *[sys.executable, "-m", "routebook", "serve"],
                    *self._defaults(),
                    *self._args,
                ],
                cwd=self.folder,
                env={**kept, "HOME": str(self.folder), **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    def _defaults(self) -> list[str]:
        defaults = {
            "--bind-address": "127.0.0.1",
            "--data-dir": str(self.data_dir),
            "--kv-config-path": str(self.kv_path),
        }
        if not self._port_from_file:
            defaults["--listen-port"] = "0"
        return [
            word
            for flag, value in defaults.items()
            if flag not in self._args and _variable(flag) not in self._environment
            for word in (flag, value)
        ]

    def start(self) -> None:
        """Start the process and wait until it says that it is ready."""
        self.launch()

        def look() -> re.Match[str] | None:
            ended = self.process.poll()
            found = READY.search(self.stdout)
            assert found or ended is None, f"ended with {ended}: {self.stderr}"
            return found

        found = wait_for("the readiness line", look, until=lambda found: found is not None)
        assert found is not None
        self.port = int(found[2])

    def run(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """Start a process that is expected to end by itself; its exit code."""
        self.launch()
        return self.ended(timeout_s=timeout_s)

    def ended(self, *, timeout_s: float = TIMEOUT_S) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node did not end in {timeout_s} s: {self.log}") from None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def connect(self) -> BlockingPeer:
        return BlockingPeer(self.port)

    @property
    def stdout(self) -> str:
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def log(self) -> str:
        return self.stdout + self.stderr

    def lines_with(self, *texts: str) -> list[str]:
        """Lines of the log that contain all of ``texts``."""
        return [line for line in self.stderr.splitlines() if all(text in line for text in texts)]

    def work_s(self) -> float:
        """Processor time used so far: what waiting costs on a machine that is busy otherwise."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Resident bytes now."""
        return self._status("VmRSS")

    def peak_memory(self) -> int:
        """Resident bytes at their highest since the start or the last ``forget_peak``."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
        assert found is not None, text
        return int(found[1]) * 1024


def _variable(flag: str) -> str:
    return "ROUTEBOOK_" + flag.removeprefix("--").replace("-", "_").upper()
