"""mqadmin 5.5.0: all commands of a test run in one JVM, which takes seconds to start."""

import os
import selectors
import subprocess
import time
from pathlib import Path

from interop.support.peers import NEW, driver_command


class Admin:
    """Runs unmodified mqadmin commands, one after the other, through the driver Admin.java."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._errors_path = folder / "errors.log"
        with self._errors_path.open("ab") as errors:
            self._process = subprocess.Popen(
                driver_command("Admin", [], client=NEW, home=folder),
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        self._unread = b""

    def run(self, namesrv: str, command: str, *options: str, timeout_s: float = 60.0) -> str:
        """Return everything ``mqadmin command -n namesrv options...`` printed."""
        assert self._process.stdin is not None
        line = "\t".join([command, "-n", namesrv, *options]) + "\n"
        self._process.stdin.write(line.encode())
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            self._read_more(command, deadline)
        length, _, self._unread = self._unread.partition(b"\n")
        while len(self._unread) < int(length):
            self._read_more(command, deadline)
        output, self._unread = self._unread[: int(length)], self._unread[int(length) :]
        return output.decode()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read_more(self, command: str, deadline: float) -> None:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"mqadmin {command} did not answer in time")
        piece = os.read(self._process.stdout.fileno(), 65536)
        if not piece:
            raise EOFError(f"mqadmin {command} ended its JVM: {self._errors_path.read_text()}")
        self._unread += piece
