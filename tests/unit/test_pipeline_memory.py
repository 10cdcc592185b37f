import subprocess
import sys

from benchmarks.pipeline_memory import Watch

MB = 1_000_000
FORKED = "import os, time; held = bytes(b'x' * 200_000_000); os.fork(); time.sleep(2)"
CHILD = "import time; held = bytearray(200_000_000); time.sleep({seconds})"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def start(seconds: float) -> subprocess.Popen[str]:
    """A process that has started another one, which holds 200 MB."""
    command = [sys.executable, "-c", PARENT, CHILD.format(seconds=seconds)]
    return subprocess.Popen(command, text=True)


def test_what_a_process_has_started_counts_too() -> None:
    process = start(seconds=2)
    with Watch(process, limit=1000 * MB) as watch:
        assert process.wait() == 0
    assert 200 * MB < watch.peak.total < 400 * MB
    assert watch.peak.others == watch.peak.total
    assert watch.peak.java == 0


def test_memory_that_two_processes_share_counts_once() -> None:
    process = subprocess.Popen([sys.executable, "-c", FORKED], text=True)
    with Watch(process, limit=1000 * MB) as watch:
        assert process.wait() == 0
    assert 200 * MB < watch.peak.total < 400 * MB


def test_too_much_memory_ends_it() -> None:
    process = start(seconds=3)
    with Watch(process, limit=150 * MB):
        assert process.wait() < 0
