"""Worlds of ``make worlds`` in one frame: what the tables say of them is true.

Builds in steps and reports are left to the long run.
"""

from pyspark.sql import SparkSession

from world.plan import draw, story
from world.spark_frames import check_frames

SEEDS = range(40)


def test_tables_are_right_or_say_that_nobody_knows(spark: SparkSession) -> None:
    plans = [draw(seed) for seed in SEEDS]
    wrong = check_frames(spark, plans)
    worlds = [story(plan) for plan in plans if any(f.name in str(wrong[:1]) for f in plan.fleets)]
    assert not wrong, "\n".join([f"{len(wrong)} mistakes, such as {wrong[0]}", *worlds])
