"""Long work cut into slices.

A function that could hold the event loop for long is written as a generator: it yields
whenever others may have a turn and returns its result. The server takes one slice at a
time; whoever has time to wait calls ``finished``.

Before its first change of anything such a function may yield ``NO_WAY_BACK``: until then it can be
given up and begun anew.
"""

from collections.abc import Callable, Generator, Iterable
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
E = TypeVar("E")

Slices = Generator[None, None, T]

NO_WAY_BACK: Final = cast(None, True)
SORTED_A_SLICE = 1000


def finished(slices: Slices[T]) -> T:
    """Run all slices at once and return their result."""
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def carried_out(changes: Generator[list[E], None, T]) -> tuple[list[E], T]:
    """Run all slices of a change of the tables at once; its events and its result."""
    events: list[E] = []
    while True:
        try:
            events += next(changes)
        except StopIteration as done:
            return events, done.value


def in_order(items: Iterable[T], *, key: Callable[[T], Any] | None = None) -> Slices[list[T]]:
    """``items`` sorted, a few at a time; those of equal keys stay as they came."""
    waiting = iter(items)
    runs: list[list[T]] = []
    while some := list(islice(waiting, SORTED_A_SLICE)):
        runs.append(sorted(some, key=key))  # type: ignore[type-var, arg-type]
        yield
    if len(runs) == 1:
        return runs[0]
    merged = merge(*runs, key=key)  # type: ignore[arg-type]
    ordered: list[T] = []
    while some := list(islice(merged, SORTED_A_SLICE)):
        ordered += some
        yield
    return ordered
