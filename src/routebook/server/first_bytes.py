"""The first bytes of a connection: a PROXY header, if one may come, then TLS or a frame."""

import ssl

from routebook.server.tls import CLIENT_HELLO, TlsSession
from routebook.settings import TlsSettings
from routebook.wire import proxy
from routebook.wire.errors import WireError


class Greeting:
    """Takes bytes until it is known who really connects."""

    def __init__(self, *, expects_proxy: bool) -> None:
        self._expects_proxy = expects_proxy
        self._received = b""
        self.source: tuple[str, int] | None = None  # as a PROXY header names it

    def take(self, data: bytes) -> bytes | None:
        """What follows the header, None while that is not complete; raises WireError."""
        if not self._expects_proxy:
            return data
        self._received += data
        claim = proxy.parse(self._received)
        if claim is None:
            return None
        self._expects_proxy = False
        self.source = claim.source
        rest, self._received = self._received[claim.length :], b""
        return rest


def opened_tls(
    data: bytes, settings: TlsSettings, context: ssl.SSLContext | None
) -> TlsSession | None:
    """The session ``data`` opens, None for plain text; raises WireError where it may not."""
    if data[0] == CLIENT_HELLO and settings.mode != "disabled":
        if context is None:
            raise WireError("TLS is not set up here (tls.server.certPath, tls.server.keyPath)")
        return TlsSession(context)
    if settings.mode == "enforcing":
        raise WireError("plain text where TLS is enforced")
    return None
