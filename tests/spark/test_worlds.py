"""Worlds of ``make worlds`` in one lake: what the tables say of them is true.

Segments come in two steps, some of them late or half copied, with a build after each.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from world.plan import draw, story
from world.sparkcampaign import check_plans

SEEDS = range(40)


def test_tables_are_right_or_say_that_nobody_knows(spark: SparkSession, tmp_path: Path) -> None:
    plans = [draw(seed) for seed in SEEDS]
    wrong = list(check_plans(spark, plans, tmp_path, steps=1, reports=1))
    worlds = [story(plan) for plan in plans if any(f.name in str(wrong[:1]) for f in plan.fleets)]
    assert not wrong, "\n".join([f"{len(wrong)} mistakes, such as {wrong[0]}", *worlds])
