"""Long-running commands of ``routebook`` as processes: agent, relay, simulate."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

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
        self._folder = folder
        self._args = [str(arg) for arg in args]
        self._ready = ready
        self._environment = dict(environment or {})
        self._stdout, self._stderr = folder / "stdout.log", folder / "stderr.log"

    def __enter__(self) -> "Program":
        self.launch()
        try:
            self.wait_for_output(self._ready)
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

    def launch(self) -> None:
        """Start the process and do not wait for anything."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ROUTEBOOK_", "NAMESRV"))}
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "routebook", *self._args],
                cwd=self._folder,
                env={**kept, "HOME": str(self._folder), **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )

    def run(self) -> int:
        """Start a process that is expected to end by itself; its exit code."""
        self.launch()
        return self.ended()

    def wait_for_output(self, text: str) -> None:
        self._wait_for(text, lambda: self.stdout)

    def wait_for_log(self, text: str) -> None:
        self._wait_for(text, lambda: self.stderr)

    def _wait_for(self, text: str, look: Callable[[], str]) -> None:
        def found() -> bool:
            ended, seen = self.process.poll(), look()
            assert text in seen or ended is None, f"ended with {ended}: {self.log}"
            return text in seen

        wait_for(f"{text!r} of {self._args[0]}", found)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def ended(self, *, timeout_s: float = TIMEOUT_S) -> int:
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._end()
            raise AssertionError(f"it did not end in {timeout_s} s: {self.log}") from None

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def stdout(self) -> str:
        return self._stdout.read_text(errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    @property
    def log(self) -> str:
        return self.stdout + self.stderr
