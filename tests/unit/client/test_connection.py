import asyncio

import pytest

from routebook.client.connection import Connection
from routebook.client.errors import BadAnswer, ConnectionLost, RequestTooLarge
from routebook.client.requests import route_question
from routebook.wire.address import Address
from routebook.wire.command import Command
from support.misbehaving import answer

ADDRESS = Address("10.0.0.1", 9876)


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.ended = False
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.ended

    def abort(self) -> None:
        self.aborted = self.ended = True


def connected(max_frame: int = 1 << 20) -> tuple[Connection, FakeTransport]:
    connection, transport = Connection(ADDRESS, max_frame=max_frame), FakeTransport()
    connection.connection_made(transport)
    return connection, transport


async def test_requests_are_written_in_one_go_and_answered_by_number() -> None:
    connection, transport = connected()

    first, second = connection.send([route_question("T1"), route_question("T2")])
    connection.data_received(answer(second.opaque, body=b"2") + answer(first.opaque, body=b"1"))

    assert len(transport.written) == 1
    assert (first.answer.result().body, second.answer.result().body) == (b"1", b"2")
    assert connection.in_flight == 0


async def test_answers_may_come_in_pieces() -> None:
    connection, _ = connected()

    (pending,) = connection.send([route_question("T")])
    for byte in answer(pending.opaque, body=b"body"):
        assert not pending.answer.done()
        connection.data_received(bytes([byte]))

    assert pending.answer.result().body == b"body"


async def test_the_end_of_the_stream_is_noticed_before_the_connection_is_lost() -> None:
    connection, transport = connected()
    assert not connection.closing

    transport.ended = True  # and connection_lost comes with the next turn of the loop

    assert connection.closing
    with pytest.raises(ConnectionLost):
        connection.send([route_question("T")])
    with pytest.raises(ConnectionLost):
        connection.send_oneway(route_question("T"))


async def test_all_in_flight_are_told_why_the_connection_is_lost() -> None:
    connection, _ = connected()
    sent = connection.send([route_question("T1"), route_question("T2")])

    connection.connection_lost(ConnectionResetError("reset by peer"))

    for pending in sent:
        with pytest.raises(ConnectionLost, match=r"10\.0\.0\.1:9876.*reset by peer"):
            pending.answer.result()


async def test_an_unreadable_stream_fails_all_in_flight_and_is_left() -> None:
    connection, transport = connected()
    (pending,) = connection.send([route_question("T")])

    connection.data_received(b"HTTP/1.1 400 Bad Request\r\n")

    with pytest.raises(BadAnswer, match="not readable"):
        pending.answer.result()
    assert transport.aborted


@pytest.mark.parametrize(
    ("max_frame", "too_large"),
    [
        pytest.param(1 << 10, Command(code=318, body=bytes(1 << 10)), id="body"),
        pytest.param(1 << 10, Command(code=100, ext_fields={"v": "x" * 1024}), id="header"),
        # The length of a header has 24 bits, whatever the limit of a frame is.
        pytest.param(1 << 30, Command(code=100, ext_fields={"v": "x" * 2**24}), id="24-bits"),
    ],
)
async def test_of_requests_with_one_too_large_none_is_sent(
    max_frame: int, too_large: Command
) -> None:
    connection, transport = connected(max_frame)

    with pytest.raises(RequestTooLarge, match="exceeds the limit"):
        connection.send([route_question("T"), too_large])

    assert transport.written == []
    assert connection.in_flight == 0


async def test_a_forgotten_answer_is_nobodys() -> None:
    connection, _ = connected()
    first, second = connection.send([route_question("T1"), route_question("T2")])

    connection.forget([first])
    connection.data_received(answer(first.opaque) + answer(second.opaque))

    assert first.answer.cancelled()
    assert second.answer.done()
    assert connection.answered == 1
