"""Encrypting: large answers over TLS are encrypted by turns.

A mebibyte takes a millisecond, and an answer may have sixteen. So the first piece of it is
encrypted at once and the rest in other turns, one piece for each who waits; and nothing is
encrypted for a peer that does not read.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from routebook.server.tls import TlsSession

PIECE = 256 * 1024  # bytes: a quarter of a millisecond
PIECES_A_TURN = 8


class Encrypting:
    """``call_soon`` has the given function called in the next turn of the loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Encrypted] = deque()
        self._giving = False

    def put(self, answers: "Encrypted") -> None:
        """Have ``answers`` wait for their turn."""
        self._waiting.append(answers)
        if not self._giving:
            self._giving = True
            self._call_soon(self._give_turns)

    def _give_turns(self) -> None:
        try:
            for _ in range(min(PIECES_A_TURN, len(self._waiting))):
                self._waiting.popleft().take_turn()
        finally:
            self._giving = bool(self._waiting)
            if self._giving:
                self._call_soon(self._give_turns)


class Encrypted:
    """The writing side of a connection that speaks TLS.

    ``paused``: the peer does not read. ``drained`` is called when all that waited is encrypted.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        session: TlsSession,
        turns: Encrypting,
        drained: Callable[[], None],
    ) -> None:
        self._transport = transport
        self._session = session
        self._turns = turns
        self._drained = drained
        self._waiting: deque[memoryview] = deque()
        self._closing = False
        self.paused = False

    def write(self, data: bytes) -> bool:
        """Send ``data``; whether some of it has to wait for another turn."""
        had_to_wait = bool(self._waiting)
        self._waiting.append(memoryview(data))
        if not had_to_wait:
            self._send_a_piece()
            if self._waiting and not self.paused:
                self._turns.put(self)
        return bool(self._waiting)

    def go_on(self) -> bool:
        """The peer reads again; whether something waits for it."""
        was_paused, self.paused = self.paused, False
        if self._waiting and was_paused:
            self._turns.put(self)
        return bool(self._waiting)

    def take_turn(self) -> None:
        if not self._waiting or self._transport.is_closing():
            return
        self._send_a_piece()
        if self.paused or self._transport.is_closing():
            return
        if self._waiting:
            self._turns.put(self)
        else:
            self._drained()

    def _send_a_piece(self) -> None:
        room = PIECE
        try:
            while self._waiting and room:
                data = self._waiting.popleft()
                self._session.encrypt(data[:room])
                if len(data) > room:
                    self._waiting.appendleft(data[room:])
                room -= min(room, len(data))
        except ssl.SSLError:  # the peer has said goodbye and will not read this
            self._waiting.clear()
            self._transport.close()
            return
        self._transport.write(self._session.take())
        if self._closing and not self._waiting:
            self._transport.close()

    def close(self) -> None:
        """Send what waits, and close."""
        self._closing = True
        if not self._waiting:
            self._transport.close()
