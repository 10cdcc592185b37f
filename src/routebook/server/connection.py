"""One connection: bytes in, frames to dispatch, answers out. It decides nothing else.

Requests of one connection are carried out in the order they came. A registration that takes
several slices keeps the next request waiting; an answer that waits for the disk does not.
Reading stops while the peer does not read its answers, and while more is there than one turn takes:
who sends many requests at once takes turns with all others.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Generator
from time import monotonic
from typing import TYPE_CHECKING, cast

from routebook.events import Cause
from routebook.handlers.services import Caller, HandlerResult
from routebook.server.awaited_answers import MAX_AWAITED, AwaitedAnswers
from routebook.server.first_bytes import Greeting, opened_tls
from routebook.server.long_answer import LongAnswer
from routebook.server.outgoing import Outgoing
from routebook.server.pending import KINDS, PATIENT, SHARES, Awaited, Share
from routebook.server.receiving import LARGE_READ
from routebook.server.scheduler import Lane
from routebook.server.tls import TlsSession
from routebook.state.account import host_of
from routebook.wire.address import Address
from routebook.wire.codec import (
    MAX_REQUEST_HEADER,
    decode_command,
    encode_reply,
    oversized,
    reply_parts,
)
from routebook.wire.codes import ResponseCode, Version
from routebook.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, Reply
from routebook.wire.errors import WireError
from routebook.wire.frame import Frame, FrameDecoder

if TYPE_CHECKING:
    from routebook.server.port import Port

logger = logging.getLogger(__name__)

FLUSH_BYTES = 128 * 1024
TURN = range(64)  # requests of one connection until others have theirs
TURN_FLUSHES = 2  # and how often its answers may fill FLUSH_BYTES
TURN_S = 0.002  # and how long requests may take that are not answered from memory
INSIDE = "gateway"  # the peer of a connection from inside the node
GO_AWAY = Reply(ResponseCode.GO_AWAY, "please go away")
# RocketMQ's words. A broker says it again in its next round, a client keeps the route it has.
BUSY = Reply(ResponseCode.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")

Dispatch = Callable[[Command, Caller], HandlerResult]
"""Answers a request; never raises."""


class Connection(asyncio.Protocol):
    """``inside``: of the node's own gateway; ``dispatch`` answers it then."""

    def __init__(
        self, port: "Port", *, inside: bool = False, dispatch: Dispatch | None = None
    ) -> None:
        self.inside = inside
        self._dispatch = dispatch or port.dispatch
        self._port = port
        self._loop = port.loop
        self._clock = port.clock
        self._now_s = port.clock.now_s
        self._decoder = FrameDecoder(port.max_frame)
        self._receive: Callable[[bytes], None] = self._greet
        self._tls: TlsSession | None = None
        self._long: LongAnswer | None = None  # the one being worked on
        self._laborious = False  # the last registration took longer than most
        self._awaited = AwaitedAnswers()
        self._held = False  # the input budget is used up
        self._resting = False  # it sent much, and is read from again in another turn
        self._in_line = False  # for another turn
        self._stashed: Frame | None = None  # a call that waits for its turn
        self._charged = False
        self._reading = True
        self._closing = False
        self.close_cause = Cause.CONNECTION_CLOSED
        self.active_at = self._now_s()
        self.partial_since: float | None = None
        self.closing_since: float | None = None

    # -- asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._outgoing = Outgoing(self.transport)
        peername = transport.get_extra_info("peername") or ("unknown", 0)
        peer = INSIDE if self.inside else str(Address(*peername[:2]))
        self.caller = Caller(self._port.next_link(), peer, self.inside)
        self._greeting = Greeting(expects_proxy=self._port.trusts_proxy(peername[0]))
        self._port.opened(self)

    def data_received(self, data: bytes) -> None:
        self.active_at = self._clock.tick_s
        if self._closing:
            return
        if len(data) >= LARGE_READ and not self._resting:
            self._resting = True
            self._update_reading()
            self._port.receiving.put(self)
        self._receive(data)

    def eof_received(self) -> bool:
        """The peer hangs up; True: the connection waits for its turn to be closed."""
        return not self._port.hang_ups.may_close(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        if self._long is not None:
            self._long.close()
            self._long = None
        self._port.closed(self)
        self._receive = _ignore  # it would keep this object in a reference cycle
        self._outgoing.let_go()

    def pause_writing(self) -> None:
        self._outgoing.pause()
        self._update_reading()

    def resume_writing(self) -> None:
        if not self._outgoing.resume():
            return
        self._port.unread.forget(self)
        self._port.reads_again(self)
        self.active_at = self._now_s()
        self._update_reading()
        self._proceed()

    # -- the first bytes

    def _greet(self, data: bytes) -> None:
        if self.partial_since is None:
            self.partial_since = self._now_s()  # until the first frame
        try:
            rest = self._greeting.take(data)
            if rest is None:
                return
            if self._greeting.source is not None:
                self.caller = Caller(self.caller.link, str(Address(*self._greeting.source)))
            if not rest:
                self.partial_since = None
                return
            self._tls = opened_tls(rest, self._port.tls_settings, self._port.tls_context)
            if self._tls is not None and not self._port.begin_tls(self):
                raise WireError("there is no memory for another TLS session (memoryLimit)")
            if self._tls is not None:
                self._outgoing.encrypt(self._tls, self._port.encrypting, self.resume_writing)
        except WireError as error:
            self.offend(str(error))
            return
        self._receive = self._frames if self._tls is None else self._decrypt
        self._receive(rest)

    def _decrypt(self, data: bytes) -> None:
        assert self._tls is not None
        try:
            plain = self._tls.decrypt(data)
        except ssl.SSLError as error:
            self.transport.write(self._tls.take())
            self.offend(f"TLS failed: {error.reason or error}")
            return
        if handshake := self._tls.take():
            self.transport.write(handshake)
        if self._tls.established and not self._decoder.buffered:
            self.partial_since = None
        if plain:
            self._frames(plain)
        if self._tls.closed and not self._closing:
            self.close()

    # -- frames

    def _frames(self, data: bytes) -> None:
        self._decoder.feed(data)
        self._proceed()

    def _proceed(self) -> None:
        """Carry out what is buffered until it runs out, its turn is over or it has to wait."""
        if self._in_line:
            return
        out: list[bytes] = []
        size, progress, flushes, until = 0, False, 0, 0.0
        next_frame = self._decoder.next_frame if self._stashed is None else self._unstashed
        dispatch, caller, max_frame = self._dispatch, self.caller, self._port.max_frame
        find, keep = self._port.memo.find, self._port.memo.keep
        outgoing, awaited = self._outgoing, self._awaited
        try:
            for _ in TURN:
                if self._long or outgoing.paused or self._closing:
                    break
                if awaited.count >= MAX_AWAITED:
                    break
                frame = next_frame()
                if frame is None:
                    break
                progress = True
                codec, header, body = frame
                if not codec and not body and not self._port.draining:
                    parts = find(header)
                    if parts is not None:
                        out += parts
                        size += len(parts[4]) + 128
                        if size > FLUSH_BYTES:
                            self._write(out)
                            out, size, flushes = [], 0, flushes + 1
                            if flushes == TURN_FLUSHES:
                                self._line_up()
                                break
                        continue
                if len(header) > MAX_REQUEST_HEADER:
                    request = oversized(frame)
                else:
                    request = decode_command(frame)
                if request.flag & FLAG_RESPONSE:
                    continue  # we asked nothing, so this answers nothing
                if self._port.draining and self._told_to_go_away(request, out):
                    continue
                share = SHARES.get(request.code, Share.CALLS)
                if share is not Share.QUICK and not self._port.may_go_on(share):
                    if share in PATIENT or self._port.line_up_call(self):
                        self._stashed = frame
                        if share in PATIENT:
                            self._port.line_up(self)
                        self._in_line = True
                        break
                    if not request.flag & FLAG_ONEWAY:
                        out.append(encode_reply(request, BUSY))
                    continue
                if not until:
                    until = monotonic() + TURN_S
                kind = KINDS.get(request.code)
                if kind is not None and not self._port.pending.enter(kind, self.host):
                    if not request.flag & FLAG_ONEWAY:
                        out.append(encode_reply(request, BUSY))
                    continue
                answer = dispatch(request, caller)
                if type(answer) is Reply:
                    if kind is not None:
                        self._port.pending.leave(kind, self.host)
                    if not request.flag & FLAG_ONEWAY:
                        encoded = encode_reply(request, answer, max_frame)
                        if len(encoded) > len(answer.body):  # not replaced by a refusal
                            keep(header, request, answer)
                        out.append(encoded)
                        size += len(encoded)
                        if size > FLUSH_BYTES:
                            self._write(out)
                            out, size, flushes = [], 0, flushes + 1
                elif isinstance(answer, Generator):
                    self._write(out)
                    out, size = [], 0
                    self._long = LongAnswer(request, answer)
                    if not self._port.work_on(self):
                        self.say_busy()
                else:
                    self._wait_for(cast(Awaitable[Reply], answer), request, kind)
                if flushes >= TURN_FLUSHES or monotonic() > until:
                    self._line_up()
                    break
            else:
                self._line_up()
        except WireError as error:
            self._write(out)
            self.offend(str(error))
            return
        if out:
            self._write(out)
        if self._closing:
            return
        waits = self._long or self._in_line or awaited.count or self._charged
        if waits or not self._reading or self._decoder.buffered:
            self._note_partial(progress=progress)
            self._update_reading()
        else:  # as nearly always
            self.partial_since = None

    def _line_up(self) -> None:
        """Go on in another turn with what is left, if anything is."""
        if self._decoder.buffered and not self._closing:
            self._in_line = True
            self._port.line_up(self)

    def take_turn(self) -> None:
        """Go on with what was left."""
        self._in_line = False
        if not self._closing:
            self._proceed()

    def _unstashed(self) -> Frame | None:
        """The call that waited for its turn, and then what came after it."""
        frame, self._stashed = self._stashed, None
        return frame or self._decoder.next_frame()

    def _told_to_go_away(self, request: Command, out: list[bytes]) -> bool:
        if not self._port.go_away or request.version <= Version.V5_3_1:
            return False
        if not request.flag & FLAG_ONEWAY:
            out.append(encode_reply(request, GO_AWAY))
        return True

    def _note_partial(self, *, progress: bool) -> None:
        """Keep the sender's clock and its share of the input budget."""
        partial = self._decoder.buffered
        if progress or not partial:
            self.partial_since = None
        if partial and self.partial_since is None:
            self.partial_since = self._now_s()
        in_work = len(self._long.request.body) if self._long is not None else 0
        if self._stashed is not None:
            in_work += len(self._stashed[2])
        if partial or in_work or self._charged:
            self._charged = partial + in_work > 0
            self._port.budget.charge(self, partial + in_work)

    # -- an answer in slices

    @property
    def large(self) -> bool:
        return self._long is not None and self._long.is_large

    @property
    def lane(self) -> Lane:
        """Where the answer being worked on belongs."""
        assert self._long is not None
        return self._long.lane(laborious=self._laborious)

    @property
    def outlasts_its_trial(self) -> bool:
        """Whether the answer has taken long, and can still be begun anew."""
        return self._long is not None and self._long.outlasts_its_trial

    def advance(self, until: float) -> bool:
        """Work on the sliced answer until it is given or the time is up; whether it is given."""
        long = self._long
        if long is None:
            return True
        reply = long.advance(until)
        if reply is None:
            return False
        if long.is_registration:
            self._laborious = long.was_laborious
        self._long = None
        self._answer(long.request, reply)
        return True

    def start_over(self) -> bool:
        """Give up what was done of the answer and begin anew; whether there is work to do."""
        assert self._long is not None
        self._long.close()
        request, self._long, self._laborious = self._long.request, None, True
        answer = self._dispatch(request, self.caller)
        if isinstance(answer, Generator):
            self._long = LongAnswer(request, answer)
            return True
        if isinstance(answer, Reply):  # it has become a repetition of what another one said
            self._answer(request, answer)
        else:
            self._wait_for(answer, request)
        return False

    def say_busy(self) -> None:
        """There is no room for the sliced answer: say so at once."""
        assert self._long is not None
        self._long.close()
        request, self._long = self._long.request, None
        self._answer(request, BUSY)

    def proceed(self) -> None:
        """Go on with what came in while the sliced answer was worked on."""
        if not self._closing:
            self._update_reading()
            self._proceed()

    def _wait_for(
        self, answer: Awaitable[Reply], request: Command, kind: Awaited | None = None
    ) -> None:
        host, pending = self.host, self._port.pending

        def go_on() -> None:
            if kind is not None:
                pending.leave(kind, host)
            self.proceed()

        self._awaited.put(answer, request, peer=self.caller.peer, give=self._answer, go_on=go_on)

    def _answer(self, request: Command, reply: Reply) -> None:
        if not request.is_oneway and not self.transport.is_closing():
            for part in reply_parts(request, reply, self._port.max_frame):
                self._write([part])

    def _write(self, parts: list[bytes]) -> None:
        if not parts:
            return
        unread = self._outgoing.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if unread and not self._closing:
            self._update_reading()
            self._port.unread.charge(self, unread)

    def push(self, data: bytes) -> None:
        """Send something that was not asked for just now."""
        if not self._closing and not self.transport.is_closing():
            self._write([data])

    # -- when to read

    @property
    def paused(self) -> bool:
        """Whether the peer does not read."""
        return self._outgoing.paused

    @property
    def busy(self) -> bool:
        """Whether an answer is still being worked on, or a request has not had its turn."""
        return self._long is not None or self._in_line or self._awaited.count > 0

    @property
    def host(self) -> str:
        """Of the peer; those of one host share their turns and their room."""
        return host_of(self.caller.peer)

    def turn_away(self) -> None:
        """There is no room for frames that this peer does not finish."""
        self.offend(
            "there is no room for so many unfinished frames (maxBufferedBytes, memoryLimit)"
        )

    def hold(self) -> None:
        self._held = True
        self._update_reading()

    def release(self) -> None:
        self._held = False
        if self.partial_since is not None:
            self.partial_since = self._now_s()  # the wait was ours, not the sender's
        self._update_reading()

    @property
    def waits(self) -> bool:
        """Whether it is not the sender's fault that a frame is not complete."""
        return self._held or self._outgoing.paused or self.busy

    @property
    def unheard(self) -> bool:
        """Whether there may be words of the peer that we have not come to."""
        return self._held or self._resting or self.busy

    def read_on(self) -> None:
        """It is its turn to be read from again."""
        self._resting = False
        self._update_reading()

    def _update_reading(self) -> None:
        wanted = not (
            self._outgoing.paused
            or self._held
            or self._resting
            or self._in_line
            or self._long
            or self._awaited.count >= MAX_AWAITED
        )
        if wanted == self._reading or self.transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # -- closing

    def offend(self, reason: str, *, at_once: bool = False) -> None:
        """Log what the peer did, once, and close its connection."""
        logger.warning("closing connection of %s: %s", self.caller.peer, reason)
        if at_once:
            self.abort()
        else:
            self.close()

    def close(self, cause: Cause | None = None) -> None:
        """Send what is written and close."""
        if cause is not None:
            self.close_cause = cause
        self._closing = True
        self.closing_since = self._now_s()
        self._outgoing.close()

    def give_up(self, unread: int) -> None:
        """There is no room for what this peer does not read."""
        reason = f"{unread} bytes of answers are not read, and there is no room for more"
        self.offend(f"{reason} (memoryLimit)", at_once=True)

    def abort(self, cause: Cause | None = None) -> None:
        if cause is not None:
            self.close_cause = cause
        self._closing = True
        self.transport.abort()


def _ignore(data: bytes) -> None:
    """Bytes of a connection that is gone."""
