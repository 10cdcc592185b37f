"""What ``routebook journal`` shows."""

from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.columns import Column, Kind, document_of, facts_of, table_of
from routebook.history.telling.sentences import Context, sentence
from routebook.journal.pairs import line_without_values, without_values
from routebook.journal.record import Record
from routebook.journal.stats import Stats
from routebook.journal.verify import Finding, Report
from routebook.plain import one_line
from routebook.words import counted as counted
from routebook.words import day, exact

_DAY_MS = 86_400_000

TypeRow = tuple[str, int, int]


def record(shown: Record, topic: str | None, *, values: bool) -> str:
    """One line: when, which, what."""
    event = shown.event if values else without_values(shown.event)
    if topic is not None:
        event = event.narrowed(topic)
    told = sentence(event, Context(topic=topic))
    return f"{exact(shown.wall_ms)} {shown.seq} {event.type_name}: {one_line(told)}"


def raw(line: bytes, *, values: bool) -> str:
    """A line as it is on disk, unless a terminal would stumble over it.

    Without ``values`` those of key-value pairs are told by their length.
    """
    text = (line if values else line_without_values(line)).decode(errors="replace").rstrip("\n")
    return text if text.isprintable() else "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


# -- verify


def report(folder: Path, shown: Report) -> RenderableType:
    parts: list[RenderableType] = [_finding(finding) for finding in shown.findings]
    faults = sum(finding.serious for finding in shown.findings)
    leaps = f", {counted(shown.leaps, 'time')} not stopped in order" if shown.leaps else ""
    written = ", being written" if shown.being_written else ""
    found = counted(faults, "fault") if faults else "sound"
    parts.append(
        Text(
            f"{counted(shown.records, 'record')} in {counted(shown.segments, 'segment')}, up to"
            f" {shown.last_seq}{leaps}{written}: {found}"
        )
    )
    return Group(*parts)


def _finding(finding: Finding) -> Text:
    word, style = ("fault", "bold red") if finding.serious else ("remark", "bold cyan")
    return Text.assemble((word, style), f" {one_line(str(finding))}")


def report_document(folder: Path, shown: Report) -> dict[str, Any]:
    return {
        "journal": str(folder),
        "sound": shown.sound,
        "being_written": shown.being_written,
        "records": shown.records,
        "segments": shown.segments,
        "last_seq": shown.last_seq,
        "leaps": shown.leaps,
        "findings": [
            {
                "file": finding.file,
                "line": finding.line,
                "seq": finding.seq,
                "what": finding.what,
                "serious": finding.serious,
            }
            for finding in shown.findings
        ],
    }


# -- stats


def stats(folder: Path, shown: Stats) -> RenderableType:
    if shown.first is None or shown.last is None:
        return f"{folder} holds no records"
    types, days = table_of(TYPES, _types(shown)), table_of(DAYS, sorted(shown.days.items()))
    return Group(facts_of(FACTS, shown), Text(), types, Text(), days)


def _types(shown: Stats) -> list[TypeRow]:
    return [(name, count, shown.type_bytes[name]) for name, count in shown.types.most_common()]


def _records(shown: Stats) -> str:
    removed = f", up to {shown.removed_seq} removed by retention" if shown.removed_seq else ""
    between = f", from {shown.first.seq} to {shown.last.seq}" if shown.first and shown.last else ""
    return f"{shown.records}{between}{removed}"


def _time(shown: Stats) -> str | None:
    if shown.first is None or shown.last is None:
        return None
    return f"{exact(shown.first.wall_ms)} to {exact(shown.last.wall_ms)}"


FACTS = (
    Column[Stats]("nodes", "node", lambda shown: shown.nodes, ", ".join),
    Column[Stats]("records", None, lambda shown: shown.records),
    Column[Stats](None, "records", _records),
    Column[Stats]("first_seq", None, lambda shown: shown.first and shown.first.seq),
    Column[Stats]("last_seq", None, lambda shown: shown.last and shown.last.seq),
    Column[Stats]("first_wall_ms", None, lambda shown: shown.first and shown.first.wall_ms),
    Column[Stats]("last_wall_ms", None, lambda shown: shown.last and shown.last.wall_ms),
    Column[Stats](None, "time", _time),
    Column[Stats]("removed_seq", None, lambda shown: shown.removed_seq),
    Column[Stats]("segments", None, lambda shown: shown.segments),
    Column[Stats]("snapshots", None, lambda shown: shown.snapshots),
    Column[Stats](
        None, "segments", lambda shown: f"{shown.segments}, {counted(shown.snapshots, 'snapshot')}"
    ),
    Column[Stats]("file_bytes", None, lambda shown: shown.file_bytes),
    Column[Stats]("line_bytes", None, lambda shown: shown.line_bytes),
    Column[Stats](
        None,
        "bytes",
        lambda shown: f"{shown.file_bytes} on disk, {shown.line_bytes} of records",
    ),
    Column[Stats](
        "leaps", "not stopped in order", lambda shown: shown.leaps, partial(counted, noun="time")
    ),
    Column[Stats]("lost", "lost", lambda shown: shown.lost, partial(counted, noun="record")),
)

TYPES = (
    Column[TypeRow](None, "TYPE", lambda row: row[0]),
    Column[TypeRow]("records", "RECORDS", lambda row: row[1], kind=Kind.NUMBER),
    Column[TypeRow]("bytes", "BYTES", lambda row: row[2], kind=Kind.NUMBER),
)
"""JSON has them by type."""

DAYS = (
    Column[tuple[int, int]](None, "DAY", lambda row: day(row[0] * _DAY_MS)),
    Column[tuple[int, int]](None, "RECORDS", lambda row: row[1], kind=Kind.NUMBER),
)
"""JSON has numbers of records by day."""


def stats_document(folder: Path, shown: Stats) -> dict[str, Any]:
    return {
        "journal": str(folder),
        **document_of(FACTS, shown),
        "types": {row[0]: document_of(TYPES, row) for row in sorted(_types(shown))},
        "days": {day(number * _DAY_MS): count for number, count in sorted(shown.days.items())},
    }
