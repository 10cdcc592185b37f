"""A node under its memory limit, in a cgroup of exactly that, attacked in every way we know.

After each attack the node must be there and answer, and the kernel must have killed nothing for
want of memory. Then, full to the brim, it is killed and must start again in as much. At last it is
flooded with what it refuses, and must keep what it wrote before, on no more disk than it may take.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from siege.attacks import ATTACKS, MIB, Toll, registering
from siege.noise import noise
from support import raw
from support.builders import compressed_body
from support.cgroups import MemoryGroup
from support.memories import all_written, health
from support.nodes import NodeProcess


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.siege", description=__doc__)
    parser.add_argument("--limit", type=int, default=512, help="MiB")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each attack")
    parser.add_argument("--only", help="one attack")
    options = parser.parse_args()
    print(
        f"{'attack':16} {'peak MiB':>8} {'resident':>8} {'tables':>7} {'taken':>6} {'refused':>7}  "
    )
    failed = []
    for name in [options.only] if options.only else [*ATTACKS, "brim", "noise"]:
        try:
            if name == "noise":
                with tempfile.TemporaryDirectory() as folder:
                    noise(Path(folder), options.seconds * 2)
            else:
                besieged(name, options.limit * MIB, options.seconds)
        except (AssertionError, OSError, raw.Hangup) as error:
            failed.append(name)
            print(f"{name:16} FAILED {type(error).__name__}: {str(error)[:300]}")
    print("failed:", ", ".join(failed) or "nothing")
    return 1 if failed else 0


def besieged(name: str, limit: int, seconds: float) -> None:
    words = ["--memory-limit", str(limit)]
    with tempfile.TemporaryDirectory() as folder, MemoryGroup(limit) as group:
        with NodeProcess(Path(folder), *words, begun_by=group.begun_by) as node:
            toll = brim(node, seconds) if name == "brim" else ATTACKS[name](node, seconds)
            with node.connect() as bystander:
                assert bystander.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST
                tables = health(bystander)["memory"]["tables"]
            sizes = f"{group.peak() // MIB:8} {node.peak_memory() // MIB:8} {tables // MIB:7}"
            counts = f"{toll.taken:6} {toll.refused:7}"
            print(f"{name:16} {sizes} {counts}  {toll.reason[:110]}", flush=True)
            assert node.process.poll() is None
        assert not group.killed(), f"{group.killed()} processes were killed"


def brim(node: NodeProcess, seconds: float) -> Toll:
    """Fill the tables with honest topics until no more are taken; kill; start again."""

    def bodies() -> Iterator[bytes]:
        for number in range(10_000):
            yield compressed_body([f"{number}-topic-{each}".ljust(60, "x") for each in range(3000)])

    def killed(toll: Toll) -> None:
        with node.connect() as bystander:
            all_written(bystander)
            tables = health(bystander)["memory"]["tables"]
        node.kill()
        started = time.monotonic()
        node.start()
        with node.connect() as bystander:
            told = health(bystander)
        print(
            f"  killed with {toll.taken} brokers, {tables // MIB} MiB; started again in"
            f" {time.monotonic() - started:.1f} s with {told['brokers']} brokers and"
            f" {told['routes']} routes, {told['memory']['tables'] // MIB} MiB"
        )
        assert told["brokers"] == toll.taken

    return registering(node, seconds * 3, bodies(), hosts=200, at_last=killed)
