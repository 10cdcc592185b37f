"""What a node tells of its guard: whom it holds, since when, until when, and why."""

from itertools import islice

from routebook.state.guard import LossGuard

MOST_HELD_TOLD = 1000


def guard_status(guard: LossGuard, *, now_ms: int, wall_ms: int) -> dict[str, object]:
    """``now_ms`` is the node's own time; times that are told are those of the wall clock."""
    why = guard.why
    if why is None:
        return {"held": []}
    return {
        "held": [
            {
                "cluster": member.group.cluster,
                "broker": member.group.name,
                "broker_id": member.known.broker_id,
                "addr": member.known.addr,
                "silent_ms": now_ms - member.heard_ms,
            }
            for member in islice(guard.held, MOST_HELD_TOLD)
        ],
        "held_in_all": len(guard.held),
        "since_ms": wall_ms + guard.since_ms - now_ms,
        "until_ms": wall_ms + guard.until_ms - now_ms,
        "silent": why.silent,
        "live": why.live,
        "limit": why.limit,
        "window_ms": why.window_ms,
    }
