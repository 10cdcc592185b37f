"""UnreadAnswers: a bound on answers that their readers do not read.

A connection is charged what was written to it from the moment anything of that waits to be sent,
until all of it is, and so is its host, however many connections that has. A host beyond its share
loses the connection that has not drained for longest; when all of them together have more than the
limit, the host with most does. Who is given up may ask again, and others are answered meanwhile.
"""

from collections.abc import Mapping
from typing import Protocol


class Writer(Protocol):
    @property
    def host(self) -> str: ...
    def give_up(self, unread: int) -> None: ...


class UnreadAnswers:
    """``limit`` is for all, ``of_one_host`` for each host."""

    def __init__(self, limit: int, *, of_one_host: int | None = None) -> None:
        self._limit = limit
        self._of_one_host = limit if of_one_host is None else of_one_host
        self._charged: dict[str, dict[Writer, int]] = {}  # in the order in which they fell behind
        self._by_host: dict[str, int] = {}
        self.used = 0

    @property
    def by_host(self) -> Mapping[str, int]:
        return self._by_host

    def charge(self, writer: Writer, unread: int) -> None:
        """Note what waits to be sent to ``writer``, and give up whom there is no room for."""
        host = writer.host
        charged = self._charged.setdefault(host, {})
        more = unread - charged.get(writer, 0)
        charged[writer] = unread
        self.used += more
        self._by_host[host] = self._by_host.get(host, 0) + more
        while self._by_host.get(host, 0) > self._of_one_host:
            self._give_up_one(host)
        while self.used > self._limit:
            self._give_up_one(max(self._by_host, key=self._by_host.__getitem__))

    def _give_up_one(self, host: str) -> None:
        writer, unread = next(iter(self._charged[host].items()))
        self.forget(writer)
        writer.give_up(unread)

    def forget(self, writer: Writer) -> None:
        """It has read, or is gone."""
        host = writer.host
        charged = self._charged.get(host, {})
        unread = charged.pop(writer, 0)
        self.used -= unread
        if charged:
            self._by_host[host] -= unread
        else:
            self._charged.pop(host, None)
            self._by_host.pop(host, None)
