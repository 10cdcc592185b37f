"""What a thread of the journal could not do: counted, logged once, tried again after a while."""

import logging

logger = logging.getLogger(__name__)

_FIRST_S = 0.1
_LONGEST_S = 5.0


class Trouble:
    """Of one thread; others may look. ``last_error`` stays when the trouble is over."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._wait_s = _FIRST_S
        self.failing = False
        self.errors = 0
        self.last_error: str | None = None

    def note(self, error: BaseException) -> float:
        """How long to wait, in seconds, before the next try."""
        self.errors += 1
        what = getattr(error, "strerror", None) or str(error) or type(error).__name__
        self.last_error = f"{self._doing}: {what}"
        if not self.failing:
            self.failing = True
            self._wait_s = _FIRST_S
            logger.error("journal trouble, tried again and again: %s", self.last_error)
        wait_s = self._wait_s
        self._wait_s = min(2 * wait_s, _LONGEST_S)
        return wait_s

    def tell(self, error: BaseException) -> None:
        """Of something that trying again does not help."""
        self.errors += 1
        self.last_error = str(error)
        logger.error("journal: %s", error)

    def over(self) -> None:
        if self.failing:
            self.failing = False
            logger.warning("journal trouble is over: %s", self.last_error)
