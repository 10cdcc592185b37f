"""UnreadAnswers: a bound on answers that their readers do not read.

A connection is charged what was written to it from the moment anything of that waits to be sent,
until all of it is. When all of them have more than the limit, whoever has not drained
for longest loses its connection: it may ask again, and others are answered meanwhile.
"""

from typing import Protocol


class Writer(Protocol):
    def give_up(self, unread: int) -> None: ...


class UnreadAnswers:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._charged: dict[Writer, int] = {}  # in the order in which they fell behind
        self.used = 0

    def charge(self, writer: Writer, unread: int) -> None:
        """Note what waits to be sent to ``writer``, and give up whom there is no room for."""
        self.used += unread - self._charged.get(writer, 0)
        self._charged[writer] = unread
        while self.used > self._limit:
            oldest = next(iter(self._charged))
            given_up = self._charged[oldest]
            self.forget(oldest)
            oldest.give_up(given_up)

    def forget(self, writer: Writer) -> None:
        """It has read, or is gone."""
        self.used -= self._charged.pop(writer, 0)
