"""``routebook spark watch`` as a process of its own, and journals for it that are written on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from routebook.journal.folder import ACTIVE
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from support.small_spark import environment
from support.waiting import Seen

STARTS_S = 600.0
"""Spark takes its time on a busy machine."""


class Folders:
    """Journals of nodes below one folder, written on and on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[str, bytes] = {}

    def write(self, by_node: Mapping[str, Iterable[Record]]) -> None:
        for node, records in by_node.items():
            folder = self.root / node
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / ACTIVE).open("ab") as active:
                for record in records:
                    line = encode(record, self._hashes.get(node, CHAIN_START))
                    self._hashes[node] = hash_of(line) or CHAIN_START
                    active.write(line)


class Watch:
    """With all it starts."""

    def __init__(self, folder: Path, *args: str | Path) -> None:
        self._output = folder / "output.txt"
        self._errors = folder / "errors.txt"
        command = [sys.executable, "-m", "routebook", "spark", "watch", *map(str, args)]
        with self._output.open("ab") as out, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*command, "--memory", "600m", "--master", "local[2]"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
                env=environment(folder),
            )

    @property
    def output(self) -> list[str]:
        """Lines of this watch and of those before it in the same folder."""
        return self._output.read_text().splitlines()

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def sees(self, look: Callable[[], Seen]) -> Callable[[], Seen]:
        """``look``, as long as the process runs: nothing is waited for that cannot come."""

        def looked() -> Seen:
            ended = self._process.poll()
            assert ended is None, f"the watch ended with {ended}: {self.errors}"
            return look()

        return looked

    def end(self) -> None:
        """In order, as Ctrl-C and service managers do it."""
        self._process.terminate()
        assert self._process.wait(STARTS_S) == 0, self.errors

    def kill(self) -> None:
        """All at once, as a machine that loses power would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextmanager
def watching(folder: Path, *args: str | Path) -> Iterator[Watch]:
    watch = Watch(folder, *args)
    try:
        yield watch
    finally:
        watch.kill()
