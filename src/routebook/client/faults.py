"""FaultTable: which brokers to leave alone for a while, by how long their answers took.

    latency, ms at least     550   1,800   3,000    5,000   15,000
    left alone for, ms     2,000   5,000   6,000   10,000   30,000

A broker that failed counts as one that took ten seconds. A quick answer shortens nothing: a broker
is left alone until the latest time it was ever given (reference: LatencyFaultToleranceImpl, 5.1.4).
"""

from bisect import bisect_right
from collections.abc import Container
from dataclasses import dataclass

ISOLATED_AS_MS = 10_000
_LATENCIES_MS = (550, 1_800, 3_000, 5_000, 15_000)
_PAUSES_MS = (0, 2_000, 5_000, 6_000, 10_000, 30_000)


@dataclass(slots=True)
class _Fault:
    available_at_ms: int | None  # None: it has never been slow
    reachable: bool


class FaultTable:
    """A broker nothing is recorded of is available and reachable."""

    def __init__(self) -> None:
        self._faults: dict[str, _Fault] = {}

    def __len__(self) -> int:
        return len(self._faults)

    def record(
        self,
        broker: str,
        latency_ms: float,
        *,
        isolate: bool = False,
        reachable: bool = True,
        now_ms: int,
    ) -> None:
        """``isolate`` is for an attempt that failed, whatever time it took."""
        pause_ms = _PAUSES_MS[
            bisect_right(_LATENCIES_MS, ISOLATED_AS_MS if isolate else latency_ms)
        ]
        fault = self._faults.setdefault(broker, _Fault(None, reachable))
        fault.reachable = reachable
        if pause_ms and (
            fault.available_at_ms is None or fault.available_at_ms < now_ms + pause_ms
        ):
            fault.available_at_ms = now_ms + pause_ms

    def available(self, broker: str, now_ms: int) -> bool:
        fault = self._faults.get(broker)
        return fault is None or fault.available_at_ms is None or now_ms >= fault.available_at_ms

    def reachable(self, broker: str) -> bool:
        fault = self._faults.get(broker)
        return fault is None or fault.reachable

    def keep_only(self, brokers: Container[str]) -> None:
        """Forget all others."""
        self._faults = {name: fault for name, fault in self._faults.items() if name in brokers}
