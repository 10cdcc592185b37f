"""Log lines: one each whatever is in them, so many of a kind, and none goes uncounted."""

import logging
import queue
import sys

import pytest

from routebook.logs import writing
from routebook.logs.lines import LONGEST, PlainText
from routebook.logs.rates import ALL_BYTES, KIND_BYTES, MAX_KINDS, NOTE_EVERY_MS, LineRates
from routebook.logs.writing import logging_to_stderr


def record(message: str, *args: object, failed: bool = False) -> logging.LogRecord:
    info = None
    if failed:
        try:
            raise ValueError("odd\x9b\n2026-01-01T00:00:00.000Z ERROR forged")
        except ValueError:
            info = sys.exc_info()
    return logging.LogRecord("a", logging.INFO, "", 0, message, args, info)


@pytest.mark.parametrize(
    "odd",
    ["\n", "\r", "\x1b[2J", "\x7f", "\x85", "\x9b2J", "\u2028", "\u202e", "\ud800", "\U000e0001"],
    ids=ascii,
)
def test_a_name_cannot_leave_its_line(odd: str) -> None:
    text = PlainText().format(record("closing connection of %s", f"a{odd}b"))
    assert text.isprintable()
    assert text.startswith("closing connection of a\\u")
    assert text.encode()


def test_a_traceback_is_indented_so_that_no_line_of_it_looks_like_another() -> None:
    first, *rest = PlainText().format(record("it failed", failed=True)).split("\n")
    assert first == "it failed"
    assert rest
    assert all(line.startswith("  ") and line.isprintable() for line in rest)


def test_a_long_line_is_cut() -> None:
    text = PlainText().format(record("%s", "x" * 1_000_000))
    assert len(text) < LONGEST + 100
    assert text.endswith(f"… ({1_000_000 - LONGEST} more characters)")


def test_one_kind_of_line_has_a_rate_and_the_rest_is_counted() -> None:
    now_ms = 0
    rates = LineRates(lambda: now_ms)
    admitted = sum(rates.admits("loud", 1000) for _ in range(10_000))
    assert admitted == KIND_BYTES // 1000
    assert rates.admits("quiet", 1000)
    assert rates.note("loud") == 0  # not yet
    now_ms = NOTE_EVERY_MS
    assert rates.note("loud") == 10_000 - admitted
    assert rates.note("loud") == rates.left_out == 0
    assert rates.admits("loud", 1000)  # some seconds later there is room again


def test_all_kinds_together_have_a_rate() -> None:
    rates = LineRates(lambda: 0)
    admitted = sum(rates.admits(kind, 100_000) for kind in range(MAX_KINDS))
    assert admitted == ALL_BYTES // 100_000


def test_the_program_logs_like_that(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr():
        logging.getLogger("routebook.test").warning("from %s", "a\x9bb\nc")
        for _ in range(3):
            logging.getLogger("routebook.test").info("much: %s", "y" * LONGEST)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("WARNING routebook.test from a\\u009bb\\u000ac")
    assert len(lines) == 4


class Odd(BaseException):
    """Of no type that anybody expects."""


@pytest.mark.parametrize("kind", [OSError, RecursionError, Odd])
def test_the_log_is_written_on_after_an_error_of_any_type(
    kind: type[BaseException], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException] = []
    formatted = logging.Handler.format

    def odd(output: logging.Handler, record: logging.LogRecord) -> str:
        if record.getMessage() == "odd":
            raise kind("no line")
        return formatted(output, record)

    monkeypatch.setattr(writing._Output, "format", odd)
    with logging_to_stderr() as log:
        log.on_error = told.append
        for message in ("before", "odd", "odd", "after"):
            logging.getLogger("routebook.test").warning(message)
    lines = [line.split(" ", 3)[3] for line in capsys.readouterr().err.splitlines()]
    assert [type(error) for error in told] == [kind, kind]
    said = f"a log line could not be written: {kind('no line')!r}"
    assert lines == ["before", said, "after"]


def test_lines_that_nobody_reads_are_counted() -> None:
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(2)
    handler = writing._QueueHandler(waiting)
    for _ in range(5):
        handler.emit(record("a line"))
    assert (waiting.qsize(), handler.lost) == (2, 3)
