"""Answers with an ETag: 304 for those who have it."""

import re
from hashlib import blake2b
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.answers import JSON

SMALL = 1024  # bytes; less is not worth packing

_PASSES = re.compile(
    rb'"(?:age_ms|left_ms|uptime_ms|ping_ms|clock_ahead_ms|clock_uncertainty_ms)":[-+.0-9e]+'
)


def encode_document(document: Any) -> bytes:
    return msgspec.json.encode(document)


def etag_of(body: bytes) -> str:
    """Of what ``body`` says, whatever time has passed since: so it is a weak one."""
    return f'W/"{blake2b(_PASSES.sub(b"", body), digest_size=9).hexdigest()}"'


def content_answer(
    request: Request,
    body: bytes,
    *,
    etag: str = "",
    age_ms: int | None = None,
    status: int = 200,
    packed: bool = False,
) -> Response:
    """``etag`` is that of the body, if it is known; ``packed``: it is in gzip already."""
    headers = {"ETag": etag or etag_of(body), "Cache-Control": "no-cache"}
    if age_ms is not None:
        headers["Routebook-Age-Ms"] = str(age_ms)
    if status == 200 and _has(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if packed:
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(body, status_code=status, headers=headers, media_type=JSON)


def takes_gzip(request: Request) -> bool:
    """As the middleware sees it that packs all other answers."""
    return "gzip" in request.headers.get("accept-encoding", "")


def _has(given: str, etag: str) -> bool:
    tags = (tag.strip().removeprefix("W/") for tag in given.split(","))
    return any(tag in ("*", etag.removeprefix("W/")) for tag in tags)
