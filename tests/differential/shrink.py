"""Make a sequence that shows something smaller while it still shows it."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any

from differential.steps import Close, Profile, Sequence, Step, Via


def smallest(sequence: Sequence, shows: Callable[[Sequence], bool]) -> Sequence:
    """A sequence from which nothing can be left out and nothing made plainer."""
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(sequence):
            if shows(smaller):
                sequence, shrunk = smaller, True
                break
    return sequence


def _smaller(sequence: Sequence) -> Iterator[Sequence]:
    steps = sequence.steps
    for length in (8, 4, 2, 1):
        for start in range(0, len(steps) - length + 1, length):
            yield replace(sequence, steps=steps[:start] + steps[start + length :])
    if sequence.profile != Profile():
        yield replace(sequence, profile=Profile())
    for index, step in enumerate(steps):
        for plainer in _plainer(step):
            yield replace(sequence, steps=(*steps[:index], plainer, *steps[index + 1 :]))


def _plainer(step: Step) -> Iterator[Step]:
    if isinstance(step, Close):
        return
    via = Via(step.via.connection)
    if step.via != via:
        yield replace(step, via=via)
        if step.via.binary or step.via.oneway:
            yield replace(step, via=replace(step.via, binary=False, oneway=False))
    for field in fields(step):
        value = getattr(step, field.name)
        if isinstance(value, tuple) and len(value) > 1:
            for index in range(len(value)):
                yield _with(step, field.name, value[:index] + value[index + 1 :])
        if field.default is not MISSING and value != field.default:
            yield _with(step, field.name, field.default)


def _with(step: Step, name: str, value: object) -> Step:
    changed: dict[str, Any] = {name: value}
    return replace(step, **changed)
