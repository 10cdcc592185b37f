"""A webhook to call: answers as it is told, and keeps what came."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class Receiver:
    """``statuses`` are the answers to come, then always the last one; 0 hangs up."""

    url: str
    statuses: list[int] = field(default_factory=lambda: [200])
    calls: list[tuple[str, bytes]] = field(default_factory=list)  # Idempotency-Key, body
    kinds: set[str] = field(default_factory=set)

    def taken(self) -> list[bytes]:
        return [body for _, body in self.calls]


@contextmanager
def receiving(*statuses: int, port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver("", list(statuses) or [200])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answers = receiver.statuses
            status = answers.pop(0) if len(answers) > 1 else answers[0]
            if status == 0:
                self.close_connection = True
                return
            if status < 300:  # before the caller goes on with the next
                receiver.kinds.add(self.headers["Content-Type"])
                receiver.calls.append((self.headers["Idempotency-Key"], body))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/alerts"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
