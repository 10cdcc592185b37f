"""InputBudget: a bound on what unfinished frames may hold in memory.

Small remainders are free. Beyond that every connection is charged what it has buffered; when
the sum exceeds the limit, connections that want to buffer more are put on hold. The one that
has been at it longest never is, so some frame always completes and gives its share back.
"""

from typing import Protocol

FREE_BYTES = 64 * 1024


class Receiver(Protocol):
    def hold(self) -> None: ...
    def release(self) -> None: ...


class InputBudget:
    def __init__(self, limit: int, free: int = FREE_BYTES) -> None:
        self._limit = limit
        self._free = free
        self._charged: dict[Receiver, int] = {}  # in order of arrival
        self._held: dict[Receiver, None] = {}
        self.used = 0

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
        self._charged[receiver] = buffered
        self.used += buffered - before
        if self.used > self._limit and receiver is not next(iter(self._charged)):
            if receiver not in self._held:
                self._held[receiver] = None
                receiver.hold()
        elif buffered < before:
            self._release()

    def forget(self, receiver: Receiver) -> None:
        """The frame is complete, or the connection gone."""
        self.used -= self._charged.pop(receiver, 0)
        self._held.pop(receiver, None)
        self._release()

    def _release(self) -> None:
        if self._held and (first := next(iter(self._charged), None)) in self._held:
            assert first is not None
            del self._held[first]
            first.release()
        while self._held and self.used <= self._limit:
            receiver = next(iter(self._held))
            del self._held[receiver]
            receiver.release()
