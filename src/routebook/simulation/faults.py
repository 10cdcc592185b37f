"""Faults: what goes wrong with simulated brokers, and when.

kill    all connections close without a word; back later, as a process that was restarted
hang    the connections stay open and nothing is said any more; back later
flap    killed and back at once, several times in a row
leave   unregisters in order; back later
drain   without write permission for a while
churn   topics come, change and go
role    a slave for a while, at the same address
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal["kill", "hang", "flap", "leave", "drain", "churn", "role"]
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

SHORTEST_S = 2.0
LONGEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Seconds count from the beginning; ``broker`` is an index, the first broker's is 0."""

    at_s: float
    broker: int
    kind: FaultKind
    lasts_s: float


def random_faults(
    kinds: Sequence[FaultKind], *, brokers: int, seed: int, every_s: float
) -> Iterator[Fault]:
    """Faults without end, the same for the same arguments, ``every_s`` apart on average.

    A broker suffers one fault at a time: when all of them do, there is none until one is over.
    """
    rng = random.Random(seed)
    free_at_s = [0.0] * brokers
    at_s = 0.0
    while True:
        at_s = max(at_s + rng.expovariate(1 / every_s), min(free_at_s))
        broker = rng.choice([i for i, free_s in enumerate(free_at_s) if free_s <= at_s])
        lasts_s = rng.uniform(SHORTEST_S, LONGEST_S)
        free_at_s[broker] = at_s + lasts_s + 1.0  # to be seen whole between two faults
        yield Fault(round(at_s, 3), broker, rng.choice(kinds), round(lasts_s, 3))
