"""Acceptor: the listening sockets of a port, emptied many connections at a time.

uvloop's own server takes one connection in each turn of the loop, so that new peers wait for as
many turns as there are others before them. Here a turn takes what waits, up to a bound that leaves
the turn to those already connected.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

logger = logging.getLogger(__name__)

ACCEPTS_A_TURN = 64  # two milliseconds of work
TURNED_AWAY_A_TURN = 8
REST_S = 1.0  # when nothing more can be opened
_NO_MORE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """``make`` gives the protocol of each new connection, ``room`` says how many more may be open.

    Where there is no room a few are taken all the same, to be told so by their protocol.
    ``behind``: more may wait than the last turn took.
    """

    def __init__(
        self, make: Callable[[], asyncio.Protocol], room: Callable[[], int] = lambda: ACCEPTS_A_TURN
    ) -> None:
        self._make = make
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._listening: list[socket.socket] = []
        self._making: set[asyncio.Task[None]] = set()  # accepted, with no transport yet
        self._resting: asyncio.TimerHandle | None = None
        self._short = False
        self.behind = False
        self.address = ("", 0)  # host and port, once it listens

    async def listen(self, host: str, port: int, *, backlog: int) -> None:
        """Raises OSError when the address is not to be had."""
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                sock = socket.socket(family, kind, protocol)
                self._listening.append(sock)
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(address)
                sock.listen(backlog)
        except OSError:
            self._close()
            raise
        name, number = self._listening[0].getsockname()[:2]
        self.address = str(name), int(number)
        self._watch()

    def _watch(self) -> None:
        self._resting = None
        for sock in self._listening:
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, listening: socket.socket) -> None:
        self.behind = False
        room = max(self._room() - len(self._making), TURNED_AWAY_A_TURN)
        for _ in range(min(room, ACCEPTS_A_TURN)):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue  # gone while it waited
            except OSError as error:
                if error.errno not in _NO_MORE:
                    raise
                self._rest(error)
                return
            self._short = False
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._making.add(task)
            task.add_done_callback(self._making.discard)
        self.behind = True

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError as error:
            accepted.close()
            logger.debug("a connection was lost as it was accepted: %s", error)

    def _rest(self, error: OSError) -> None:
        """Leave those who wait where they are for a while; what is left is for those served."""
        if not self._short:
            logger.error("no more connections can be accepted for now: %s", error.strerror)
        self._short = True
        self._stop_watching()
        self._resting = self._loop.call_later(REST_S, self._watch)

    def _stop_watching(self) -> None:
        for sock in self._listening:
            self._loop.remove_reader(sock)

    async def close(self) -> None:
        """Listen no longer; whoever was accepted has its protocol when this is done."""
        if self._resting is not None:
            self._resting.cancel()
        self._stop_watching()
        self._close()
        if self._making:
            await asyncio.wait(self._making)

    def _close(self) -> None:
        for sock in self._listening:
            sock.close()
        self._listening.clear()
