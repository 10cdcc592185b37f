"""``python -m tests.differential --sequences 2000 --seed 7``."""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from differential.explore import explore
from differential.play import Arena, Disagreement
from differential.rules import Rule
from differential.servers import arena
from interop.support.peers import MissingPeer

UNREPEATED = 0.01
"""Of all sequences: Java carries out some requests later, and is not waited for for ever."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers are stopped on the way out
    options = _options()
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, arena(Path(folder)) as servers:
            print(f"{options.sequences} sequences, seed {options.seed}", flush=True)
            try:
                explore(
                    servers,
                    count=options.sequences,
                    seed_number=options.seed,
                    progress=lambda line: print(line, flush=True),
                )
            except Disagreement as disagreement:
                print(disagreement)
                return 1
            print(summary(servers), f"{time.monotonic() - started:.0f} s in all", sep="\n")
            if len(servers.unrepeated) > options.sequences * UNREPEATED:
                print("that is more than Java's being late explains", file=sys.stderr)
                return 1
    except MissingPeer as missing:
        print(missing, file=sys.stderr)
        return 2
    return 0


def summary(arena: Arena) -> str:
    """How often each rule was needed."""
    lines = [f"{arena.compared} answers compared, {arena.differed} differ under a rule:"]
    lines += [f"  {arena.applied[rule]:7}  {rule.title}" for rule in Rule]
    if arena.unrepeated:
        lines.append(f"{len(arena.unrepeated)} sequences showed what was not seen again:")
        lines += arena.unrepeated
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential",
        description="Compare this NameServer with the Java one, request by request.",
    )
    parser.add_argument("--sequences", type=int, default=2000, help="how many to play (2000)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    return parser.parse_args()
