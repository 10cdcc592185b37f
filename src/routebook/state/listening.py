"""ListeningClock: when the node was awake, and what it may conclude from silence.

A process that is stopped, swapped out, or busy with itself hears nobody. Leases and timeouts are
therefore measured in time listened, which passes only from one tick to the next and by no more
than a tick may take:

    true time      0 ─ 250 ─ 500 ─ ─ ─ ─ stopped ─ ─ ─ ─ 9000 ─ 9250
    time listened  0 ─ 250 ─ 500 ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─  900 ─ 1150

What came meanwhile waits in sockets. Silence is judged by ``heard_ms``: the time listened at a tick
after which everything that was waiting has had its turn. So nothing can be concluded in the first
turn after waking, whatever runs in it.

After a stall more has to be waited for. Peers whose requests were not answered hang up, dial again
and queue: the clock is catching up until they have had a second, and those whose requests are being
worked on have their answers.
"""

from dataclasses import dataclass
from typing import NamedTuple

TICK_MS = 250
NOISE_MS = 150  # a tick may be late by this much; what is more is a pause
STALL_MS = 1000  # pauses of this length are told
JUMP_MS = 1000  # and clocks that disagree by more
CALM_MS = 1000  # pauses closer than this are one stall
TOLD_EVERY_MS = 10_000  # a host that swaps has thousands of stalls
SETTLE_MS = 1000  # for peers to dial again
CATCH_UP_MS = 30_000  # at most, however busy the node is and however often it stalls
GAVE_UP_MS = 3000  # no peer waits less than this for an answer before it hangs up


class Reading(NamedTuple):
    """The clocks at one moment; ``boot_ms`` is the monotonic one with time suspended."""

    mono_ms: int
    boot_ms: int
    wall_ms: int


@dataclass(slots=True)
class Stall:
    """Nobody was listened to between two wall times, but for moments; see events.NodeStalled."""

    from_ms: int
    to_ms: int
    longest_ms: int
    clock_ms: int
    paused_ms: int  # in all
    jumped: bool  # the wall clock did, against the monotonic one


class ListeningClock:
    """Told the clocks at each tick, and at other times when somebody wants to know.

    ``count``, ``last`` and ``paused_ms`` are of the stalls told so far, and of all pauses.
    """

    def __init__(self, reading: Reading) -> None:
        self._ticked = reading
        self._listened_ms = reading.mono_ms
        self._catching_up: _CatchingUp | None = None
        self._stall: Stall | None = None  # not told yet
        self._stall_ended_ms = 0
        self._told_ms: int | None = None
        self.heard_ms = reading.mono_ms
        self.count = 0
        self.last: Stall | None = None
        self.paused_ms = 0

    def begin(self, reading: Reading) -> None:
        """Nobody was listened to before; that was no stall."""
        self._listened_ms = self.now_ms(reading.mono_ms)
        self._ticked = reading

    def now_ms(self, mono_ms: int) -> int:
        """Time listened, at a moment since the last tick."""
        since_ms = max(mono_ms - self._ticked.mono_ms, 0)
        return self._listened_ms + min(since_ms, TICK_MS + NOISE_MS)

    def tick(self, reading: Reading) -> None:
        """Note how much of the time since the last tick the node was not awake."""
        before = self._ticked
        passed_ms = reading.mono_ms - before.mono_ms
        pause_ms = max(reading.boot_ms - before.boot_ms - passed_ms, 0)  # suspended
        if passed_ms > TICK_MS + NOISE_MS:
            pause_ms += passed_ms - TICK_MS
        elif pause_ms <= NOISE_MS:
            pause_ms = 0
        clock_ms = reading.wall_ms - before.wall_ms - passed_ms
        self._listened_ms = self.now_ms(reading.mono_ms)
        self._ticked = reading
        jumped = abs(clock_ms) > JUMP_MS
        if pause_ms or jumped:
            self.paused_ms += pause_ms
            self._note(before, reading, pause_ms, clock_ms if jumped else 0)
        if pause_ms >= STALL_MS:
            self._catch_up(pause_ms)

    def _note(self, before: Reading, now: Reading, pause_ms: int, clock_ms: int) -> None:
        stall = self._stall
        if stall is not None and (
            _is_worth_telling(stall) or before.mono_ms - self._stall_ended_ms <= CALM_MS
        ):
            stall.to_ms = now.wall_ms
            stall.longest_ms = max(stall.longest_ms, pause_ms)
            stall.clock_ms += clock_ms
            stall.paused_ms += pause_ms
            stall.jumped |= bool(clock_ms)
        else:
            times = before.wall_ms, now.wall_ms, pause_ms
            self._stall = Stall(*times, clock_ms, paused_ms=pause_ms, jumped=bool(clock_ms))
        self._stall_ended_ms = now.mono_ms

    def _catch_up(self, pause_ms: int) -> None:
        now_ms = self._listened_ms
        if self._catching_up is None:
            self._catching_up = _CatchingUp(now_ms, now_ms + CATCH_UP_MS, pause_ms)
        else:
            self._catching_up.woke_ms = now_ms
            self._catching_up.paused_ms += pause_ms

    def take_stall(self, *, last: bool = False) -> Stall | None:
        """A stall that is to be told now; soon after it, and close ones as one."""
        stall, now_ms = self._stall, self._ticked.mono_ms
        if stall is None or not _is_worth_telling(stall):
            return None
        if not last and self._told_ms is not None and now_ms - self._told_ms < TOLD_EVERY_MS:
            return None
        self._stall, self._told_ms = None, now_ms
        self.count += 1
        self.last = stall
        return stall

    # -- hearing what waits before judging

    @property
    def catching_up(self) -> bool:
        return self._catching_up is not None

    @property
    def gave_up(self) -> bool:
        """Whether peers may have hung up because the node that is catching up did not answer."""
        return self._catching_up is not None and self._catching_up.paused_ms >= GAVE_UP_MS

    @property
    def woke_ms(self) -> int:
        """When the stall that is being caught up with ended, in time listened."""
        return self.heard_ms if self._catching_up is None else self._catching_up.woke_ms

    def settles(self, at_ms: int, *, behind: bool) -> bool:
        """Whether silence may be judged by ``at_ms``, after which everybody had a turn.

        ``behind``: there are peers whose words from before are still waiting.
        """
        now = self._catching_up
        if (
            now is not None
            and at_ms < now.latest_ms
            and (behind or at_ms < now.woke_ms + SETTLE_MS)
        ):
            return False
        self.heard_ms = max(self.heard_ms, at_ms)
        return True

    def caught_up(self) -> None:
        """What was put off until all had been heard is done."""
        self._catching_up = None


@dataclass(slots=True)
class _CatchingUp:
    woke_ms: int
    latest_ms: int
    paused_ms: int


def _is_worth_telling(stall: Stall) -> bool:
    return stall.paused_ms >= STALL_MS or stall.jumped
