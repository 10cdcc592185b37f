"""Worlds in which something happens that has to be told, and now and then something beside it.

Worlds drawn at random (``world.plan``) mostly show what must not be said: few of them last, calmly
and with right clocks, until an alert is due.
"""

import random

from world.plan import (
    MINUTE,
    SECOND,
    BrokerPlan,
    BrokerStops,
    Cut,
    Deed,
    FleetPlan,
    NodePlan,
    NodeStalls,
    Plan,
)


def disputed(seed: int) -> Plan:
    """One broker does not reach one of the nodes for long; somebody sleeps before or after it."""
    rng = random.Random(f"disputed {seed}")
    fleet = _fleet(rng, f"d{seed}", brokers=3)
    node, broker = rng.choice(fleet.nodes).name, rng.choice(fleet.brokers).label
    cut = Cut(12 * MINUTE, fleet.name, broker, node, rng.randint(500, 900) * SECOND)
    return _plan(seed, fleet, cut, _nap(rng, fleet))


def decimated(seed: int) -> Plan:
    """Most of the brokers die within half a minute, or hang."""
    rng = random.Random(f"decimated {seed}")
    fleet = _fleet(rng, f"m{seed}", brokers=6)
    dying = rng.sample(fleet.brokers, rng.randint(3, 6))
    how = rng.choice(["killed", "hung"])
    begins_ms = 12 * MINUTE
    deaths = [
        BrokerStops(
            begins_ms + rng.randint(0, 15 * SECOND), fleet.name, broker.label, how, 5 * MINUTE
        )
        for broker in dying
    ]
    return _plan(seed, fleet, *deaths, _nap(rng, fleet))


def _nap(rng: random.Random, fleet: FleetPlan) -> Deed:
    at_ms = rng.choice([MINUTE, 3 * MINUTE, 30 * MINUTE])
    node = rng.choice(fleet.nodes).name
    return NodeStalls(at_ms, fleet.name, node, rng.randint(3, 200) * SECOND, rng.random() < 0.3)


def _fleet(rng: random.Random, name: str, *, brokers: int) -> FleetPlan:
    nodes = tuple(
        NodePlan(f"{name}-ns-{number}", rng.randint(-40, 40), rng.choice([MINUTE, 20 * SECOND]))
        for number in range(1, rng.choice([2, 3]) + 1)
    )
    starting = [
        BrokerPlan(
            f"broker-{number}",
            0,
            f"127.{number}.0.1:10911",
            2 * SECOND + rng.randint(0, 3000),
            rng.randint(0, 30 * SECOND),
        )
        for number in range(1, brokers + 1)
    ]
    return FleetPlan(name, nodes, tuple(starting))


def _plan(seed: int, fleet: FleetPlan, *deeds: Deed) -> Plan:
    return Plan(seed, 40 * MINUTE, (fleet,), tuple(sorted(deeds, key=lambda deed: deed.at_ms)))
