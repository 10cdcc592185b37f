"""Work in slices, from the side of those who answer.

A change of the tables yields events, an answer in slices yields nothing: ``recorded`` makes one of
the other. What an administrator began is carried through also when nobody waits for the answer any
more; a registration is not, since its broker is gone with the connection.
"""

from time import monotonic
from typing import TypeVar

from routebook.handlers.services import HandlerResult, Services
from routebook.slices import Slices
from routebook.state.facts import Changes
from routebook.table_memory import table_memory
from routebook.wire.command import Reply

T = TypeVar("T")

SHORT = 3  # slices
SHORT_S = 0.001


def begun(answer: Slices[Reply]) -> HandlerResult:
    """The reply, if a few short slices give it: it need not wait for its turn then."""
    until_s = monotonic() + SHORT_S
    for _ in range(SHORT):
        try:
            next(answer)
            if monotonic() > until_s:
                break
        except StopIteration as done:
            reply: Reply = done.value
            return reply
    return answer


def recorded(changes: Changes[T], services: Services) -> Slices[T]:
    """Carry out ``changes``, recording the events of each slice as soon as it is applied."""
    try:
        while True:
            try:
                with table_memory:
                    events = next(changes)
            except StopIteration as done:
                result: T = done.value
                return result
            services.record(events)
            yield
    finally:
        changes.close()


def carried_through(changes: Changes[T], services: Services) -> Slices[T]:
    """``recorded``; and if nobody waits for it any more, the rest is done in the background."""
    slices = recorded(changes, services)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            yield
        except GeneratorExit:
            services.carry_on(slices)
            raise
