"""A journal on a disk of one MiB, until it is full and then larger.

Run by ``python -m tests.killrounds --full-disk`` in name spaces of its own, where it may mount.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from routebook.events import RecordsLost
from routebook.journal.reader import read
from routebook.journal.verify import verify
from support.journals import numbered, opened, written
from support.waiting import wait_for


def on_a_disk_of_its_own() -> str:
    """What ``full_disk`` says; raises AssertionError with what went wrong."""
    tests = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", sys.executable, __file__, folder],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def full_disk(folder: Path) -> str:
    """What happened; raises AssertionError when something does not hold."""
    _mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder))
    journal = folder / "journal"
    number = 0
    with opened(journal, rotate_bytes=64 * 1024, max_queued=1000) as writer:
        while not (status := writer.status()).failing or status.lost < 100:
            number += 1
            writer.append(numbered(number))
        assert status.last_error is not None
        assert "No space left on device" in status.last_error, status
        _mount("-o", "remount,size=64m", str(folder))
        written(writer)
        status = wait_for("the end of it", writer.status, until=lambda seen: not seen.failing)
        assert writer.append(numbered(number + 1)) is not None
    report = verify(journal)
    assert report.sound, report
    lost = sum(r.event.count for r in read(journal) if isinstance(r.event, RecordsLost))
    assert lost == status.lost, (lost, status)
    return (
        f"{number} events on a disk of 1 MiB: {report.records} records in {report.segments}"
        f" segments, {lost} lost and told so; {status.last_error}"
    )


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    print(full_disk(Path(sys.argv[1])))
