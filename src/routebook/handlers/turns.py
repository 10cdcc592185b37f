"""Turns of the event loop: how much is done in one for those who wait for something long."""

import asyncio
from time import monotonic
from typing import TypeVar

from routebook.slices import Slices

T = TypeVar("T")

TURN_S = 0.002


async def in_turns(slices: Slices[T]) -> T:
    """The result of ``slices``, as many in each turn of the loop as there is time for."""
    until = monotonic() + TURN_S
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
        if monotonic() > until:
            await asyncio.sleep(0)
            until = monotonic() + TURN_S
