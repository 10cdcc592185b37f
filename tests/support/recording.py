"""RecordingNode: a NameServer that writes down what it is asked and answers as told."""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType

from routebook.slices import finished
from routebook.wire.codec import decode_command, encode_reply
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command, Reply
from routebook.wire.frame import FrameDecoder
from routebook.wire.headers import RegisterBrokerHeader
from routebook.wire.registration import RegistrationBody, decode_registration

MAX_FRAME = 16 * 1024 * 1024


def registration_of(request: Command) -> RegistrationBody:
    """What a REGISTER_BROKER says, read as a NameServer reads it."""
    return finished(
        decode_registration(
            request.body,
            request.version,
            compressed=RegisterBrokerHeader.of(request).compressed,
            max_frame=MAX_FRAME,
            max_topics=1_000_000,
        )
    )


class RecordingNode:
    """``answer`` is asked for the reply to each request; None: none before ``answer_late``."""

    def __init__(self, answer: Callable[[Command], Reply | None] = lambda _: Reply()) -> None:
        self.answer = answer
        self.requests: list[Command] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._unanswered: list[tuple[asyncio.StreamWriter, Command]] = []

    async def __aenter__(self) -> "RecordingNode":
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.close()
        self.hang_up()
        await self._server.wait_closed()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._writers)

    def codes(self) -> list[RequestCode]:
        return [RequestCode(request.code) for request in self.requests]

    def named(self, code: RequestCode) -> list[Command]:
        return [request for request in self.requests if request.code == code]

    def registered(self) -> list[set[str]]:
        """The topics of each registration so far."""
        return [set(body.topics) for body in self.registrations()]

    def registrations(self) -> Iterable[RegistrationBody]:
        return map(registration_of, self.named(RequestCode.REGISTER_BROKER))

    def answer_late(self) -> None:
        """Answer what was left unanswered with success."""
        for writer, request in self._unanswered:
            writer.write(encode_reply(request, Reply()))
        self._unanswered.clear()

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        decoder = FrameDecoder(MAX_FRAME)
        try:
            while data := await reader.read(1 << 20):
                decoder.feed(data)
                while (frame := decoder.next_frame()) is not None:
                    request = decode_command(frame)
                    self.requests.append(request)
                    reply = self.answer(request)
                    if reply is None:
                        self._unanswered.append((writer, request))
                    elif not request.is_oneway:
                        writer.write(encode_reply(request, reply))
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
