"""What a node believed before a record, as lines that a reader can begin with.

    python -m routebook.journal.before FOLDER SEQ LIMIT [TOPIC [BROKER [lengths]]]

A node runs that as a process of its own when it is asked for its latest records: to know what came
before them takes a replay, and the memory of a second node. "" stands for any topic or broker. The
first line of the output is ``{"from_seq": …, "why": …}``.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from routebook.journal.errors import JournalError
from routebook.journal.narrowing import told_of
from routebook.journal.pairs import without_values
from routebook.journal.reader import last_lines
from routebook.journal.record import Record, decode, encode, place_of
from routebook.journal.replay import newest, replay
from routebook.journal.restating import restated
from routebook.journal.view import View

ASK_AGAIN = "ask again in a moment"  # ends the reason of what will pass
TOO_LARGE = "what it knew before takes more room than an answer has: ask for a topic or a broker"
_LOST = "records before these are missing, and what they said was not stated anew"


@dataclass(frozen=True, slots=True)
class Before:
    """``lines`` tell a state, and the records from ``from_seq`` on that a reader needs with it.

    ``why`` there are none, in one sentence; None when there are.
    """

    lines: list[bytes]
    from_seq: int
    why: str | None = None


class _Head(msgspec.Struct):
    from_seq: int
    why: str | None


def before(
    folder: Path,
    seq: int,
    *,
    limit: int,
    topic: str | None = None,
    broker: str | None = None,
    values: bool = True,
) -> Before:
    """What the node believed before the last record that precedes ``seq``, and that record.

    It tells how the time before had ended, in order or not; one that is not about ``topic`` or
    ``broker`` is left out. Without ``values`` those of pairs are told by their length. Raises
    JournalError.
    """
    last = last_lines(
        folder, 1, chosen=lambda line: place_of(line.text).seq < seq, damaged=_unheard
    )
    preceding = decode(last[0].text) if last else None
    ending = told_of(preceding, topic, broker, values=values) if preceding else None
    from_seq = seq if preceding is None or ending is None else preceding.seq
    start = newest(folder, upto=from_seq - 1, refused=_unheard)
    view = replay(folder, start, to_seq=from_seq - 1, damaged=_unheard).view
    if view.unsure or (preceding is None and view.seq < seq - 1):
        return Before([], seq, _LOST)
    lines: list[bytes] = []
    size = 0
    for line in _lines(view, preceding, topic, broker, values=values):
        lines.append(line)
        size += len(line)
        if size > limit:
            return Before([], seq, TOO_LARGE)
    if ending is not None:
        lines.append(ending)
    return Before(lines, from_seq)


def _lines(
    view: View,
    following: Record | None,
    topic: str | None,
    broker: str | None,
    *,
    values: bool,
) -> Iterator[bytes]:
    # Where nothing came before, the state is that of the first record.
    wall_ms = view.wall_ms or (following.wall_ms if following else 0)
    mono_ms = max(following.mono_ms - following.wall_ms + wall_ms, 0) if following else 0
    node = view.node or (following.node if following else "")
    for event in restated(view, topic=topic, broker=broker):
        told = event if values else without_values(event)
        yield encode(Record(view.seq, wall_ms, mono_ms, node, told))


def _unheard(error: JournalError) -> None:
    """It makes the view unsure, and that is said."""


def encoded(found: Before) -> bytes:
    head = msgspec.json.encode(_Head(found.from_seq, found.why))
    return b"".join((head, b"\n", *found.lines))


def decoded(text: bytes) -> Before:
    """Raises msgspec.MsgspecError for what is no output."""
    first, _, rest = text.partition(b"\n")
    head = msgspec.json.decode(first, type=_Head)
    return Before([line + b"\n" for line in rest.splitlines()], head.from_seq, head.why)


def main(arguments: list[str]) -> int:
    if not 3 <= len(arguments) <= 6:
        sys.stderr.write(
            "usage: python -m routebook.journal.before FOLDER SEQ LIMIT"
            " [TOPIC [BROKER [lengths]]]\n"
        )
        return 2
    folder, seq, limit, topic, broker, lengths = (*arguments, "", "", "")[:6]
    try:
        found = before(
            Path(folder),
            int(seq),
            limit=int(limit),
            topic=topic or None,
            broker=broker or None,
            values=not lengths,
        )
    except (JournalError, OSError) as error:
        found = Before([], int(seq), str(error))
    sys.stdout.buffer.write(encoded(found))
    return 0


if __name__ == "__main__":
    os.setpgid(0, 0)  # not stopped with the node by Ctrl-C; uvloop takes no process_group
    sys.exit(main(sys.argv[1:]))
