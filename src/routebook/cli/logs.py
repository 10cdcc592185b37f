"""Logging that never blocks the event loop: lines wait in a bounded queue for a writer thread."""

import logging
import logging.handlers
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_WAITING = 20_000
_FLUSH_S = 2.0


class _QueueHandler(logging.handlers.QueueHandler):
    """Counts lines that find the queue full instead of waiting."""

    lost = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


@contextmanager
def logging_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Log in the background until the block ends, then write out what is waiting."""
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_MAX_WAITING)
    handler = _QueueHandler(waiting)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s")
    formatter.converter = time.gmtime
    formatter.datefmt = "%Y-%m-%dT%H:%M:%S"
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(formatter)
    listener = logging.handlers.QueueListener(waiting, output)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        # A reader that stopped reading our stderr must not keep the process from ending.
        stopper = threading.Thread(target=listener.stop, daemon=True)
        stopper.start()
        stopper.join(_FLUSH_S)
        if handler.lost:
            sys.stderr.write(f"{handler.lost} log lines were lost: stderr was not read\n")
