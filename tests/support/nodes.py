"""Nodes in the test's own event loop, and as processes: ``python -m routebook serve``."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from routebook.app import NameServer
from routebook.settings import make_settings
from support.programs import Program
from support.raw import BlockingPeer

READY = re.compile(r"ready on \S+:(\d+) ")


def local_node(folder: Path, **settings: object) -> NameServer:
    """A node to be entered: on a free port of 127.0.0.1, its files in ``folder``."""
    return NameServer(
        make_settings(folder, **{"listen_port": 0, "bind_address": "127.0.0.1", **settings})
    )


class NodeProcess(Program):
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
        super().__init__(folder, *args, ready="ready on", environment=environment)
        self._port_from_file = port_from_file
        self._begun_by = begun_by
        self.port = 0

    @property
    def kv_path(self) -> Path:
        return self.folder / "kvConfig.json"

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def _command(self) -> list[str]:
        serve = [sys.executable, "-m", "routebook", "serve"]
        return [*self._begun_by, *serve, *self._defaults(), *self._args]

    def _defaults(self) -> list[str]:
        defaults = {
            "--bind-address": "127.0.0.1",
            "--data-dir": str(self.data_dir),
            "--kv-config-path": str(self.kv_path),
            "--gateway-port": "0",
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
        super().start()
        found = READY.search(self.stdout)
        assert found is not None
        self.port = int(found[1])

    def connect(self) -> BlockingPeer:
        return BlockingPeer(self.port)

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
