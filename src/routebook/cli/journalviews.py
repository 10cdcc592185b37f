"""What ``routebook journal`` shows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from routebook.cli.output import table_of
from routebook.cli.plain import one_line, plain
from routebook.events import RouteQueries
from routebook.history.sentences import Context, sentence
from routebook.journal.pairs import line_without_values, without_values
from routebook.journal.record import Record
from routebook.journal.selection import type_of
from routebook.journal.stats import Stats
from routebook.journal.verify import Finding, Report
from routebook.words import counted as counted
from routebook.words import day, exact

_DAY_MS = 86_400_000


def record(shown: Record, topic: str | None, *, values: bool) -> str:
    """One line: when, which, what."""
    event = shown.event if values else without_values(shown.event)
    if topic is not None and isinstance(event, RouteQueries):
        event = replace(event, topics=tuple(t for t in event.topics if t.topic == topic), others=0)
    told = sentence(event, Context(topic=topic))
    return f"{exact(shown.wall_ms)} {shown.seq} {type_of(shown.event)}: {one_line(told)}"


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
    types = table_of(
        ("TYPE", "RECORDS", "BYTES"),
        [(name, count, shown.type_bytes[name]) for name, count in shown.types.most_common()],
        right=("RECORDS", "BYTES"),
    )
    days = table_of(
        ("DAY", "RECORDS"),
        [(day(number * _DAY_MS), count) for number, count in sorted(shown.days.items())],
        right=("RECORDS",),
    )
    facts = table_of(("", ""), _facts(shown))
    facts.show_header = False
    return Group(facts, Text(), types, Text(), days)


def _facts(shown: Stats) -> list[tuple[str, str]]:
    assert shown.first is not None
    assert shown.last is not None
    removed = f", up to {shown.removed_seq} removed by retention" if shown.removed_seq else ""
    return [
        ("node", ", ".join(map(plain, shown.nodes))),
        ("records", f"{shown.records}, from {shown.first.seq} to {shown.last.seq}{removed}"),
        ("time", f"{exact(shown.first.wall_ms)} to {exact(shown.last.wall_ms)}"),
        ("segments", f"{shown.segments}, {counted(shown.snapshots, 'snapshot')}"),
        ("bytes", f"{shown.file_bytes} on disk, {shown.line_bytes} of records"),
        ("not stopped in order", counted(shown.leaps, "time")),
        ("lost", counted(shown.lost, "record")),
    ]


def stats_document(folder: Path, shown: Stats) -> dict[str, Any]:
    first, last = shown.first, shown.last
    return {
        "journal": str(folder),
        "nodes": shown.nodes,
        "records": shown.records,
        "first_seq": first and first.seq,
        "last_seq": last and last.seq,
        "first_wall_ms": first and first.wall_ms,
        "last_wall_ms": last and last.wall_ms,
        "removed_seq": shown.removed_seq,
        "segments": shown.segments,
        "snapshots": shown.snapshots,
        "file_bytes": shown.file_bytes,
        "line_bytes": shown.line_bytes,
        "leaps": shown.leaps,
        "lost": shown.lost,
        "types": {
            name: {"records": count, "bytes": shown.type_bytes[name]}
            for name, count in sorted(shown.types.items())
        },
        "days": {day(number * _DAY_MS): count for number, count in sorted(shown.days.items())},
    }
