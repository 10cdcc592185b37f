"""CatchUp: pairs that the key-value file holds and the journal does not know, told to the journal.

There may be a hundred thousand of them, after somebody wrote the file or lost the journal. The
node serves meanwhile; nobody changes a pair before all of them are told, so that each is recorded
as it was found.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from routebook.events import Event
from routebook.server.background import Upkeep
from routebook.server.kv_file import KvFile

logger = logging.getLogger(__name__)

TOLD_AT_ONCE = 200
TOLD_A_SLICE = 25  # with a record each
MOST_LOGGED = 1000
WAITING = 10_000  # records for the disk: more would only take memory
WAIT_S = 0.01  # and no longer: what a disk does not take is lost, and told of


class CatchUp:
    """``record`` notes and logs events, ``note`` one without a log line.

    ``queued`` is how many records wait for the disk.
    """

    def __init__(
        self,
        kv_file: KvFile,
        *,
        record: Callable[[Sequence[Event]], None],
        note: Callable[[Event], object],
        queued: Callable[[], int],
        upkeep: Upkeep,
    ) -> None:
        self._kv_file = kv_file
        self._record = record
        self._note = note
        self._queued = queued
        self._upkeep = upkeep
        self._telling: asyncio.Task[None] | None = None

    def tell(self, changed: Iterator[Event]) -> None:
        """Record ``changed``: a few at once, many in the background."""
        self._record(list(islice(changed, TOLD_AT_ONCE)))
        first = next(changed, None)
        if first is None:
            return
        self._record([first])
        self._kv_file.hold()
        self._telling = asyncio.create_task(self._tell_rest(changed))

    async def _tell_rest(self, changed: Iterator[Event]) -> None:
        told = TOLD_AT_ONCE + 1
        try:
            while some := list(islice(changed, TOLD_A_SLICE)):
                if told < MOST_LOGGED:
                    self._record(some)
                else:
                    for event in some:
                        self._note(event)
                told += len(some)
                await asyncio.sleep(WAIT_S if self._queued() > WAITING else 0)
        except Exception as error:  # nobody waits for this task; health and the log tell of it
            logger.exception(
                "%d pairs are told to the journal; the next start tells the rest", told
            )
            self._upkeep.erred("telling the journal of pairs", error)
        finally:
            self._kv_file.go_on()
        if told > MOST_LOGGED:
            logger.info("and %d more pairs that the journal did not know", told - MOST_LOGGED)

    async def wait(self) -> None:
        """Wait for the rest."""
        if self._telling is not None:
            await asyncio.wait([self._telling])
