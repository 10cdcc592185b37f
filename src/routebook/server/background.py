"""Work in the background: done again and again while the node runs, and never ends by itself.

A turn that fails, with an error of any type, is logged, once until one succeeds again, and
counted; the next one comes all the same. ``Upkeep`` knows how all of it fares.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger(__name__)

Turn = Callable[[], Awaitable[None]] | Callable[[], None]
_LONGEST = 500  # characters of an error


class Upkeep:
    """What goes on in the background of one node: what failed, and what still does."""

    def __init__(self) -> None:
        self._failing: dict[str, str] = {}  # what, and why
        self._last_error: str | None = None
        self._errors = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handler_before: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
        self._handler_before = None

    def failed(self, what: str, error: BaseException | str) -> bool:
        """Count it; whether this is news."""
        said = str(error) or type(error).__name__
        text = said if isinstance(error, str) else f"{type(error).__name__}: {said}"
        news = what not in self._failing
        self._failing[what] = text[:_LONGEST]
        self._count(what, text)
        return news

    def erred(self, what: str, error: BaseException) -> None:
        """Count what happened once, and is over."""
        self._count(what, f"{type(error).__name__}: {error}")

    def works(self, what: str) -> bool:
        """Whether that is news."""
        return self._failing.pop(what, None) is not None

    def _count(self, what: str, text: str) -> None:
        self._errors += 1
        self._last_error = f"{what}: {text[:_LONGEST]}"

    @property
    def errors(self) -> int:
        return self._errors

    @property
    def failing(self) -> bool:
        return bool(self._failing)

    def status(self) -> dict[str, object]:
        """For the health of the node."""
        return {
            "failing": dict(self._failing),
            "errors": self._errors,
            "last_error": self._last_error,
        }

    # -- what nobody waits for: callbacks of the loop, and tasks whose errors nobody took

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count the errors that only ``loop`` hears of; they are logged as they always were."""
        self._loop = loop
        self._handler_before = loop.get_exception_handler()
        loop.set_exception_handler(self._heard)

    def unwatch(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and loop.get_exception_handler() == self._heard:
            loop.set_exception_handler(self._handler_before)

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self._loop is not None and error is not None:
            self.erred("in the event loop", error)
        if self._handler_before is not None:
            self._handler_before(loop, context)
        else:
            loop.default_exception_handler(context)


def is_ending(error: BaseException) -> bool:
    """Whether it is this task that is to end, and not something it waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def again_and_again(
    what: str,
    turn: Turn,
    *,
    every_s: float,
    first_s: float | None = None,
    upkeep: Upkeep | None = None,
) -> None:
    """``first_s``: before the first turn, where that is not ``every_s``."""
    upkeep = upkeep or Upkeep()
    wait_s = every_s if first_s is None else first_s
    while True:
        await asyncio.sleep(wait_s)
        wait_s = every_s
        try:
            if (waiting := turn()) is not None:
                await waiting
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # whatever it is, the next turn is to come
            if is_ending(error):
                raise
            if upkeep.failed(what, error):
                logger.exception("%s failed; tried again every %g s", what, every_s)
        else:
            if upkeep.works(what):
                logger.warning("%s works again", what)
