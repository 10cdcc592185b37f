"""Long-running commands of ``routebook`` as processes: agent, relay, simulate, nodes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from support.waiting import TIMEOUT_S, wait_for


class Program:
    """``python -m routebook ...``, its home and output in a folder; killed at the end of the block.

    The block waits for ``ready`` on standard output.
    """

    def __init__(
        self,
        folder: Path,
        *args: str | Path,
        ready: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._args = [str(arg) for arg in args]
        self._ready = ready
        self._environment = dict(environment or {})
        self._stdout, self._stderr = folder / "stdout.log", folder / "stderr.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "not started"
        return self._process

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "routebook", *self._args]

    def start(self) -> None:
        """Start the process and wait until it says that it is ready."""
        self.launch()
        self.wait_for_output(self._ready)

    def launch(self) -> None:
        """Start the process and do not wait for anything."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ROUTEBOOK_", "NAMESRV"))}
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env={**kept, "HOME": str(self.folder), **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    def run(self, *, timeout_s: float = TIMEOUT_S) -> int:
        """Start a process that is expected to end by itself; its exit code."""
        self.launch()
        return self.ended(timeout_s=timeout_s)

    def wait_for_output(self, text: str) -> None:
        self._wait_for(text, lambda: self.stdout)

    def wait_for_log(self, text: str) -> None:
        self._wait_for(text, lambda: self.stderr)

    def _wait_for(self, text: str, look: Callable[[], str]) -> None:
        def found() -> bool:
            ended, seen = self.process.poll(), look()
            assert text in seen or ended is None, f"ended with {ended}: {self.log}"
            return text in seen

        wait_for(f"{text!r} of {' '.join(self._command())}", found)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self, *, timeout_s: float = TIMEOUT_S) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it did not end in {timeout_s} s: {self.log}") from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def stdout(self) -> str:
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def log(self) -> str:
        return self.stdout + self.stderr
