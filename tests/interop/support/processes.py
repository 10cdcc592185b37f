"""Programs started by the tests: output kept in a file, ended by pid, never by name."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.waiting import wait_for

TAIL_CHARS = 3000


class ProgramFailed(AssertionError):
    """A program ended when it should have gone on, or with another exit code than 0."""

    def __init__(self, name: str, exit_code: int | None, output: str) -> None:
        ending = "did not end in time" if exit_code is None else f"ended with code {exit_code}"
        super().__init__(f"{name} {ending}; end of its output:\n{output[-TAIL_CHARS:]}")


class Program:
    """One running process with its own folder.

    ``HOME`` is that folder, so whatever a program writes to a home stays in the test.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.folder = folder
        self._log_path = folder / "output.log"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder,
                env={**os.environ, "HOME": str(folder), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self._log_path.read_text(errors="replace")

    def wait_for_output(self, text: str, *, timeout_s: float = 60.0, since: int = 0) -> None:
        """Wait until ``text`` stands in the output after the first ``since`` characters."""

        def look() -> str:
            alive = self.running  # before reading: the last words of a dead program count
            output = self.output()[since:]
            if text not in output and not alive:
                raise ProgramFailed(self.name, self._process.returncode, output)
            return output

        wait_for(
            f"{text!r} from {self.name}",
            look,
            until=lambda output: text in output,
            timeout_s=timeout_s,
        )

    def wait_for_success(self, *, timeout_s: float) -> str:
        """Return the whole output of a program that ends with exit code 0."""
        try:
            exit_code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProgramFailed(self.name, None, self.output()) from None
        if exit_code != 0:
            raise ProgramFailed(self.name, exit_code, self.output())
        return self.output()

    def terminate(self) -> None:
        self._process.terminate()

    def stop(self, *, timeout_s: float = 30.0) -> int:
        """Ask with SIGTERM and return the exit code."""
        self.terminate()
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
