"""TLS on the port that also speaks plain text.

The first byte of a connection tells: 0x16 opens a TLS handshake, no frame can begin with it.
By then asyncio has handed the bytes over, so the session runs on memory buffers: cipher text
in, plain text out, and back.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from routebook.settings import SettingsError, TlsSettings

logger = logging.getLogger(__name__)

CLIENT_HELLO = 0x16
RELOAD_EVERY_S = 0.5
_CHUNK = 64 * 1024
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}


class TlsSession:
    """One connection's cipher state."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False
        self.closed = False  # the peer said goodbye

    def decrypt(self, data: bytes) -> bytes:
        """Plain text of ``data``, possibly none yet; raises ssl.SSLError."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            if not self.established:
                self._ssl.do_handshake()
                self.established = True
            while part := self._ssl.read(_CHUNK):
                parts.append(part)
            self.closed = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.closed = True
        return b"".join(parts)

    def encrypt(self, data: memoryview) -> None:
        position = 0
        while position < len(data):
            position += self._ssl.write(data[position : position + _CHUNK])

    def take(self) -> bytes:
        """Bytes to send: handshake, alerts and cipher text."""
        return self._outgoing.read()


def server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """The context of new connections, None without a certificate; raises SettingsError."""
    if settings.cert_path is None or settings.mode == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path in _files(settings):
        try:
            path.read_bytes()
        except OSError as error:
            raise SettingsError(f"TLS file {path} cannot be read: {error.strerror}") from error
    try:
        # An encrypted key without a password must fail, not ask on the terminal.
        context.load_cert_chain(
            settings.cert_path, settings.key_path, lambda: settings.key_password or ""
        )
        context.verify_mode = _CLIENT_AUTH[settings.client_auth]
        if settings.trust_cert_path is not None:
            context.load_verify_locations(settings.trust_cert_path)
    except (OSError, ValueError) as error:  # SSLError is one; so is a file that was just replaced
        names = ", ".join(str(path) for path in _files(settings))
        raise SettingsError(
            f"TLS files {names} cannot be used: {error}; they must be there, be PEM and belong"
            " together"
        ) from error
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """For notifications to brokers; without an authority any certificate will do, as in Java."""
    if not settings.outgoing:
        return None
    try:
        context = ssl.create_default_context(cafile=settings.outgoing_trust_cert_path)
    except (OSError, ssl.SSLError) as error:
        path = settings.outgoing_trust_cert_path
        raise SettingsError(f"TLS file {path} cannot be read: {error}") from error
    context.check_hostname = False  # brokers are known by address
    if settings.outgoing_trust_cert_path is None:
        context.verify_mode = ssl.CERT_NONE
    return context


def _files(settings: TlsSettings) -> list[Path]:
    paths = (settings.cert_path, settings.key_path, settings.trust_cert_path)
    return [path for path in paths if path is not None]


def _stamps(settings: TlsSettings) -> list[tuple[int, int, int] | None]:
    stamps: list[tuple[int, int, int] | None] = []
    for path in _files(settings):
        try:
            stat = path.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return stamps


class FollowedFiles:
    """Hands over a new context whenever the files changed; files that do not fit are waited for.

    To be made before the first context is: what changes meanwhile is a change.
    """

    def __init__(self, settings: TlsSettings, use: Callable[[ssl.SSLContext], None]) -> None:
        self._settings = settings
        self._use = use
        self._seen = _stamps(settings)
        self._complained: list[tuple[int, int, int] | None] | None = None

    def look(self) -> None:
        now = _stamps(self._settings)
        if now == self._seen or None in now:
            return
        try:
            context = server_context(self._settings)
        except SettingsError as error:
            # Certificate and key are rarely replaced in the same instant: keep the old pair.
            if now != self._complained:
                logger.warning("TLS files changed but cannot be used yet: %s", error)
                self._complained = now
            return
        self._seen = now
        if context is not None:
            self._use(context)
            logger.info("TLS files changed and were loaded")
