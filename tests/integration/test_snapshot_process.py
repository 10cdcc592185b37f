import subprocess
import sys
from pathlib import Path

from routebook.journal.folder import snapshot_name
from support.journals import lay
from support.telling import thirds


def test_a_process_makes_a_snapshot(tmp_path: Path) -> None:
    first, second, _ = thirds()
    lay(tmp_path, first, second)
    command = [sys.executable, "-m", "routebook.journal.snapshot", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (tmp_path / snapshot_name(second[-1].seq)).exists()
