"""Memory of the tables goes back to the system, whatever small things were made in between."""

import subprocess
import sys

import pytest

GROWING_AND_SHRINKING = """
import sys, tracemalloc
from routebook.server.memory_watch import give_back, resident_bytes
from routebook.table_memory import table_memory

if "use" in sys.argv:
    table_memory.use()
if "trace" in sys.argv:
    tracemalloc.start()
before = resident_bytes()
tables, log = [], []
for number in range(400):
    with table_memory:
        tables.append([{f"{number}-{each}".ljust(60, "x"): [each]} for each in range(1000)])
    log += [f"{number} has said {each}".ljust(40) for each in range(40)]
full = resident_bytes()
del tables
give_back()
print((resident_bytes() - before) / (full - before))
assert len(log) == 16_000
"""


def kept(*words: str, options: tuple[str, ...] = ()) -> float:
    """The share of what was taken that is not given back, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, *options, "-c", GROWING_AND_SHRINKING, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return float(ran.stdout)


def test_what_outlives_the_tables_does_not_keep_their_memory() -> None:
    assert kept("use") < 0.3
    assert kept() > 0.5, "else the interpreter gives back by itself, and this is not needed"


@pytest.mark.parametrize(
    ("words", "options"),
    [
        pytest.param(("use",), ("-X", "dev"), id="dev"),
        pytest.param(("use", "trace"), (), id="tracemalloc"),
    ],
)
def test_who_watches_allocations_is_left_alone(
    words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    assert kept(*words, options=options) < 1.5  # it ends in good order, whatever is given back
