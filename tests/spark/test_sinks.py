"""Alerts on the console, in a file and over HTTP: each once, whatever happens in between."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from routebook_spark.alerts.sinks import (
    Alert,
    Console,
    FileInUse,
    JsonLines,
    Outbox,
    Webhook,
    as_json,
)
from support.waiting import wait_for
from support.webhooks import Receiver, receiving


def alert(number: int = 1, state: str = "raised", **more: Any) -> Alert:
    return {
        "id": f"{number:016x}",
        "state": state,
        "fleet": "default",
        "kind": "flapping",
        "severity": "warning",
        "raised_at": "2026-11-15T03:12:04.000Z",
        "resolved_at": "2026-11-15T03:20:00.000Z" if state == "resolved" else None,
        "sentence": f"sentence {number}",
        **more,
    }


# -- console and JSON


def test_times_are_written_in_utc_with_milliseconds() -> None:
    at = datetime(2026, 11, 15, 3, 12, 4, 250_900, tzinfo=UTC)
    assert as_json({"at": at, "none": None, "nodes": ["ns-1"]}) == {
        "at": "2026-11-15T03:12:04.250Z",
        "none": None,
        "nodes": ["ns-1"],
    }


def test_the_console_has_a_line_for_each_alert_that_no_name_can_break() -> None:
    out = io.StringIO()
    Console(out).tell([alert(1, sentence="a\nb\x1b[31m"), alert(2, "resolved")])
    assert out.getvalue().splitlines() == [
        f"2026-11-15T03:12:04.000Z warning flapping {1:016}: a b\N{REPLACEMENT CHARACTER}[31m",
        "2026-11-15T03:20:00.000Z resolved flapping 0000000000000002: sentence 2",
    ]


def test_the_console_names_a_fleet_that_has_a_name() -> None:
    out = io.StringIO()
    Console(out).tell([alert(1, fleet="shop"), alert(2)])
    assert [" in fleet shop" in line for line in out.getvalue().splitlines()] == [True, False]


def test_the_console_can_speak_json() -> None:
    out = io.StringIO()
    Console(out, as_json=True).tell([alert(1)])
    assert json.loads(out.getvalue()) == alert(1)


# -- JSON lines


def lines_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_was_told_before_a_restart_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "alerts.jsonl"
    with closing(JsonLines(path)) as sink:
        sink.tell([alert(1), alert(2)])
        sink.tell([alert(2), alert(1, "resolved")])
    with closing(JsonLines(path)) as sink:
        sink.tell([alert(1), alert(1, "resolved"), alert(3)])
    assert lines_in(path) == [alert(1), alert(2), alert(1, "resolved"), alert(3)]


def test_a_line_that_was_not_finished_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with closing(JsonLines(path)) as sink:
        sink.tell([alert(1), alert(2)])
    path.write_bytes(path.read_bytes()[:-7])
    with closing(JsonLines(path)) as sink:
        sink.tell([alert(1), alert(2), alert(3)])
    assert lines_in(path) == [alert(1), alert(2), alert(3)]


def test_lines_of_others_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    path.write_text("# notes\n[1]\n{}\n")
    with closing(JsonLines(path)) as sink:
        sink.tell([alert(1)])
    assert path.read_text().splitlines()[:3] == ["# notes", "[1]", "{}"]
    assert json.loads(path.read_text().splitlines()[3]) == alert(1)


def test_one_file_is_written_by_one_watch(tmp_path: Path) -> None:
    path = tmp_path / "alerts.jsonl"
    with closing(JsonLines(path)), pytest.raises(FileInUse, match="another watch writes"):
        JsonLines(path)


# -- outbox


def test_an_alert_waits_once_however_often_it_is_put(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.put([alert(1), alert(2)])
    outbox.put([alert(1), alert(1, "resolved")])
    waiting = [json.loads(path.read_text()) for path in outbox.waiting()]
    assert waiting == [alert(1), alert(2), alert(1, "resolved")]


def test_a_full_outbox_gives_up_the_oldest_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(tmp_path / "outbox", limit=3)
    outbox.put([alert(number) for number in range(5)])
    ids = [json.loads(path.read_text())["id"] for path in outbox.waiting()]
    assert ids == [alert(number)["id"] for number in (2, 3, 4)]
    assert "2 alerts were given up" in caplog.text


def test_half_written_alerts_of_a_killed_process_are_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    (tmp_path / "outbox" / "1-0-raised.part").write_text("{")
    outbox = Outbox(tmp_path / "outbox")
    assert outbox.waiting() == []
    assert not list((tmp_path / "outbox").glob("*.part"))


# -- webhook


@contextmanager
def calling(url: str, folder: Path) -> Iterator[tuple[Webhook, Outbox]]:
    """A webhook that loses no time between tries."""
    outbox = Outbox(folder)
    hook = Webhook(
        url, outbox, timeout_s=5.0, first_wait_s=0.01, longest_wait_s=0.05, closing_s=5.0
    )
    with closing(hook):
        yield hook, outbox


def sent(receiver: Receiver, number: int) -> list[tuple[str, bytes]]:
    return wait_for("all calls", lambda: list(receiver.calls), until=lambda c: len(c) >= number)


def emptied(outbox: Outbox) -> None:
    wait_for("an empty outbox", outbox.waiting, until=lambda waiting: not waiting)


def test_each_alert_is_posted_once_in_order_with_its_key(tmp_path: Path) -> None:
    told = [alert(1), alert(2), alert(1, "resolved")]
    with receiving() as receiver, calling(receiver.url, tmp_path) as (hook, outbox):
        hook.tell(told[:2])
        hook.tell(told[2:])
        calls = sent(receiver, 3)
        emptied(outbox)
    assert [json.loads(body) for _, body in calls] == told
    assert [key for key, _ in calls] == [f"{a['id']}-{a['state']}" for a in told]
    assert receiver.kinds == {"application/json"}


@pytest.mark.parametrize("status", [500, 503, 429, 408, 0], ids=str)
def test_a_webhook_that_fails_at_first_is_called_until_it_takes_the_alert(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        receiving(status, status, status, 204) as receiver,
        calling(receiver.url, tmp_path) as (hook, outbox),
    ):
        hook.tell([alert(1), alert(2)])
        calls = sent(receiver, 2)
        emptied(outbox)
    assert [json.loads(body) for _, body in calls] == [alert(1), alert(2)]
    said = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2, said  # once when it begins, once when it is over
    assert "127.0.0.1 does not take alerts" in said[0]
    assert "takes alerts again" in said[1]


@pytest.mark.parametrize("status", [400, 404, 302], ids=str)
def test_an_alert_that_is_refused_is_put_aside_and_holds_up_no_other(
    tmp_path: Path, status: int
) -> None:
    with (
        receiving(status, 200) as receiver,
        calling(receiver.url, tmp_path) as (hook, outbox),
    ):
        hook.tell([alert(1), alert(2)])
        [(_, body)] = sent(receiver, 1)
        emptied(outbox)
    assert json.loads(body) == alert(2)
    [refused] = (tmp_path / "refused").glob("*.json")
    assert json.loads(refused.read_text()) == alert(1)


def test_what_could_not_be_sent_is_sent_by_the_next_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        url = receiver.url  # and nobody answers there any more
    with calling(url, tmp_path) as (hook, _):
        hook.tell([alert(1)])
    assert "1 alerts could not be sent" in caplog.text
    with receiving() as receiver, calling(receiver.url, tmp_path) as (_, outbox):
        [(key, body)] = sent(receiver, 1)
        emptied(outbox)
    assert (key, json.loads(body)) == (f"{alert(1)['id']}-raised", alert(1))


def test_the_address_of_a_webhook_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        receiving(500) as receiver,
        calling(f"{receiver.url}/secret-token", tmp_path) as (hook, _),
    ):
        hook.tell([alert(1)])
        wait_for("a complaint", lambda: caplog.text)
    assert "secret-token" not in caplog.text
