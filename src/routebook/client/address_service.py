"""One look at an HTTP address service: a GET, a line of text, one deadline for all of it.

A socket's own timeout bounds each read, so a server that trickles bytes could hold a reader for
ever. Here every read gets only what is left until the deadline. Proxies of the environment are not
used: the service is an internal one.
"""

import http.client
import socket
import time
from contextlib import closing
from typing import Any
from urllib.parse import urljoin, urlsplit

from routebook.client.reasons import why_not_connected
from routebook.wire.codes import Version

MAX_TEXT = 64 * 1024
MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})


class ServiceFailed(Exception):
    """The address service gave no text; the message says why."""


def fetch_text(url: str, *, timeout_s: float) -> str:
    """The first line of the answer, trimmed, never empty; raises ServiceFailed.

    Only the resolution of the service's name can outlast ``timeout_s``.
    """
    deadline = time.monotonic() + timeout_s
    try:
        for _ in range(1 + MAX_REDIRECTS):
            with closing(_Connection(url, deadline)) as connection:
                target = urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl()
                connection.request("GET", target or "/", headers=_headers())
                with connection.getresponse() as answer:
                    if answer.status not in REDIRECTS:
                        return _first_line(answer)
                    url = urljoin(url, answer.headers.get("Location", ""))
        raise ServiceFailed(f"more than {MAX_REDIRECTS} redirects")
    except TimeoutError:
        raise ServiceFailed(f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise ServiceFailed(why_not_connected(error)) from error
    except (http.client.InvalidURL, ValueError) as error:
        raise ServiceFailed(f"{url[:200]!r} is not an http:// URL that can be asked") from error
    except http.client.IncompleteRead as error:
        raise ServiceFailed("the answer was cut short") from error
    except http.client.HTTPException as error:
        raise ServiceFailed(f"the answer is not HTTP ({type(error).__name__})") from error


def host_and_port(url: str) -> tuple[str, int]:
    """Whom to ask; raises ValueError for anything but an ``http://`` URL with a host."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{url[:200]!r} is not an http:// URL") from error
    if scheme != "http" or not host:
        raise ValueError(f"{url[:200]!r} is not an http:// URL")
    return host, http.client.HTTP_PORT if port is None else port


def _headers() -> dict[str, str]:
    return {
        "Client-Version": Version.V5_5_0.name,
        "Content-Type": "application/x-www-form-urlencoded;charset=UTF-8",
        "Metaq-Client-RequestTS": str(time.time_ns() // 1_000_000),
        "Connection": "close",
    }


def _first_line(answer: http.client.HTTPResponse) -> str:
    if answer.status != http.client.OK:
        raise ServiceFailed(f"HTTP status {answer.status}")
    body = answer.read(MAX_TEXT)
    # http.client gives what came when the server hangs up early. Half a port is a port too.
    if len(body) < MAX_TEXT and answer.length:
        raise ServiceFailed("the answer was cut short")
    lines = body.strip().splitlines()
    if not lines:
        raise ServiceFailed("the answer is empty")
    if len(body) == MAX_TEXT and len(lines) == 1:
        raise ServiceFailed(f"the answer is longer than {MAX_TEXT} bytes")
    return lines[0].strip().decode("utf-8", "replace")


class _Connection(http.client.HTTPConnection):
    def __init__(self, url: str, deadline: float) -> None:
        super().__init__(*host_and_port(url))
        self._deadline = deadline

    def connect(self) -> None:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for position, (family, kind, protocol, _, endpoint) in enumerate(found):
            self.sock = _DeadlineSocket(family, kind, protocol, deadline=self._deadline)
            # A dead address of several may use its share of the time, not all of it.
            self.sock.settimeout(time_left_s(self._deadline) / (len(found) - position))
            try:
                self.sock.connect(endpoint)
            except OSError:
                self.sock.close()
                if position == len(found) - 1:
                    raise
            else:
                self.sock.settimeout(time_left_s(self._deadline))
                return


class _DeadlineSocket(socket.socket):
    def __init__(self, family: int, kind: int, protocol: int, *, deadline: float) -> None:
        super().__init__(family, kind, protocol)
        self._deadline = deadline

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        self.settimeout(time_left_s(self._deadline))
        return super().recv_into(buffer, nbytes, flags)


def time_left_s(deadline: float) -> float:
    """Raises TimeoutError when there is none."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
