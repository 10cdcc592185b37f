"""InputBudget: a bound on what unfinished frames may hold in memory.

Small remainders are free. Beyond that every connection is charged what it has buffered; when
the sum exceeds the limit, connections that want to buffer more are put on hold. The one that
has been at it longest never is, so some frame always completes and gives its share back.

A host that has little buffered, up to an eighth of the limit, is not held for what others have.

A connection that is put on hold has already been read once, and there may be thousands. Beyond
what there is memory for, the host that holds most is turned away, its latest connection first.
"""

from collections.abc import Mapping
from typing import Protocol

FREE_BYTES = 64 * 1024


class Receiver(Protocol):
    @property
    def host(self) -> str: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def turn_away(self) -> None: ...


class InputBudget:
    """``limit`` stops reading, ``most`` turns away; ``free`` is not worth counting."""

    def __init__(self, limit: int, *, most: int | None = None, free: int = FREE_BYTES) -> None:
        self._limit = limit
        self._most = most
        self._free = free
        self._charged: dict[Receiver, int] = {}  # in order of arrival
        self._by_host: dict[str, dict[Receiver, None]] = {}
        self._of_host: dict[str, int] = {}  # bytes
        self._held: dict[Receiver, None] = {}
        self.used = 0

    @property
    def by_host(self) -> Mapping[str, int]:
        return self._of_host

    def charge(self, receiver: Receiver, buffered: int) -> None:
        """Note what ``receiver`` has buffered now and hold or release whom it concerns."""
        before = self._charged.get(receiver, 0)
        if buffered <= self._free:
            if before:
                held = receiver in self._held
                self.forget(receiver)
                if held:  # what it was held for has been carried out
                    receiver.release()
            return
        if not before:
            self._by_host.setdefault(receiver.host, {})[receiver] = None
        self._charged[receiver] = buffered
        self._of_host[receiver.host] = self._of_host.get(receiver.host, 0) + buffered - before
        self.used += buffered - before
        if self.used > self._limit and receiver is not next(iter(self._charged)):
            if receiver not in self._held and not self._has_little(receiver.host):
                self._held[receiver] = None
                receiver.hold()
            self._turn_away()
        elif buffered < before:
            self._release()

    def forget(self, receiver: Receiver) -> None:
        """The frame is complete, or the connection gone."""
        if receiver in self._charged:
            host, charged = receiver.host, self._charged.pop(receiver)
            self.used -= charged
            self._of_host[host] -= charged
            del self._by_host[host][receiver]
            if not self._by_host[host]:
                del self._by_host[host], self._of_host[host]
        self._held.pop(receiver, None)
        self._release()

    def _has_little(self, host: str) -> bool:
        return self._most is not None and self._of_host[host] <= self._limit // 8

    def _turn_away(self) -> None:
        """Make room where most of it is taken; the first of all is left alone."""
        while self._most is not None and self.used > self._most and len(self._charged) > 1:
            first = next(iter(self._charged))
            others = self._of_host | {first.host: self._of_host[first.host] - self._charged[first]}
            most = max(others, key=others.__getitem__)
            latest = next(reversed(self._by_host[most]))
            self.forget(latest)
            latest.turn_away()

    def _release(self) -> None:
        if self._held and (first := next(iter(self._charged), None)) in self._held:
            assert first is not None
            del self._held[first]
            first.release()
        while self._held and self.used <= self._limit:
            receiver = next(iter(self._held))
            del self._held[receiver]
            receiver.release()
