"""Two fleets whose nodes have the same names, and whose segments come in pieces.

They come late, with holes that are filled or not, from nodes that sleep and whose clocks are set.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from routebook.journal.record import Record
from support.silver_lakes import Part
from support.spark_histories import deliveries, histories, lost_spans

SHOP, BANK = "shop", "bank"
ASLEEP_MS = 700_000  # more than two windows of heartbeats


def shop() -> list[list[Part]]:
    """Half a day of quiet clocks. What is lost is lost late: nobody knows anything after it."""
    return batches(
        histories(39, nodes=2, brokers=3, hours=12), seed=39, lost=0.08, late=0.2, size=60
    )


def bank() -> list[list[Part]]:
    """A few hours of nodes that sleep, and whose clocks are set."""
    rng = random.Random(7)
    by_node = {
        node: disturbed(records, rng)
        for node, records in histories(51, nodes=2, brokers=2, hours=5).items()
    }
    return batches(by_node, seed=5, lost=0.04, late=0.3, size=25)


def disturbed(records: list[Record], rng: random.Random) -> list[Record]:
    """The same, by a clock that is set forward once, of a node that slept once."""
    jump, sleep = (rng.randrange(len(records) // 4, len(records)) for _ in range(2))
    return [
        replace(
            record,
            wall_ms=record.wall_ms + 90_000 * (place >= jump) + ASLEEP_MS * (place >= sleep),
            mono_ms=record.mono_ms + ASLEEP_MS * (place >= sleep),
        )
        for place, record in enumerate(records)
    ]


def batches(
    by_node: Mapping[str, Sequence[Record]], *, seed: int, lost: float, late: float, size: int
) -> list[list[Part]]:
    """Two, with segments in the second that are older than some of the first; others never come."""
    spans = {
        node: lost_spans(records, seed=seed, share=lost, size=size)
        for node, records in by_node.items()
    }
    return [
        [
            part
            for part in delivery.segments
            if (part[0].seq, part[-1].seq) not in spans[part[0].node]
        ]
        for delivery in deliveries(by_node, seed=seed + 3, batches=2, late=late, size=size)
    ]
