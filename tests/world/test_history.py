"""A few worlds of the thousands of ``make worlds``: what history says of them is true."""

import pytest

from world.campaign import CHECKS, findings_of, told
from world.plan import draw

SEEDS = range(100, 112)


@pytest.mark.parametrize("what", CHECKS)
def test_history_is_right_or_says_that_nobody_knows(what: str) -> None:
    wrong = [
        told(plan, finding)
        for plan in map(draw, SEEDS)
        for finding in findings_of(plan, CHECKS[what])
    ]
    assert not wrong, f"{len(wrong)} mistakes, the first of them:\n{wrong[0]}"
