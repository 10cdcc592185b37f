"""Limits: from when on something is worth an alert."""

from dataclasses import dataclass

from routebook_spark.gold.flaps import SUPPRESS
from routebook_spark.gold.forecast import LIMIT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Shares are parts of one. Rates of queries are of one node."""

    flap_penalty: float = SUPPRESS
    late_share: float = 0.75  # of the heartbeat timeout
    divergence_s: float = 90.0
    stall_s: float = 5.0  # in which a node was not awake
    mass_loss_share: float = 0.3  # of the brokers of a node, within a minute
    frame_bytes: int = LIMIT_BYTES
    size_share: float = 0.75  # of the frame
    unknown_per_minute: float = 300.0  # queries for one topic nobody holds
    all_unknown_per_minute: float = 3000.0  # for all such topics
