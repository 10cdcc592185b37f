"""Where ``routebook history`` has its records from, and what is said of it.

The first of these that is given: --journal, -n, NAMESRV_ADDR, the journal of a node of this user.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

from routebook.audit.health import is_foreign
from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.journal.command import default_folder, journal_at
from routebook.cli.nameservers import Asking
from routebook.cli.output import say, warn
from routebook.client import NameServerError, NodeClient
from routebook.client.node import Answer
from routebook.client.requests import command
from routebook.history.finding.clocks import ClockReading
from routebook.history.finding.journals import Journal, Progress, Served
from routebook.journal.before import ASK_AGAIN
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE
from routebook.journal.record import Record, decode, place_of
from routebook.journal.view import View
from routebook.wire.codes import RequestCode


@dataclass(frozen=True, slots=True)
class Source:
    """A folder with records; ``name`` is what a reader calls it."""

    folder: Path
    name: str
    served: Served | None = None

    def journal(self, progress: Progress) -> Journal:
        return Journal(self.folder, progress, self.served)


def sources(
    folders: Sequence[Path], namesrv_addr: str | None, asking: Asking, downloads: Path
) -> list[Source]:
    """Those to ask; raises CannotAsk when no node answers, Negative where there is no journal."""
    if folders:
        return [_in_folder(folder) for folder in folders]
    if namesrv_addr is not None:
        return list(_downloaded(asking, downloads))
    if os.environ.get("NAMESRV_ADDR"):
        say("NAMESRV_ADDR says which nodes are asked; --journal DIR reads a folder instead.")
        return list(_downloaded(asking, downloads))
    return [_in_folder(default_folder())]


def _in_folder(given: Path) -> Source:
    try:
        folder = journal_at(given)
    except JournalError as error:
        raise Negative(str(error)) from error
    return Source(folder, f"journal {folder}")


@dataclass(frozen=True, slots=True)
class _Sent:
    """What a node sent, and how its clock stands to ours."""

    lines: list[bytes]
    fields: dict[str, str]
    reading: ClockReading | None
    asked_ms: int


WAIT_FOR_STATE_S = 30.0
_PAUSE_S = 0.5


async def _recent(node: NodeClient) -> _Sent:
    """What the node sends; one that is still reading what it believed is asked again."""
    until_s = monotonic() + WAIT_FOR_STATE_S
    answer = await node.ask(command(RequestCode.ROUTEBOOK_RECENT))
    while _comes_later(answer) and monotonic() < until_s:
        await asyncio.sleep(_PAUSE_S)
        answer = await node.ask(command(RequestCode.ROUTEBOOK_RECENT))
    asked_ms = _now_ms()
    health: dict[str, Any] = {}
    try:
        health = await node.health()
    except NameServerError:
        pass  # one that tells no health tells no time either
    reading = _reading(health.get("wall_ms"), asked_ms, _now_ms())
    fields = {name: text or "" for name, text in answer.command.ext_fields.items()}
    return _Sent(answer.command.body.splitlines(), fields, reading, asked_ms)


def _comes_later(answer: Answer) -> bool:
    return (answer.command.ext_fields.get("why") or "").rstrip(".").endswith(ASK_AGAIN)


def _reading(wall_ms: object, before_ms: int, after_ms: int) -> ClockReading | None:
    if not isinstance(wall_ms, int):
        return None
    return ClockReading(wall_ms - (before_ms + after_ms) // 2, (after_ms - before_ms) // 2 + 1)


def _downloaded(asking: Asking, folder: Path) -> Iterator[Source]:
    """The latest records of the nodes asked, as journals."""
    answers = asking.run(lambda client: client.on_every_node(_recent))
    failures = []
    for number, (address, sent) in enumerate(answers.items()):
        if is_foreign(sent):
            failures.append(
                f"{address} is not a Routebook node, and only those keep a history; ask one of"
                " them, or read a journal with --journal DIR"
            )
            continue
        if isinstance(sent, NameServerError):
            failures.append(str(sent))
            continue
        try:
            state, records = _parted(sent)
            known = _known(state)
        except JournalError as error:
            failures.append(f"{address}: what it sent cannot be read: {error}")
            continue
        if not records:
            failures.append(f"{address}: remembers nothing yet")
            continue
        place = folder / str(number)
        place.mkdir()
        (place / ACTIVE).write_bytes(b"".join(line + b"\n" for line in records))
        served = Served(known, sent.asked_ms, _why_partial(sent), sent.reading)
        yield Source(place, f"asked at {address}", served)
    if len(failures) == len(answers):
        raise CannotAsk("; ".join(failures))
    for failure in failures:
        warn(f"{failure}")


def _parted(sent: _Sent) -> tuple[list[bytes], list[bytes]]:
    """Lines about the state before the first record, and the records."""
    if sent.fields.get("state") != "yes":
        return [], sent.lines
    text = sent.fields.get("from_seq", "0")
    if not text.isdecimal():
        raise JournalError(f"from_seq is {text!r}, not a number")
    from_seq = int(text)
    state = [line for line in sent.lines if place_of(line).seq < from_seq]
    return state, sent.lines[len(state) :]


def _known(state: Iterable[bytes]) -> View | None:
    """What ``state`` says the node believed; None when it says nothing."""
    view, stated = View(), False
    for line in state:
        record: Record = decode(line)
        view.apply(record)
        stated = True
    return view if stated and not view.unsure else None


def _why_partial(sent: _Sent) -> str:
    why = sent.fields.get("why", "").rstrip(".")
    if why:
        return f"the node did not say what it believed before its records: {why}"
    dropped = sent.fields.get("dropped", "0")
    if dropped != "0":
        return f"{dropped} older records did not fit into the answer of the node"
    return "the node did not say what it believed before its records"


def _now_ms() -> int:
    return time_ns() // 1_000_000
