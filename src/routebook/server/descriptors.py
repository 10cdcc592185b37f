"""How many connections there are descriptors and memory for.

A connection is a file to the system. Some files are kept back: the journal, its snapshots, the
key-value file, TLS files and connections of the node's own must never find that strangers have
taken the last one.
"""

import logging
import os
import resource
from pathlib import Path

logger = logging.getLogger(__name__)

KEPT_BACK = 64
CONNECTION_BYTES = 8 * 1024
_OPEN_NOW = Path("/proc/self/fd")


def connections_within(wanted: int, max_bytes: int) -> int:
    """``wanted`` connections, or as many as there are files and memory for; says which."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    by_files = wanted
    if files != resource.RLIM_INFINITY:
        by_files = max(1, files - _open_now() - KEPT_BACK)
    by_memory = max(1, max_bytes // CONNECTION_BYTES)
    bound = min(wanted, by_files, by_memory)
    if bound < wanted:
        reason = (
            f"the process may open {files} files (ulimit -n)"
            if by_files <= by_memory
            else f"they may take {max_bytes} bytes (memoryLimit)"
        )
        logger.info("serving %d connections at once, not %d: %s", bound, wanted, reason)
    return bound


def _open_now() -> int:
    try:
        return len(os.listdir(_OPEN_NOW))  # noqa: PTH208 - names are enough
    except OSError:
        return 0
