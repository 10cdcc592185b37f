"""Nodes killed under load. 200 rounds: ``python -m tests.killrounds --what node``."""

from pathlib import Path

import pytest

from killrounds.node import node_rounds


@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_killed_at_any_moment_goes_on_with_what_it_had_written(
    tmp_path: Path, seed: int
) -> None:
    toll = node_rounds(tmp_path, rounds=5, seed=seed)
    assert toll.rounds == 5
    assert toll.pairs > 0
    assert toll.registrations > 0
