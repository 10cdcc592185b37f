"""Tables are kept out of collections in a process that froze what it began with, and only there."""

import subprocess
import sys

import pytest

GROWING = """
import gc, sys
from routebook.server.freezing import freezer

if sys.argv[1] == "froze":
    gc.freeze()
freeze = freezer()
tables = [[] for _ in range(1000)]
before = gc.get_freeze_count()
freeze()
print(gc.get_freeze_count() - before > 1000)
"""


@pytest.mark.parametrize(("process", "kept_out"), [("froze", "True"), ("did-not", "False")])
def test_what_has_grown_is_kept_out_of_collections(process: str, kept_out: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GROWING, process], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == kept_out
