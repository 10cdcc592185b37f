"""Large answers over TLS are encrypted a piece a turn, in order, and only for those who read."""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from routebook.server.encrypting import PIECE, PIECES_A_TURN, Encrypted, Encrypting
from routebook.server.tls import TlsSession
from support.certificates import Identity, authority, identity


class Wire(asyncio.Transport):
    """Keeps what is written, a list entry each time."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Loop:
    """Turns are taken when the test says so."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], None]] = deque()
        self.encrypting = Encrypting(self._soon.append)

    def turn(self) -> None:
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    @property
    def idle(self) -> bool:
        return not self._soon


class Reader:
    """One connection: the node's side of it, and a client that reads it."""

    def __init__(self, key: Identity, loop: Loop) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(key.cert, key.key)
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        self._incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = trusting.wrap_bio(self._incoming, outgoing)
        session, self.wire, self.drained = TlsSession(context), Wire(), 0
        while not session.established:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                pass
            session.decrypt(outgoing.read())
            self._incoming.write(session.take())
        self.out = Encrypted(self.wire, session, loop.encrypting, self._drained)

    def _drained(self) -> None:
        self.drained += 1

    def read(self) -> bytes:
        self._incoming.write(b"".join(self.wire.written))
        parts: list[bytes] = []
        try:
            while part := self._ssl.read(65536):
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        return b"".join(parts)


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    folder: Path = tmp_path_factory.mktemp("key")
    return identity(folder, "node", authority(folder, "ours"))


LARGE = bytes(range(256)) * (4 * PIECE // 256)


def test_a_small_answer_is_sent_at_once(key: Identity) -> None:
    loop = Loop()
    reader = Reader(key, loop)
    assert not reader.out.write(b"small")
    assert loop.idle
    assert reader.read() == b"small"


def test_a_large_answer_is_encrypted_a_piece_a_turn_and_what_follows_comes_after_it(
    key: Identity,
) -> None:
    loop = Loop()
    reader = Reader(key, loop)
    assert reader.out.write(LARGE)
    assert reader.out.write(b"next")
    assert len(reader.wire.written) == 1
    turns = 0
    while not loop.idle:
        before = len(reader.wire.written)
        loop.turn()
        assert len(reader.wire.written) <= before + 1
        turns += 1
    assert turns >= 4
    assert max(map(len, reader.wire.written)) < PIECE + PIECE // 8
    assert reader.drained == 1
    assert reader.read() == LARGE + b"next"


def test_a_few_of_many_readers_have_a_piece_encrypted_in_one_turn(key: Identity) -> None:
    loop = Loop()
    readers = [Reader(key, loop) for _ in range(PIECES_A_TURN + 3)]
    for reader in readers:
        reader.out.write(LARGE)
    loop.turn()
    pieces = [len(reader.wire.written) for reader in readers]
    assert pieces == [2] * PIECES_A_TURN + [1] * 3
    while not loop.idle:
        loop.turn()
    assert {reader.read() for reader in readers} == {LARGE}


def test_nothing_is_encrypted_for_a_peer_that_does_not_read(key: Identity) -> None:
    loop = Loop()
    reader = Reader(key, loop)
    reader.out.write(LARGE)
    reader.out.paused = True
    loop.turn()
    sent = len(reader.wire.written)
    loop.turn()
    assert len(reader.wire.written) == sent
    assert loop.idle
    assert reader.out.go_on()
    while not loop.idle:
        loop.turn()
    assert reader.read() == LARGE


def test_what_waits_is_sent_before_a_connection_is_closed(key: Identity) -> None:
    loop = Loop()
    reader = Reader(key, loop)
    reader.out.write(LARGE)
    reader.out.close()
    assert not reader.wire.closed
    while not loop.idle:
        loop.turn()
    assert reader.wire.closed
    assert reader.read() == LARGE
    assert reader.drained == 0
