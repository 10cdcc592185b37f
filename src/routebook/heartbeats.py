"""Heartbeats: how long a broker is believed without one, and which gaps came close to that.

A heartbeat is any sign of life of a broker: a registration, request 904, a question for its data
version. The state counts the times in between (``state.members``), and a node writes them down once
a window (``HeartbeatGaps``, made by ``server.windows``).

How long a connection may be idle is another matter: ``ListenSettings.idle_timeout_s``.
"""

DEFAULT_TIMEOUT_MS = 120_000  # of brokers that do not say, as in RocketMQ
NEAR_MISS = (3, 4)  # of the timeout


def is_near_miss(gap_ms: int, timeout_ms: int | None) -> bool:
    part, whole = NEAR_MISS
    return timeout_ms is not None and whole * gap_ms >= part * timeout_ms
