"""The latest records of running nodes, as journals: what a node sends that is asked for them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

from routebook.client.client import NodeClient
from routebook.client.errors import NameServerError, is_foreign
from routebook.client.node import Answer
from routebook.client.requests import command
from routebook.history.finding.clocks import ClockReading
from routebook.history.finding.journals import Journal, Progress, Served
from routebook.journal.before import ASK_AGAIN
from routebook.journal.errors import JournalError
from routebook.journal.folder import ACTIVE
from routebook.journal.record import Record, decode, place_of
from routebook.journal.view import View
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode

WAIT_FOR_STATE_S = 30.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """A folder with records; ``name`` is what a reader calls it.

    Without ``values`` those of key-value pairs are told by their length.
    """

    folder: Path
    name: str
    served: Served | None = None
    values: bool = True

    def journal(self, progress: Progress) -> Journal:
        return Journal(self.folder, progress, self.served, values=self.values)


@dataclass(frozen=True, slots=True)
class Sent:
    """What a node sent, and how its clock stands to ours."""

    lines: list[bytes]
    fields: dict[str, str]
    reading: ClockReading | None
    asked_ms: int


async def recent(node: NodeClient) -> Sent:
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
    return Sent(answer.command.body.splitlines(), fields, reading, asked_ms)


class NotSent(JournalError):
    """A node sent nothing that can be read; says which."""


def source_of(address: Address, sent: Sent | NameServerError, place: Path) -> Source:
    """What ``sent`` holds as a journal in the new folder ``place``; raises NotSent."""
    if is_foreign(sent):
        raise NotSent(
            f"{address} is not a Routebook node, and only those keep a history; ask one of"
            " them, or read a journal with --journal DIR"
        )
    if isinstance(sent, NameServerError):
        raise NotSent(str(sent))
    try:
        state, records = _parted(sent)
        known = _known(state)
    except JournalError as error:
        raise NotSent(f"{address}: what it sent cannot be read: {error}") from error
    if not records:
        raise NotSent(f"{address}: remembers nothing yet")
    place.mkdir()
    (place / ACTIVE).write_bytes(b"".join(line + b"\n" for line in records))
    ahead_ms = 0 if sent.reading is None else sent.reading.ahead_ms
    asked_ms = sent.asked_ms + ahead_ms  # by its clock, as everything else is
    served = Served(known, asked_ms, _why_partial(sent), sent.reading)
    return Source(place, f"asked at {address}", served)


def _comes_later(answer: Answer) -> bool:
    return (answer.command.ext_fields.get("why") or "").rstrip(".").endswith(ASK_AGAIN)


def _reading(wall_ms: object, before_ms: int, after_ms: int) -> ClockReading | None:
    if not isinstance(wall_ms, int):
        return None
    return ClockReading(wall_ms - (before_ms + after_ms) // 2, (after_ms - before_ms) // 2 + 1)


def _parted(sent: Sent) -> tuple[list[bytes], list[bytes]]:
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


def _why_partial(sent: Sent) -> str:
    why = sent.fields.get("why", "").rstrip(".")
    if why:
        return f"the node did not say what it believed before its records: {why}"
    dropped = sent.fields.get("dropped", "0")
    if dropped != "0":
        return f"{dropped} older records did not fit into the answer of the node"
    return "the node did not say what it believed before its records"


def _now_ms() -> int:
    return time_ns() // 1_000_000
