"""``python -m tests.killrounds --rounds 200``: kill a writing process again and again.

``--what node`` kills a whole node under load.
``--what frozen`` stops a node between real brokers for 135 s, once; it takes five minutes.
``--full-disk`` fills a small disk instead; it needs ``unshare`` and the right to use it.
"""

import argparse
import tempfile
import time
from pathlib import Path

from killrounds.frozen import frozen_node
from killrounds.full_disk import on_a_disk_of_its_own
from killrounds.node import NodeToll, node_rounds
from killrounds.rounds import Toll, kill_rounds


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.killrounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", choices=("writer", "node", "frozen"), default="writer")
    parser.add_argument("--full-disk", action="store_true")
    options = parser.parse_args()
    if options.full_disk:
        print(on_a_disk_of_its_own())
        return 0
    if options.what == "frozen":
        print(frozen_node())
        return 0
    started = time.monotonic()
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)

    def tell(toll: Toll | NodeToll) -> None:
        if toll.rounds % 10 == 0:
            print(f"{toll.rounds} rounds", flush=True)

    if options.what == "node":
        with tempfile.TemporaryDirectory() as folder:
            seen = node_rounds(Path(folder), rounds=options.rounds, seed=options.seed, tell=tell)
        print(
            f"{seen.rounds} kills in {time.monotonic() - started:.0f} s, {seen.early} more while a"
            f" node was starting, {seen.power_cuts} with the unsynced end cut: {seen.pairs} pairs"
            f" kept, {seen.unwritten} of {seen.registrations} registrations gone with what was not"
            f" written, {seen.records} records; every journal was sound"
        )
        return 0
    with tempfile.TemporaryDirectory() as folder:
        toll = kill_rounds(
            Path(folder) / "journal", rounds=options.rounds, seed=options.seed, tell=tell
        )
    print(
        f"{toll.rounds} kills in {time.monotonic() - started:.0f} s, {toll.power_cuts} with the"
        f" unsynced end cut: {toll.records} records in {toll.segments} segments, {toll.torn} torn"
        f" lines cut off, {toll.unwritten} records lost; every journal was sound"
    )
    return 0
