"""One record as a line of text and as a JSON object."""

import json
import logging
import sys
from dataclasses import fields

import pytest

from routebook import events
from routebook.logs.lines import JSON, LONGEST, TEXT, PlainText, formatter
from routebook.logs.writing import logging_to_stderr
from routebook.server.event_log import line as event_line

HOSTILE = ["\n", "\r", "\x1b[2J", "\x85", "\x9b2J", "\u2028", "\u202e", "\U000e0001", '"', "\\"]


def prepared(message: str, *args: object, failed: bool = False, **extra: object) -> str:
    """As lines reach their writer."""
    info = None
    if failed:
        try:
            raise ValueError("odd\x9b\nthing")
        except ValueError:
            info = sys.exc_info()
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, message, args, info)
    record.created, record.msecs = 1_794_730_140.0, 237.9
    text = PlainText().format(record)
    ready = logging.makeLogRecord({**record.__dict__, "msg": text, "args": None, **extra})
    ready.exc_info = None
    return formatter(JSON).format(ready)


def test_a_line_says_when_how_bad_who_and_what() -> None:
    assert json.loads(prepared("closing %s", "it")) == {
        "time": "2026-11-15T08:09:00.237Z",
        "level": "WARNING",
        "logger": "a.b",
        "message": "closing it",
    }


def test_members_and_ids_that_were_noted_are_in_it() -> None:
    line = json.loads(
        prepared("got", request_id="r1", trace_id="", members={"status": 200, "ms": 1.5})
    )
    assert (line["request_id"], line["status"], line["ms"]) == ("r1", 200, 1.5)
    assert "trace_id" not in line


@pytest.mark.parametrize("odd", HOSTILE, ids=ascii)
def test_nothing_in_a_message_or_a_member_leaves_the_line(odd: str) -> None:
    text = prepared("closing connection of %s", f"a{odd}b", members={"path": f"/{odd}"})
    assert text.isprintable()
    line = json.loads(text)
    assert line["path"] == f"/{odd}"
    assert line["message"].startswith("closing connection of a")
    assert line["message"].isprintable()


def test_a_traceback_is_a_member() -> None:
    line = json.loads(prepared("it failed", failed=True))
    assert line["message"] == "it failed"
    assert line["traceback"].startswith("Traceback (most recent call last):\n  File ")
    assert line["traceback"].endswith("\nthing")


def test_an_event_stands_for_its_members() -> None:
    stalled = events.NodeStalled(
        revision=7, cause=events.Cause.STALL, peer="", from_ms=1, to_ms=2, longest_ms=1, clock_ms=0
    )
    line = json.loads(prepared("%s", event_line(stalled)))
    assert (line["event"], line["revision"], line["longest_ms"]) == ("NodeStalled", 7, 1)
    assert "message" not in line


def test_no_event_has_a_member_that_every_line_has() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type)]
    names = {f.name for kind in kinds if issubclass(kind, events.Event) for f in fields(kind)}
    assert len(names) > 20
    assert names & {"time", "level", "logger", "message", "traceback", "request_id"} == set()


@pytest.mark.parametrize("text", ['{"a":1', "{", '{"a"}', '{"event":"' + "x" * LONGEST + '"}'])
def test_what_is_no_object_or_was_cut_is_a_message(text: str) -> None:
    line = json.loads(prepared("%s", text))
    assert line["message"].startswith(text[:100])


def test_the_program_logs_like_that(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to_stderr(log_format=JSON):
        logging.getLogger("routebook.test").warning("from %s", "a\x9bb\nc")
    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["message"] == "from a\\u009bb\\u000ac"


def test_a_text_line_names_its_request(capsys: pytest.CaptureFixture[str]) -> None:
    def note(record: logging.LogRecord) -> bool:
        record.request_id = "r1"
        return True

    with logging_to_stderr(log_format=TEXT, note=note):
        logging.getLogger("routebook.test").warning("hello")
    assert capsys.readouterr().err.endswith("Z WARNING routebook.test [r1] hello\n")
