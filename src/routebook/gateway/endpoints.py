"""Endpoints: what can be asked of a gateway, each with who may ask.

A module that answers something declares its endpoints in a tuple; ``table`` joins them all.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.access import Access
from routebook.gateway.gateway import Gateway

Handler = Callable[[Request, Gateway], Awaitable[Response]]
"""Answers one request. A NameServerError it lets through is answered with 503 and its sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``path`` is Starlette's, with parameters in braces. ``summary`` is for the documents."""

    method: str
    path: str
    access: Access
    handler: Handler
    summary: str
