"""Explanations: timelines as lines of text.

2026-11-15
03:12:04Z broker-a (10.0.0.1:10911, id 0, cluster c) registered from 10.0.0.1:40112 with 120 topics.
03:40:11Z broker-a left: its connection was closed by the peer; it had 120 topics.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter

from routebook.history.telling.sentences import sentence
from routebook.history.telling.silences import silence_sentence
from routebook.history.telling.timeline import Happening
from routebook.words import day, time_of_day


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence, or a few, about one moment."""

    wall_ms: int
    seq: int
    node: str
    text: str


def explained(happenings: Iterable[Happening]) -> list[Line]:
    """In the order of the records, which is not that of the clock if that was set back."""
    return [
        Line(
            happening.record.wall_ms, happening.record.seq, happening.record.node, _text(happening)
        )
        for happening in happenings
    ]


def _text(happening: Happening) -> str:
    if happening.silence is not None:
        return silence_sentence(happening.silence)
    return sentence(happening.record.event, happening.context)


def merged(lines_of_nodes: Iterable[Sequence[Line]]) -> list[Line]:
    """The lines of several nodes by time, those of each node in their own order."""
    return list(merge(*lines_of_nodes, key=attrgetter("wall_ms")))


def as_text(lines: Sequence[Line]) -> Iterator[str]:
    """With a line for each new day, and the node where there are several."""
    several = len({line.node for line in lines}) > 1
    today = ""
    for line in lines:
        if day(line.wall_ms) != today:
            today = day(line.wall_ms)
            yield today
        node = f"{line.node}: " if several else ""
        yield f"{time_of_day(line.wall_ms)} {node}{line.text}"
