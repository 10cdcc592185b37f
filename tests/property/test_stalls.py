"""However a node sleeps, nobody who kept talking leaves, and who died leaves within its lease."""

import asyncio
from dataclasses import dataclass

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from routebook.state.listening import CATCH_UP_MS, GAVE_UP_MS, SETTLE_MS, TICK_MS
from support.sleepers import LivelyBroker, SleepyNode

LEASES_MS = [1000, 1500, 2000, 4000, 9000]
SOME = st.sets(st.sampled_from(range(len(LEASES_MS))), max_size=3)


@dataclass(frozen=True, slots=True)
class Night:
    """The node is awake for a while, and then sleeps; brokers do what they do meanwhile."""

    awake_ms: int
    asleep_ms: int
    timers_first: bool
    redial: set[int]  # and again, if the night is long
    give_up: set[int]
    away_ms: int  # those, after the node woke
    die: set[int]
    goodbye: bool


nights = st.builds(
    Night,
    awake_ms=st.sampled_from([50, 250, 400, 900, 1600, 3000]),
    asleep_ms=st.sampled_from([150, 300, 450, 700, 1500, 2500, 4000, 8000, 30_000]),
    timers_first=st.booleans(),
    redial=SOME,
    give_up=SOME,
    away_ms=st.integers(0, 700),
    die=SOME,
    goodbye=st.booleans(),
)


def rest(world: SleepyNode, night: Night) -> None:
    """Sleep, while the others act at the beginning, in the middle and at the end of it."""
    lively = [broker for broker in world.brokers if broker.alive]
    noticed = night.asleep_ms > SETTLE_MS + 2 * TICK_MS
    impatient = night.asleep_ms > GAVE_UP_MS + 2 * TICK_MS
    for part in range(3):
        for broker in lively:
            number = world.brokers.index(broker)
            if impatient and number in night.give_up and part == 1:
                broker.give_up(until_ms=world.now_ms + night.asleep_ms * 2 // 3 + night.away_ms)
            elif noticed and number in night.redial:
                broker.dial(world)
            if number in night.die and part == 2:
                broker.die(goodbye=night.goodbye)
        world.sleep(night.asleep_ms // 3)


def check(world: SleepyNode, dead: dict[LivelyBroker, int]) -> None:
    names = {broker.broker.name for broker in dead}
    assert {event.broker for event in world.left} <= names
    for broker, since_ms in dead.items():
        if world.heard_ms - since_ms > max(broker.lease_ms, SETTLE_MS) + 4 * TICK_MS:
            assert broker.broker.name not in world.listed


async def live(story: list[Night]) -> None:
    world = SleepyNode(LEASES_MS)
    await world.be_awake(1000)
    assert len(world.listed) == len(LEASES_MS)
    dead: dict[LivelyBroker, int] = {}
    timers_first = False
    for night in story:
        await world.be_awake(night.awake_ms, timers_first=timers_first)
        check(world, dead)
        rest(world, night)
        for broker in world.brokers:
            if not broker.alive:
                dead[broker] = world.listened_ms  # a lease after the stall
        timers_first = night.timers_first
    for _ in range((max(LEASES_MS) + 3 * SETTLE_MS) // 500):
        await world.be_awake(500, timers_first=timers_first)
        check(world, dead)
        timers_first = False
    assert world.listed == {broker.broker.name for broker in world.brokers if broker.alive}
    assert len(world.left) == len(dead)
    assert bool(world.stalls) or all(night.asleep_ms < SETTLE_MS + 400 for night in story)
    assert sum(stall.paused_ms for stall in world.stalls) <= sum(n.asleep_ms for n in story)


@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])
@given(st.lists(nights, min_size=1, max_size=5))
def test_who_kept_talking_stays_and_who_died_leaves_within_a_lease(story: list[Night]) -> None:
    assert max(LEASES_MS) < CATCH_UP_MS
    asyncio.run(live(story))
