"""The figures of benchmarks/pipeline.py as Markdown, and what they say about growth."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.records import Measured

LINEAR = 1.05
SLOWEST = 4.0

# size -> stage -> one entry a round
Results = Mapping[str, Mapping[str, Sequence[Measured]]]


def exponent(costs: Sequence[tuple[float, float]]) -> float | None:
    """Of a power of the size that the cost grows with: least squares of both logarithms.

    None for fewer than two sizes.
    """
    points = [(math.log(size), math.log(cost)) for size, cost in costs]
    if len({x for x, _ in points}) < 2:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return slope / sum((x - mean_x) ** 2 for x, _ in points)


def seconds(rounds: Sequence[Measured]) -> float:
    return median(measured["seconds"] for measured in rounds)


def most(rounds: Sequence[Measured], name: str) -> float:
    return max(measured[name] for measured in rounds)


def markdown(
    results: Results, records: Mapping[str, int], *, stages: Sequence[str], bare: str
) -> Iterator[str]:
    """Stages as rows; ``bare`` is the one that all others are compared with."""
    sizes = list(results)
    yield (
        "| stage | "
        + " | ".join(f"{size}, s" for size in sizes)
        + " | events a second | divided by the bare scan | exponent |"
    )
    yield "|---" * (len(sizes) + 4) + "|"
    for stage in stages:
        found = {size: results[size][stage] for size in sizes}
        cells = [_seconds(found[size]) for size in sizes]
        rates = (records[size] / seconds(found[size]) / 1000 for size in sizes)
        cells.append(", ".join(f"{rate:,.0f}k" for rate in rates))
        cells.append(", ".join(_ratio(results[size], stage, bare) for size in sizes))
        growth = exponent([(records[size], seconds(found[size])) for size in sizes])
        cells.append(_judged(growth))
        yield f"| {_title(stage)} | {' | '.join(cells)} |"
    yield ""
    yield "| peak memory, MB: all (Java, Python; heap) | " + " | ".join(sizes) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for stage in stages:
        cells = [_memory(results[size][stage]) for size in sizes]
        yield f"| {_title(stage)} | {' | '.join(cells)} |"


def engines(
    results: Results,
    different: Mapping[str, Mapping[str, Mapping[str, int]]],
    *,
    asked: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    """``asked`` has the stage of each question and engine; ``different`` the rows that differ."""
    sizes = list(results)
    yield ""
    yield (
        "| question | engine | "
        + " | ".join(f"{size}, s (MB)" for size in sizes)
        + " | rows that differ from gold |"
    )
    yield "|---" * (len(sizes) + 3) + "|"
    for question, stages in asked.items():
        for engine, stage in stages.items():
            cells = [_asked(results[size][stage]) for size in sizes]
            compared = [found for size in sizes if engine in (found := different[size][question])]
            rows = sum(found[engine] for found in compared) if compared else "-"
            yield f"| {question} | {engine} | {' | '.join(cells)} | {rows} |"


def _asked(rounds: Sequence[Measured]) -> str:
    done = [measured for measured in rounds if measured]
    return f"{_seconds(done)} ({most(done, 'rss_mb'):,.0f})" if done else "failed"


def _seconds(rounds: Sequence[Measured]) -> str:
    values = [measured["seconds"] for measured in rounds]
    middle = f"{median(values):,.1f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.1f}..{max(values):,.1f})"


def _memory(rounds: Sequence[Measured]) -> str:
    total, java, python, heap = (
        f"{most(rounds, name):,.0f}" for name in ("rss_mb", "java_mb", "python_mb", "heap_mb")
    )
    return f"{total} ({java}, {python}; {heap})"


def _ratio(found: Mapping[str, Sequence[Measured]], stage: str, bare: str) -> str:
    if bare not in found:
        return "-"
    ratio = seconds(found[stage]) / seconds(found[bare])
    return f"**{ratio:.2f}**" if ratio > SLOWEST else f"{ratio:.2f}"


def _judged(growth: float | None) -> str:
    if growth is None:
        return "-"
    return f"**{growth:.2f}**" if growth > LINEAR else f"{growth:.2f}"


def _title(stage: str) -> str:
    return stage.rpartition(":")[2]
