"""How many connections there are descriptors and memory for.

A connection is a file to the system. Some files are kept back: the journal, its snapshots, the
key-value file, TLS files and connections of the node's own must never find that strangers have
taken the last one.
"""

import os
import resource
from pathlib import Path

KEPT_BACK = 64
CONNECTION_BYTES = 8 * 1024
# Of a TLS session more: 19 KiB when established, 30 with a client certificate, 48 while it shakes
# hands (tests/integration/test_tls_memory.py measures it again).
TLS_BYTES = 56 * 1024
_OPEN_NOW = Path("/proc/self/fd")


def connections_within(wanted: int, max_bytes: int) -> tuple[int, str]:
    """``wanted`` connections, or as many as there are files and memory for; then also why."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    by_files = wanted
    if files != resource.RLIM_INFINITY:
        by_files = max(1, files - _open_now() - KEPT_BACK)
    by_memory = max(1, max_bytes // CONNECTION_BYTES)
    bound = min(wanted, by_files, by_memory)
    if bound == wanted:
        return bound, ""
    said = f"serving {bound} connections at once, not {wanted} (maxConnections)"
    if by_files <= by_memory:
        return bound, f"{said}: the process may open {files} files (ulimit -n)"
    return bound, f"{said}: they may take {max_bytes} bytes (memoryLimit)"


def _open_now() -> int:
    try:
        return len(os.listdir(_OPEN_NOW))  # noqa: PTH208 - names are enough
    except OSError:
        return 0


class ConnectionRoom:
    """How many more connections there are, and may be TLS ones, by number and by memory."""

    def __init__(self, max_connections: int, max_bytes: int) -> None:
        self._max_connections = max_connections
        # What was found to be right without TLS is so.
        self._max_bytes = max(max_bytes, max_connections * CONNECTION_BYTES)
        self._tls: set[object] = set()

    def left(self, connections: int) -> int:
        """How many may be opened beside so many."""
        by_memory = (self._max_bytes - len(self._tls) * TLS_BYTES) // CONNECTION_BYTES
        return min(self._max_connections, by_memory) - connections

    def begin_tls(self, connection: object, connections: int) -> bool:
        """Whether one of so many may have a TLS session; it has to ``leave`` then."""
        if self.taken(connections) + TLS_BYTES > self._max_bytes:
            return False
        self._tls.add(connection)
        return True

    def leave(self, connection: object) -> None:
        self._tls.discard(connection)

    def taken(self, connections: int) -> int:
        """Bytes."""
        return connections * CONNECTION_BYTES + len(self._tls) * TLS_BYTES
