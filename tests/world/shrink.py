"""A failing world made smaller: deeds are left out as long as the same mistake is made."""

from collections.abc import Callable
from dataclasses import replace

from world.plan import Plan

Fails = Callable[[Plan], bool]


def smallest(plan: Plan, fails: Fails) -> Plan:
    """A plan that ``fails`` and from which no deed, node or broker can be taken away."""
    while True:
        smaller = next((each for each in _smaller(plan) if fails(each)), None)
        if smaller is None:
            return plan
        plan = smaller


def _smaller(plan: Plan) -> list[Plan]:
    found = []
    if len(plan.fleets) > 1:
        for fleet in plan.fleets:
            deeds = tuple(deed for deed in plan.deeds if deed.fleet != fleet.name)
            fleets = tuple(each for each in plan.fleets if each is not fleet)
            found.append(replace(plan, fleets=fleets, deeds=deeds))
    found += [plan.without(deed) for deed in plan.deeds]
    for fleet in plan.fleets:
        for node in fleet.nodes[1:]:
            rest = replace(fleet, nodes=tuple(n for n in fleet.nodes if n is not node))
            found.append(_with(plan, fleet.name, rest, "node", node.name))
        for broker in fleet.brokers[1:]:
            rest = replace(fleet, brokers=tuple(b for b in fleet.brokers if b is not broker))
            found.append(_with(plan, fleet.name, rest, "broker", broker.label))
    return found


def _with(plan: Plan, name: str, rest: object, kind: str, gone: str) -> Plan:
    fleets = tuple(rest if each.name == name else each for each in plan.fleets)
    deeds = tuple(
        deed for deed in plan.deeds if deed.fleet != name or getattr(deed, kind, None) != gone
    )
    return replace(plan, fleets=fleets, deeds=deeds)  # type: ignore[arg-type]
