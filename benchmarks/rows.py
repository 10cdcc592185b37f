"""The rows of a run, and the Markdown its figures become."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.fleet import TOPIC_ON_16, TOPIC_ON_300
from benchmarks.records import Measured

# row -> server -> one entry per round
Results = dict[str, dict[str, list[Measured]]]


@dataclass(frozen=True, slots=True)
class LoadRow:
    key: str
    title: str
    connections: int
    depth: int
    topic: str


LOAD_ROWS = (
    LoadRow("16x1", "16 connections, one in flight", 16, 1, TOPIC_ON_16),
    LoadRow("1x1", "1 connection, one in flight", 1, 1, TOPIC_ON_16),
    LoadRow("256x1", "256 connections, one in flight", 256, 1, TOPIC_ON_16),
    LoadRow("64x64", "64 connections, 64 deep", 64, 64, TOPIC_ON_16),
    LoadRow("300-brokers", "16 connections, one in flight, topic on 300", 16, 1, TOPIC_ON_300),
)
REAL_SERVERS = ("routebook", "java")
BEFORE = "before"  # another version of Routebook
TITLES = {"routebook": "Routebook", "java": "Java", BEFORE: "before"}
_RATIOS = ("rps", "p50_us", "p99_us", "p999_us", "server_us_per_query")
START, CHANGED, UNCHANGED = "start", "register-changed", "register-unchanged"
ALL_ROWS = (START, *(row.key for row in LOAD_ROWS), CHANGED, UNCHANGED)


@dataclass(frozen=True, slots=True)
class OtherFigure:
    row: str
    figure: str
    title: str
    form: str


OTHER_FIGURES = (
    OtherFigure(START, "start_s", "start until the first answer, s", ".2f"),
    OtherFigure(START, "rss_mb", "RSS at the first answer, MB", ".0f"),
    OtherFigure(START, "idle_rss_mb", "RSS 5 s later, idle, MB", ".0f"),
    OtherFigure(CHANGED, "longest_ms", "10,000 changed topics: longest query meanwhile, ms", ".1f"),
    OtherFigure(CHANGED, "p99_ms", "10,000 changed topics: p99 of queries meanwhile, ms", ".2f"),
    OtherFigure(CHANGED, "per_second", "10,000 changed topics: registrations per second", ".0f"),
    OtherFigure(UNCHANGED, "longest_ms", "10,000 unchanged topics: longest query, ms", ".1f"),
    OtherFigure(UNCHANGED, "p99_ms", "10,000 unchanged topics: p99 of queries, ms", ".2f"),
    OtherFigure(
        UNCHANGED, "per_second", "10,000 unchanged topics: registrations per second", ".0f"
    ),
    OtherFigure(
        CHANGED, "quiet_longest_ms", "for comparison: longest query, no registration, ms", ".1f"
    ),
)


def median(rounds: Sequence[Measured], name: str) -> float:
    return statistics.median(measured[name] for measured in rounds)


def spread(rounds: Sequence[Measured], name: str, form: str = ",.0f", unit: float = 1.0) -> str:
    """Median, and how far the rounds were apart."""
    values = [measured[name] * unit for measured in rounds]
    low, high = min(values), max(values)
    return f"{statistics.median(values):{form}} ({low:{form}}..{high:{form}})"


def ratio(found: dict[str, list[Measured]], name: str, other: str = "java") -> str:
    if "routebook" not in found or other not in found:
        return "-"
    return f"{median(found['routebook'], name) / median(found[other], name):.2f}"


def figure_table(
    title: str,
    names: Sequence[str],
    rows: Sequence[tuple[dict[str, list[Measured]], str, str, str]],
) -> Iterator[str]:
    """Markdown: a column for each server, and Routebook divided by each other one.

    ``rows``: what was measured by server, the figure of it, its title and its form.
    """
    others = [name for name in names if name != "routebook"]
    heads = [title, *(TITLES[name] for name in names)]
    heads += [f"Routebook / {TITLES[name]}" for name in others]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for found, figure, text, form in rows:
        cells = [spread(found[name], figure, form) if name in found else "-" for name in names]
        cells += [ratio(found, figure, name) for name in others]
        yield f"| {text} | {' | '.join(cells)} |"


def markdown(results: Results) -> Iterator[str]:
    """Medians of the rounds with their extremes, and Routebook divided by Java."""
    loads = [row for row in LOAD_ROWS if row.key in results]
    if loads:
        yield "| queries | server | per second | p50 ms | p99 ms | p99.9 ms | CPU µs | errors |"
        yield "|---|---|---|---|---|---|---|---|"
    for row in loads:
        for name, rounds in results[row.key].items():
            latencies = " | ".join(
                spread(rounds, quantile, ".3f", 1e-3)
                for quantile in ("p50_us", "p99_us", "p999_us")
            )
            errors = sum(int(measured["errors"]) for measured in rounds)
            yield (
                f"| {row.title} | {name} | {spread(rounds, 'rps')} | {latencies} "
                f"| {spread(rounds, 'server_us_per_query', '.1f')} | {errors} |"
            )
        found = results[row.key]
        for other in ("java", BEFORE):
            if other in found:
                rate, *figures = [ratio(found, name, other) for name in _RATIOS]
                cells = f"**{rate}** | {' | '.join(figures)}"
                yield f"| | **Routebook / {TITLES[other]}** | {cells} | |"
    if loads:
        yield ""
    others = [other for other in OTHER_FIGURES if other.row in results]
    if others:
        names = [name for name in TITLES if any(name in results[other.row] for other in others)]
        yield from figure_table(
            "other figures",
            names,
            [(results[other.row], other.figure, other.title, other.form) for other in others],
        )
