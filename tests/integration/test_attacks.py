"""The attacks of the benchmark are played as they are written, a fiftieth of each."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_attack_is_told_with_its_figures_and_its_end() -> None:
    chosen = "connection of 5,single-quoted,conflicts,do not read"
    words = ["--quick", "--servers", "routebook", "--python", sys.executable, "--attacks", chosen]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.attacks", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert len(rows) == 4, done.stderr
    by_title = {row[0]: row[-1] for row in rows}
    assert by_title["closing a connection of 5,000 brokers"] == "1 answered"
    assert by_title["103: a single-quoted string of 16 MiB"] == "1 refused with code 1"
    assert by_title["300 connections that ask for 206 and do not read"] == "12 not read"
    assert "answered" in by_title["a flood of conflicts and refusals"]
    assert all(float(row[2]) > 0 and row[5] == "no" for row in rows)
