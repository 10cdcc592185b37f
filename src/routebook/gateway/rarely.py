"""Rarely: what strangers can cause at will is logged once a minute, with how often it happened."""

import logging
from collections.abc import Callable
from time import monotonic

EVERY_S = 60.0


class Rarely:
    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = monotonic) -> None:
        self._logger = logger
        self._now_s = now_s
        self._said_s: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warn(self, what: str, detail: str = "") -> None:
        """``what`` is one of a few sentences; ``detail`` is about this time only."""
        now = self._now_s()
        if now - self._said_s.get(what, now - EVERY_S) < EVERY_S:
            self._unsaid[what] = self._unsaid.get(what, 0) + 1
            return
        self._said_s[what] = now
        before = self._unsaid.pop(what, 0)
        more = f", and {before} times since it was last said" if before else ""
        self._logger.warning("%s%s%s", what, f": {detail}" if detail else "", more)
