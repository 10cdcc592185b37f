"""The record of what tests took, which ``make test`` leaves behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
BUSY = """
import subprocess, sys

LOOP = "import time\\nwhile time.process_time() < 0.5: pass"

def test_that_has_a_program_work_for_it():
    subprocess.run([sys.executable, "-c", LOOP], check=True)
"""


def test_what_the_programs_of_a_test_take_is_counted_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_busy.py").write_text(BUSY)
    record = tmp_path / "build" / "durations.txt"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "support.durations",
            "--durations-file",
            str(record),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    told = record.read_text()
    assert told.startswith("1 files in ")
    (took,) = re.findall(r"([\d.]+)  test_busy.py::test_that_has_a_program_.* \(call\)", told)
    assert float(took) >= 0.4, told
