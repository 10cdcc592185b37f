"""Answers of the gateway: JSON, and errors that are sentences."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


def json_answer(
    value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        msgspec.json.encode(value), status_code=status, headers=headers, media_type=JSON
    )


def error_answer(
    status: int,
    sentence: str,
    *,
    code: str,
    retry_after_s: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """``sentence`` says what is wrong and what to do next, ``code`` is a word for programs."""
    more = dict(headers or {})
    if retry_after_s is not None:
        more["Retry-After"] = str(retry_after_s)
    return json_answer({"error": sentence, "code": code}, status=status, headers=more)


def text_answer(
    text: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(text, status_code=status, headers=headers, media_type=TEXT)
