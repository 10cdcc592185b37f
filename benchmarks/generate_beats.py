"""Heartbeats of all brokers as one node hears them, counted a minute at a time.

A heartbeat is sent every 30 s at the phase of its broker and arrives some ms later, rarely some s.
A window counts those sent up to 26 s before its end, so that all of them have arrived. There are
too many to be played to a node one by one: arrays hold when each broker was last heard of.
"""

import numpy as np
from benchmarks.generate_plan import BEAT_MS, LATEST_MS, PHASE_MS
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

_FAR_MS = 1 << 60


class Beats:
    """Brokers go by their numbers. ``listed`` are those the node knows and has heard of."""

    def __init__(self, brokers: int) -> None:
        self.listed: NDArray[np.bool_] = np.zeros(brokers, bool)
        self._phases: Numbers = np.arange(brokers, dtype=np.int64) * PHASE_MS % BEAT_MS
        self._heard: Numbers = np.zeros(brokers, np.int64)
        # Heartbeats between these times do not arrive.
        self._mute_from: Numbers = np.zeros(brokers, np.int64)
        self._mute_until: Numbers = np.full(brokers, _FAR_MS, np.int64)
        self._signs: dict[int, list[int]] = {}  # of life that are no heartbeats, not yet counted
        self._openings = [b""] * brokers

    def hear(self, number: int, now_ms: int) -> None:
        """A sign of life other than a heartbeat; it lists a broker that was not."""
        if self.listed[number]:
            self._signs.setdefault(number, []).append(now_ms)
        else:
            self.listed[number] = True
            self._heard[number] = now_ms

    def name(self, number: int, opening: bytes) -> None:
        """How records of its heartbeats begin (``gaps_opening``)."""
        self._openings[number] = opening

    def unlist(self, number: int) -> None:
        self.listed[number] = False
        self._signs.pop(number, None)

    def unlist_all(self) -> None:
        self.listed[:] = False
        self._signs.clear()

    def is_mute(self, number: int) -> bool:
        return bool(self._mute_until[number] == _FAR_MS)

    def mute(self, number: int, now_ms: int) -> None:
        if not self.is_mute(number):
            self._mute_from[number], self._mute_until[number] = now_ms, _FAR_MS

    def unmute(self, number: int, now_ms: int) -> None:
        self._mute_until[number] = now_ms

    def next_ms(self, number: int, now_ms: int) -> int:
        """When its next heartbeat is sent."""
        phase = int(self._phases[number])
        return phase + BEAT_MS * ((now_ms - phase) // BEAT_MS + 1)

    def last_ms(self, number: int, now_ms: int) -> int:
        """When a broker that was never mute up to now was last heard of."""
        sent_ms = self.next_ms(number, now_ms) - BEAT_MS
        return max(int(self._heard[number]), sent_ms, *self._signs.get(number, [0]))

    def count(self, end_ms: int, late_ms: Numbers) -> list[tuple[bytes, bytes]]:
        """Opening and gaps of every broker heard of in the window up to ``end_ms``.

        ``late_ms`` has the delays of two heartbeats of each broker.
        """
        sent_ms = end_ms - LATEST_MS
        first = self._phases + BEAT_MS * ((sent_ms - 2 * BEAT_MS - self._phases) // BEAT_MS + 1)
        beats = first + late_ms[::2]
        again = first + BEAT_MS + late_ms[1::2]
        usual = self.listed & (self._heard < beats) & (self._mute_until <= beats)
        usual[list(self._signs)] = False
        others = np.flatnonzero(self.listed & ~usual).tolist()
        numbers = np.flatnonzero(usual)
        gaps = [
            (self._openings[number], b"%d,%d" % (one, two))
            for number, one, two in zip(
                numbers.tolist(),
                (beats - self._heard)[numbers].tolist(),
                (again - beats)[numbers].tolist(),
                strict=True,
            )
        ]
        self._heard[numbers] = again[numbers]
        for number in others:
            found = self._gaps(number, [int(beats[number]), int(again[number])], sent_ms)
            if found:
                gaps.append((self._openings[number], b",".join(b"%d" % gap for gap in found)))
        return gaps

    def _gaps(self, number: int, beats: list[int], sent_ms: int) -> list[int]:
        """Of a broker to which something happened: other signs of life, heartbeats not heard."""
        heard, muted = int(self._heard[number]), int(self._mute_from[number])
        signs = [ms for ms in beats if not muted <= ms < self._mute_until[number]]
        later: list[int] = []
        for sign_ms in self._signs.pop(number, ()):
            (signs if sign_ms <= sent_ms else later).append(sign_ms)
        if later:
            self._signs[number] = later
        signs = sorted(ms for ms in signs if ms > heard)
        if signs:
            self._heard[number] = signs[-1]
        return [after - before for before, after in zip([heard, *signs], signs, strict=False)]
