"""MemoryWatch: the memory of the process itself, looked at once a second.

The account says what is held for others; this sees whether the process agrees. What brokers that
left have left behind is given back to the system. When the process comes near its limit all the
same, kept answers are dropped, and while that does not help nothing more is taken in.
"""

import asyncio
import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from time import monotonic

from routebook.server.freezing import freezer
from routebook.slices import Slices
from routebook.state.account import MIB, Account, Kind
from routebook.table_memory import trim

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
WORTH_GIVING_BACK = 8 * MIB
NEAR_PERCENT = 88  # of the limit: drop what can be had again
FULL_PERCENT = 94  # take nothing more in
TOP_PEERS = 10
WALK_EVERY_S = 600.0  # at most: it takes a tenth of a second and more
WALKS_BEFORE_FREEZING = 20  # of what is younger: it has become old, and would be walked with all
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Of this process; 0 where the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def give_back(*, stay_frozen: bool = False) -> None:
    """Return free memory to the system, where that can be asked for.

    ``stay_frozen``: no later collection walks what there is now either.
    """
    # A collection empties the interpreter's lists of free objects, which lie everywhere and keep
    # what is around them. Frozen for the moment, the tables are not walked for it.
    gc.freeze()
    gc.collect()
    if not stay_frozen:
        gc.unfreeze()
    trim()


def kill_first(pid: int) -> None:
    """Where memory runs out all the same, have the system take this process and not the node."""
    with suppress(OSError):  # another system, or gone already
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


class MemoryWatch:
    """``shed`` drops what can be had again, ``pack`` makes what is kept smaller."""

    def __init__(
        self,
        account: Account,
        *,
        shed: Callable[[], None],
        pack: Callable[[], Slices[None]],
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        self._account = account
        self._shed = shed
        self._pack = pack
        self._resident = resident
        self._freeze = freezer()
        self._walked_s = -WALK_EVERY_S  # when everything was walked for what refers to itself

    async def look(self) -> None:
        if gc.get_count()[2] >= WALKS_BEFORE_FREEZING:
            self._freeze()
        account, limit = self._account, self._account.budgets.limit
        near = self._resident() * 100 > limit * NEAR_PERCENT
        if near:
            self._shed()
        if near or account.most - account.tables > WORTH_GIVING_BACK:
            account.most = account.tables
            for _ in self._pack():
                await asyncio.sleep(0)
            if near and monotonic() - self._walked_s > WALK_EVERY_S:
                self._walked_s = monotonic()
                gc.unfreeze()  # everything is worth a look before anybody is refused
                gc.collect()
            await asyncio.to_thread(give_back, stay_frozen=self._freeze is gc.freeze)
        resident = self._resident()
        if resident * 100 <= limit * FULL_PERCENT:
            if account.pressed is not None:
                logger.warning(
                    "memory: %d bytes of %d; registrations are taken again", resident, limit
                )
            account.pressed = None
        else:
            if account.pressed is None:
                logger.warning(
                    "memory: %d bytes of %d; nothing more is taken in (memoryLimit)",
                    resident,
                    limit,
                )
            account.pressed = (
                f"the node takes {resident} of {limit} bytes of memory (memoryLimit);"
                " nothing more is taken in"
            )

    @property
    def limit(self) -> int:
        return self._account.budgets.limit

    @property
    def resident(self) -> int:
        return self._resident()

    @property
    def pressed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._account.pressed is not None

    def status(self, passing: Mapping[Kind, Mapping[str, int]]) -> dict[str, object]:
        """For the health of the node: what is held for others, for what and for whom.

        ``passing`` is what passes through, by peer.
        """
        account = self._account
        account.note(passing)
        return {
            "limit": account.budgets.limit,
            "resident": self._resident(),
            "pressed": account.pressed is not None,
            "tables": account.tables,
            "tables_limit": account.budgets.tables,
            "broker_limit": account.broker_limit,
            "peer_limit": account.peer_limit,
            "kinds": {kind.value: account.used[kind] for kind in Kind},
            "peers": top_peers(self._by_peer(passing), TOP_PEERS),
        }

    def _by_peer(self, passing: Mapping[Kind, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
        of_others = {kind.value: by_peer for kind, by_peer in passing.items()}
        return {"tables": self._account.by_peer, **of_others}


def top_peers(holding: Mapping[str, Mapping[str, int]], count: int) -> list[dict[str, object]]:
    """Those for whom most is held, and for what."""
    held: Counter[str] = Counter()
    for by_peer in holding.values():
        held.update(by_peer)
    named = ((peer, taken) for peer, taken in held.items() if peer and taken)
    return [
        {
            "peer": peer,
            "bytes": taken,
            "kinds": {kind: of[peer] for kind, of in holding.items() if of.get(peer)},
        }
        for peer, taken in nsmallest(count, named, key=lambda each: (-each[1], each[0]))
    ]
