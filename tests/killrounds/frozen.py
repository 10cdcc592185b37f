"""Three real brokers with the leases they have by default, and a node stopped for longer."""

import tempfile
from pathlib import Path

from interop.support.freezing import freeze
from interop.support.launcher import Launcher
from interop.support.peers import NEW, OLD

STOPPED_S = 135.0
LEASE_S = 120.0


def frozen_node() -> str:
    """What was seen, in one line; raises AssertionError when a live broker left."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = Launcher(Path(folder))
        try:
            left, stalls = freeze(
                launcher,
                {"broker-a": NEW, "broker-b": OLD, "broker-c": NEW},
                settings={},
                stopped_s=STOPPED_S,
                lease_s=LEASE_S,
            )
        finally:
            launcher.close()
    assert [event.broker for event in left] == ["broker-c"], left
    assert stalls
    return (
        f"stopped for {stalls[0].longest_ms} ms: {left[0].broker}, which was killed meanwhile, left"
        f" ({left[0].cause}); the others stayed"
    )
