"""Logging that never blocks the event loop: lines wait in a bounded queue for a writer thread."""

import logging
import logging.handlers
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from routebook.logs.lines import TEXT, PlainText, formatter
from routebook.logs.rates import LineRates, kind_of
from routebook.printable import escaped

_MAX_WAITING = 20_000
_FLUSH_S = 2.0


class _QueueHandler(logging.handlers.QueueHandler):
    """Counts lines that find the queue full, or are too many of a kind, instead of waiting."""

    lost = 0

    def __init__(self, waiting: "queue.Queue[logging.LogRecord]") -> None:
        super().__init__(waiting)
        self.setFormatter(PlainText())
        self.rates = LineRates(lambda: time.monotonic_ns() // 1_000_000)

    def emit(self, record: logging.LogRecord) -> None:
        kind = kind_of(record)
        try:
            line = self.prepare(record)
            if not self.rates.admits(kind, len(line.msg)):
                return
            if left_out := self.rates.note(kind):
                self.enqueue(_note(record, left_out))
            self.enqueue(line)
        except Exception:  # noqa: BLE001 - a line that cannot be made must not stop its writer
            self.handleError(record)

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


def _note(record: logging.LogRecord, left_out: int) -> logging.LogRecord:
    text = f"{left_out} lines like the next one were left out: there were too many"
    return _warning(text, record.name)


def _warning(text: str, name: str = __name__) -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, "", 0, text, None, None)


def _trouble(error: BaseException) -> logging.LogRecord:
    text = escaped(f"a log line could not be written: {error!r}")
    return logging.LogRecord(__name__, logging.ERROR, "", 0, text, None, None)


if TYPE_CHECKING:
    _Stream = logging.StreamHandler[TextIO]
else:
    _Stream = logging.StreamHandler


class _Output(_Stream):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its base's name
        raise  # it is called where an error is handled, and the writer is to know of it


class LogWriter(logging.handlers.QueueListener):
    """Writes lines in a thread of its own, and goes on after an error of any type.

    ``on_error`` is told of each, in that thread; the log says so once until a line is written.
    """

    def __init__(self, waiting: "queue.Queue[logging.LogRecord]", output: logging.Handler) -> None:
        super().__init__(waiting, output)
        self.on_error: Callable[[BaseException], None] = lambda error: None
        self._failing = False

    def handle(self, record: logging.LogRecord) -> None:
        try:
            super().handle(record)
        except BaseException as error:  # noqa: BLE001 - without this thread nothing is written
            with suppress(Exception):  # whoever is told may have ended
                self.on_error(error)
            if not self._failing:
                self._failing = True
                with suppress(BaseException):  # said at once: waiting lines may be many
                    super().handle(_trouble(error))
        else:
            self._failing = False


@contextmanager
def logging_to_stderr(
    level: int = logging.INFO,
    *,
    log_format: str = TEXT,
    note: Callable[[logging.LogRecord], bool] = lambda record: True,
) -> Iterator[LogWriter]:
    """Log in the background until the block ends, then write out what is waiting.

    ``note`` may add to a record, where it comes up, what it is about; False leaves it out.
    """
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_MAX_WAITING)
    handler = _QueueHandler(waiting)
    handler.addFilter(note)
    output = _Output(sys.stderr)
    output.setFormatter(formatter(log_format))
    listener = LogWriter(waiting, output)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    listener.start()
    try:
        yield listener
    finally:
        root.removeHandler(handler)
        # A reader that stopped reading our stderr must not keep the process from ending.
        stopper = threading.Thread(target=listener.stop, daemon=True)
        stopper.start()
        stopper.join(_FLUSH_S)
        for count, what in (
            (handler.rates.left_out, "left out: too many"),
            (handler.lost, "lost: stderr was not read"),
        ):
            if count:
                sys.stderr.write(f"{output.format(_warning(f'{count} log lines were {what}'))}\n")
