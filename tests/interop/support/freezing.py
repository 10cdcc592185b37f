"""A node that is stopped for longer than leases last, between real brokers of which one dies."""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from interop.support.launcher import Launcher
from routebook.events import BrokerLeft, Event, NodeStalled
from routebook.journal.reader import read
from support.waiting import wait_for

Told = TypeVar("Told", bound=Event)

PATIENCE_S = 10.0  # for what a busy machine needs


def freeze(
    launcher: Launcher,
    versions: Mapping[str, str],
    *,
    settings: Mapping[str, str],
    stopped_s: float,
    lease_s: float,
) -> tuple[list[BrokerLeft], list[NodeStalled]]:
    """Who left, and the stalls told, up to a while after a lease from the end of the freeze.

    ``versions`` are those of the brokers by name; the last one is killed while the node is stopped.
    """
    node = launcher.node()
    brokers = [
        launcher.broker(version, node.address, name=name, cluster="c", settings=settings)
        for name, version in versions.items()
    ]
    folder = node.folder / "data" / "journal"
    assert _told(folder, BrokerLeft) == []
    os.kill(node.pid, signal.SIGSTOP)
    try:
        time.sleep(stopped_s / 2)
        brokers[-1].kill()
        time.sleep(stopped_s / 2)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    woke_s = time.monotonic()
    wait_for(
        f"{brokers[-1].name} to leave",
        lambda: [event.broker for event in _told(folder, BrokerLeft)],
        until=lambda left: brokers[-1].name in left,
        timeout_s=lease_s + PATIENCE_S,
    )
    time.sleep(max(woke_s + lease_s + 2 - time.monotonic(), 0.0))
    return _told(folder, BrokerLeft), _told(folder, NodeStalled)


def _told(folder: Path, kind: type[Told]) -> list[Told]:
    return [record.event for record in read(folder) if isinstance(record.event, kind)]
