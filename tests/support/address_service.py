"""An HTTP address service on a free port, as well or badly behaved as a test wants."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True, slots=True)
class Question:
    path: str
    headers: Message


class AddressService:
    """Gives ``answer`` to every GET and keeps the questions."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.questions: list[Question] = []
        self.stopped = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.questions.append(Question(self.path, self.headers))
                with suppress(OSError):  # the client has hung up
                    service.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def domain(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.domain}/rocketmq/nsaddr"

    def stop(self) -> None:
        """From now on connections are refused. Does nothing the second time."""
        if not self.stopped.is_set():
            self.stopped.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


@contextmanager
def address_service(answer: Answer) -> Iterator[AddressService]:
    service = AddressService(answer)
    try:
        yield service
    finally:
        service.stop()


def nobody() -> str:
    """The URL of a service that does not run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/rocketmq/nsaddr"


def text(body: str | bytes, status: int = 200, *, location: str | None = None) -> Answer:
    content = body.encode() if isinstance(body, str) else body

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        if location is not None:
            handler.send_header("Location", location)
        handler.end_headers()
        handler.wfile.write(content)

    return answer


def raw_bytes(content: bytes) -> Answer:
    """Bytes in place of an HTTP answer, then the end of the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(content)

    return answer


def trickle(start: bytes, stopped: threading.Event) -> Answer:
    """Bytes that never end, slower than anyone wants to wait, faster than a read times out."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(start)
        while not stopped.wait(0.01):
            handler.wfile.write(b"1")

    return answer
