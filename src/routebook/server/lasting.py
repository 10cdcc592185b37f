"""Work that is done again and again for as long as the node runs, and never ends by itself.

A turn that fails is logged, once until one succeeds again, and the next one comes all the same.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


async def again_and_again(
    what: str,
    turn: Callable[[], Awaitable[None]] | Callable[[], None],
    *,
    every_s: float,
    first_s: float | None = None,
) -> None:
    """``first_s``: before the first turn, where that is not ``every_s``."""
    failing = False
    wait_s = every_s if first_s is None else first_s
    while True:
        await asyncio.sleep(wait_s)
        wait_s = every_s
        try:
            if (waiting := turn()) is not None:
                await waiting
        except Exception:
            if not failing:
                logger.exception("%s failed; tried again every %g s", what, every_s)
            failing = True
        else:
            if failing:
                logger.warning("%s works again", what)
            failing = False
