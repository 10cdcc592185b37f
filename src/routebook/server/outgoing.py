"""Outgoing: what is sent to one peer, as it is or encrypted.

A peer that does not read is noticed as soon as anything waits in its transport. From then on all
that is written to it counts, until it has read everything: a transport keeps what it was given
until the last byte of that is sent.
"""

import asyncio
from collections.abc import Callable

from routebook.server.encrypting import Encrypted, Encrypting
from routebook.server.tls import TlsSession


class Outgoing:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._encrypted: Encrypted | None = None
        self._unread = 0  # bytes, since it stopped reading
        self.paused = False  # the peer does not read, or there is more to be encrypted

    def encrypt(self, session: TlsSession, turns: Encrypting, drained: Callable[[], None]) -> None:
        """From now on; ``drained`` is called when all that waited is encrypted."""
        self._encrypted = Encrypted(self._transport, session, turns, drained)

    def write(self, data: bytes) -> int:
        """Send ``data``; how many bytes the peer has not read, 0 while it keeps up."""
        if self._encrypted is None:
            self._transport.write(data)
        elif self._encrypted.write(data):
            self.paused = True
        if not self.paused:
            return 0
        self._unread += len(data)
        return self._unread

    def pause(self) -> None:
        """The peer does not read."""
        self.paused = True
        if self._encrypted is not None:
            self._encrypted.paused = True

    def resume(self) -> bool:
        """The peer has read what was sent; whether that is all."""
        if self._encrypted is not None and self._encrypted.go_on():
            return False
        self.paused = False
        self._unread = 0
        return True

    def close(self) -> None:
        """Send what waits, and close."""
        (self._encrypted or self._transport).close()

    def let_go(self) -> None:
        """The connection is gone; ``drained`` would keep it in a reference cycle."""
        self._encrypted = None
