"""Thousands of worlds: ``make worlds ARGS="--count 3000 --first 1 --what history"``.

Prints the first world of each kind of mistake, made as small as it gets, as a story. Exit 1 when
there was a mistake.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from world.compare_checks import check_compare
from world.finding import Finding
from world.history_checks import check_history
from world.plan import Plan, draw, story
from world.shrink import smallest
from world.simulate import happened
from world.truth import Truth

Check = Callable[[Truth, Path], Iterator[Finding]]
CHECKS: dict[str, Check] = {"history": check_history, "compare": check_compare}


def findings_of(plan: Plan, check: Check) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        return list(check(happened(plan), Path(folder)))


def told(plan: Plan, finding: Finding) -> str:
    return f"{finding}\n{story(plan)}"


def smallest_with(plan: Plan, check: Check, what: str) -> Plan:
    def fails(smaller: Plan) -> bool:
        return any(finding.what == what for finding in findings_of(smaller, check))

    return smallest(plan, fails)


def run(check: Check, first: int, count: int, *, seconds: float) -> Counter[str]:
    """How often each mistake was made; the first world of each is printed."""
    mistakes: Counter[str] = Counter()
    until = time.monotonic() + seconds
    seen = 0
    for seed in range(first, first + count):
        if time.monotonic() > until:
            break
        seen += 1
        plan = draw(seed)
        for finding in findings_of(plan, check):
            mistakes[finding.what] += 1
            if mistakes[finding.what] == 1:
                small = smallest_with(plan, check, finding.what)
                again = [f for f in findings_of(small, check) if f.what == finding.what]
                print(told(small, (again or [finding])[0]), flush=True)
    print(f"{seen} worlds, {sum(mistakes.values())} mistakes of {len(mistakes)} kinds", flush=True)
    for what, times in mistakes.most_common():
        print(f"  {times:6d} {what}")
    return mistakes


def main() -> int:
    parser = argparse.ArgumentParser(prog="make worlds", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--count", type=int, default=2000, help="how many worlds")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument(
        "--what", choices=[*CHECKS, "tables", "spark", "alerts", "all"], default="all"
    )
    parser.add_argument("--steps", type=int, default=3, help="deliveries, with a build after each")
    parser.add_argument("--reports", type=int, default=3, help="of so many fleets of each lake")
    asked = parser.parse_args()
    wrong = 0
    for name, check in CHECKS.items():
        if asked.what in (name, "all"):
            print(f"{name}:", flush=True)
            wrong += sum(run(check, asked.first, asked.count, seconds=asked.seconds).values())
    if asked.what in ("tables", "all"):
        from world.spark_campaign import run_tables

        wrong += run_tables(asked.first, asked.count, seconds=asked.seconds)
    if asked.what in ("spark", "all"):
        from world.spark_campaign import run_spark

        wrong += run_spark(
            asked.first,
            asked.count,
            seconds=asked.seconds,
            steps=asked.steps,
            reports=asked.reports,
        )
    if asked.what in ("alerts", "all"):
        from world.alerts_campaign import run_alerts

        wrong += run_alerts(asked.first, asked.count, seconds=asked.seconds)
    return 1 if wrong else 0
