"""LoopClock: the listening clock of a running loop, on the clocks of this machine."""

import time
from collections.abc import Callable

from routebook.state.listening import TICK_MS, ListeningClock, Reading, Stall

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MS = 1_000_000


def read_mono_ms() -> int:
    return time.monotonic_ns() // _MS


def read_clocks() -> Reading:
    return Reading(read_mono_ms(), time.clock_gettime_ns(_BOOT) // _MS, time.time_ns() // _MS)


class LoopClock:
    """``stalled`` is told of every stall; ``ticked`` is called at every look."""

    def __init__(
        self,
        stalled: Callable[[Stall], None] | None = None,
        *,
        ticked: Callable[[], None] | None = None,
        read: Callable[[], Reading] = read_clocks,
        mono_ms: Callable[[], int] = read_mono_ms,
    ) -> None:
        self._stalled = stalled
        self._ticked = ticked
        self._read = read
        self._mono_ms = mono_ms
        self.listening = ListeningClock(read())
        self.tick_s = self.now_s()  # about now, within a tick; costs nothing

    def now_ms(self) -> int:
        """Time listened, for everything that others are expected to do in time."""
        return self.listening.now_ms(self._mono_ms())

    def now_s(self) -> float:
        return self.now_ms() / 1000

    @property
    def heard_ms(self) -> int:
        """By when everything that was said until then has been heard."""
        return self.listening.heard_ms

    def begin(self) -> None:
        """Count from here: nobody was listened to before."""
        self.listening.begin(self._read())
        self._note_tick()

    def notice(self, *, last: bool = False) -> None:
        """Look at the clocks, and tell of a stall there was."""
        self.listening.tick(self._read())
        self._note_tick()
        if (stall := self.listening.take_stall(last=last)) and self._stalled is not None:
            self._stalled(stall)
        if self._ticked is not None:
            self._ticked()

    def _note_tick(self) -> None:
        self.tick_s = self.now_s() + TICK_MS / 1000

    def status(self) -> dict[str, object]:
        """For the health of the node."""
        listening = self.listening
        last = listening.last
        return {
            "count": listening.count,
            "paused_ms": listening.paused_ms,
            "last": None
            if last is None
            else {
                "from_ms": last.from_ms,
                "to_ms": last.to_ms,
                "longest_ms": last.longest_ms,
                "clock_ms": last.clock_ms,
            },
        }
