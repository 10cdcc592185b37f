"""Free TCP ports, none of them handed out twice in one test run.

They are taken below the range from which the kernel picks the ports of outgoing connections:
a port that is free now must still be free when a JVM binds it seconds later. Each process that runs
tests (pytest-xdist) has a part of them for itself.
"""

import os
import random
import socket

_SHARE = 1_500
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
FIRST = 20_000 + _WORKER * _SHARE
LAST = FIRST + _SHARE

_handed_out: set[int] = set()
_random = random.Random()


def free_port() -> int:
    return _free_base(offsets=(0,))


def free_broker_port() -> int:
    """A port with room for all three a broker binds: itself, -2 (VIP channel), +1 (HA)."""
    return _free_base(offsets=(-2, 0, 1))


def _free_base(offsets: tuple[int, ...]) -> int:
    for _ in range(1000):
        base = _random.randrange(FIRST + 2, LAST - 1)
        wanted = {base + offset for offset in offsets}
        if not wanted & _handed_out and all(map(_can_bind, wanted)):
            _handed_out.update(wanted)
            return base
    raise OSError(f"no free ports found between {FIRST} and {LAST}")


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
