"""What the account charges is what the process grows by, with a margin on the safe side."""

import subprocess
import sys
from pathlib import Path

import pytest

from support import table_costs

ALLOCATOR = 2 * 1024 * 1024  # pages it has begun
LEAST_PERCENT = 20  # of what is charged: an account that charges for nothing refuses for nothing


@pytest.mark.parametrize("case", [*table_costs.CASES, *table_costs.PAIRS, *table_costs.WATCHES])
def test_the_account_charges_at_least_what_the_tables_take(case: str) -> None:
    script = Path(table_costs.__file__)
    ran = subprocess.run(
        [sys.executable, str(script), case], capture_output=True, text=True, check=True, timeout=60
    )
    grown, charged = map(int, ran.stdout.split())
    assert grown <= charged + ALLOCATOR
    assert grown >= charged * LEAST_PERCENT // 100
