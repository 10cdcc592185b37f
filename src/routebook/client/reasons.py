"""Why there is no connection, in words."""

import os
import socket
import ssl


def why_not_connected(error: OSError) -> str:
    """``connection refused``, ``the name does not resolve``, ``TLS: unknown CA``, ..."""
    if isinstance(error, socket.gaierror):
        return "the name does not resolve"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed, {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if error.errno is not None:
        return os.strerror(error.errno).lower()
    text = str(error) or type(error).__name__
    return text[:1].lower() + text[1:]
