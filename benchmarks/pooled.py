"""What the journal costs, by all rounds that were recorded.

    python -m benchmarks.pooled [benchmarks/results/journal-*.json]

Runs on a noisy machine say little each; their rounds are pairs, and can be put together.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.journal import AGAIN, OFF, ON, STORM, figures_of
from benchmarks.records import Measured

ROWS = ("16x1", STORM)


def main(arguments: Sequence[str]) -> int:
    paths = [Path(name) for name in arguments] or sorted(
        Path(__file__).with_name("results").glob("journal-*.json")
    )
    results = [json.loads(path.read_text())["results"] for path in paths]
    print("| load | figure | rounds | on / off | off again / off | target |")
    print("|---|---|---|---|---|---|")
    for row in ROWS:
        rounds: dict[str, list[Measured]] = {ON: [], OFF: [], AGAIN: []}
        for found in (result[row] for result in results if row in result):
            for variant, measured in rounds.items():
                measured += found[variant]
        for figure in figures_of(row):
            if figure.target is None:
                continue
            ratio = figure.ratio(rounds[ON], rounds[OFF])
            noise = figure.ratio(rounds[AGAIN], rounds[OFF])
            print(
                f"| {row} | {figure.title} | {len(rounds[ON])} | {ratio} | {noise}"
                f" | {figure.target}: {ratio.verdict(figure.target)} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
