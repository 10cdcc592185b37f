"""Access: who may ask for what.

Three classes. OPEN is for everybody: probes, metrics, the address service. READ is for everybody
where no token is set, which only a gateway on loopback or one with ``httpOpen`` may do; else it
takes the token, as a Bearer token or, so that browsers can ask for it, as the password of Basic.
ADMIN takes a Bearer token and nothing else: no browser adds one by itself.

A page of somebody else's that makes its own name stand for this machine is told apart by ``Host``:
an address, ``localhost``, this machine's name and those of ``httpHosts`` are ours.
"""

import binascii
import hmac
import ipaddress
import socket
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from starlette.datastructures import Headers
from starlette.responses import Response

from routebook.gateway.answers import error_answer
from routebook.gateway.options import GatewayOptions

ADMIN_NAME = "admin"  # of the token, in journals


class Access(StrEnum):
    OPEN = "open"
    READ = "read"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class AccessRules:
    read_token: str | None
    admin_token: str | None
    hosts: frozenset[str]

    @classmethod
    def of(cls, options: GatewayOptions) -> "AccessRules":
        advertised = options.advertised_address.rpartition(":")[0]
        own = ("localhost", socket.gethostname(), advertised, *options.hosts)
        return cls(options.read_token, options.admin_token, frozenset(_lowered(own)))

    def refusal(self, access: Access, headers: Headers) -> Response | None:
        """What is answered instead; None: it may be done."""
        if access is Access.OPEN:
            return None
        if not self._is_ours(headers.get("host")):
            return error_answer(
                403,
                "this is not a name of this machine; if it is, add it to httpHosts",
                code="host",
            )
        if access is Access.READ:
            if self.read_token is None or self._may_read(headers.get("authorization") or ""):
                return None
            asked = 'Basic realm="routebook", Bearer'
            return error_answer(
                401,
                "the token of httpReadToken is needed, as Bearer token or as password",
                code="token",
                headers={"WWW-Authenticate": asked},
            )
        if self.admin_token is None:
            return error_answer(
                403,
                "changes are off; set httpAdminToken on the node to allow them",
                code="not_allowed",
            )
        if _is_bearer(headers.get("authorization") or "", self.admin_token):
            return None
        return error_answer(
            401,
            "the token of httpAdminToken is needed, as Bearer token",
            code="token",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _may_read(self, authorization: str) -> bool:
        tokens = [token for token in (self.read_token, self.admin_token) if token is not None]
        # All of them, so that it takes as long whichever is right.
        right = [_is_bearer(authorization, t) | _is_password(authorization, t) for t in tokens]
        return any(right)

    def _is_ours(self, host: str | None) -> bool:
        name = _host_of(host or "")
        return bool(name) and (name in self.hosts or _is_address(name))


def _lowered(names: Iterable[str]) -> set[str]:
    return {name.lower().strip("[]") for name in names if name}


def _host_of(header: str) -> str:
    """Of a Host header, without the port; "" for one that is none."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    name, _, port = text.partition(":")
    return "" if port and not port.isdigit() else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_bearer(authorization: str, token: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    return scheme.lower() == "bearer" and _same(given.strip(), token)


def _is_password(authorization: str, token: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        text = b64decode(given.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return _same(text.partition(":")[2], token)


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
