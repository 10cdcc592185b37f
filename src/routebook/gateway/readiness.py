"""Readiness: whether a node should be sent clients, and what stands against it."""

from dataclasses import dataclass

from routebook.gateway.nodes import FollowedNode


@dataclass(frozen=True, slots=True)
class Readiness:
    """``reasons`` why a node should not be asked; ``warnings`` of what somebody should look at."""

    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def readiness(node: FollowedNode) -> Readiness:
    if node.ping_s is None:
        why = "" if node.trouble is None else f": {node.trouble.what}"
        return Readiness((f"starting: the node has not answered yet{why}",), ())
    if not node.alive:
        return Readiness((silence(node),), ())
    reasons: list[str] = []
    warnings: list[str] = []
    view = None if node.view is None else node.view.value
    if node.leaving or node.following.leaving or (view and view.condition.draining):
        reasons.append("draining: the node stops")
    if view is None:
        if node.offers_summary is not False:
            reasons.append("starting: the node has not told what it knows yet")
        return Readiness(tuple(reasons), tuple(warnings))
    condition = view.condition
    if condition.waiting_for_service:
        reasons.append("waiting for service: the node has just started (waitSecondsForService)")
    if condition.journal_failing:
        warnings.append("the journal cannot be written")
    if condition.held:
        warnings.append(f"the guard holds {condition.held} silent brokers")
    if condition.memory_pressed:
        warnings.append("memory is short (memoryLimit)")
    if condition.unconfirmed:
        warnings.append(
            f"{condition.unconfirmed} of {condition.brokers} brokers are unconfirmed since the"
            " restart"
        )
    return Readiness(tuple(reasons), tuple(warnings))


def silence(node: FollowedNode) -> str:
    return f"the node has not answered for {node.silent_s:.0f} s"
