"""Generate sequences from a seed, play them, and shrink the first that shows a disagreement."""

import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from differential.play import Arena, Disagreement
from differential.shrink import smallest
from differential.steps import Sequence
from differential.strategies import sequences


class _Found(Exception):
    """Ends the generation, which hypothesis then wants to see happen once more."""


def explore(
    arena: Arena, *, count: int, seed_number: int, progress: Callable[[str], None] = lambda _: None
) -> None:
    """Raises Disagreement about the smallest sequence that shows one.

    The same seed and count give the same sequences. Hypothesis only generates them: it does
    not know which steps can be left out, so shrinking is done here.
    """
    started = time.monotonic()
    played = 0
    found: list[Sequence] = []

    @seed(seed_number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(sequences())
    def both_servers_agree(sequence: Sequence) -> None:
        nonlocal played
        if not found:
            played += 1
            if played % 100 == 0:
                progress(f"{played} sequences, {time.monotonic() - started:.0f} s")
            disagreement = _disagreement(arena, sequence)
            if disagreement is not None and _only_once(arena, sequence, disagreement):
                arena.unrepeated.append(f"seed {seed_number}, sequence {played}: {disagreement}")
                progress(f"not seen again: {disagreement}")
            elif disagreement is not None:
                found.append(sequence)
        if found:
            raise _Found

    try:
        both_servers_agree()
    except _Found:
        progress(f"sequence {played} shows a disagreement; looking for the smallest that does")
        report = _smallest_disagreement(arena, found[0])
        raise Disagreement(f"seed {seed_number}, {count} sequences: {report}") from None


def _disagreement(arena: Arena, sequence: Sequence) -> Disagreement | None:
    try:
        arena.play(sequence)
    except Disagreement as disagreement:
        return disagreement
    return None


def _only_once(arena: Arena, sequence: Sequence, seen: Disagreement) -> bool:
    """Whether Java alone departed from what was expected, and does not do so again."""
    return seen.only_java and not any(_disagreement(arena, sequence) for _ in range(2))


def _smallest_disagreement(arena: Arena, sequence: Sequence) -> str:
    report = "seen once and not again"

    def shows(smaller: Sequence) -> bool:
        nonlocal report
        disagreement = _disagreement(arena, smaller)
        if disagreement is not None:
            report = str(disagreement)
        return disagreement is not None

    if shows(sequence):
        smallest(sequence, shows)
    return report
