"""Pages: a part of a sorted list, and a cursor to go on from.

A cursor is the key of the last row that was told, so rows that come and go meanwhile move nothing.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from routebook.gateway.api.failures import bad_parameter

Row = TypeVar("Row")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListPage(Generic[Row]):
    """``next``: the cursor of what follows; None on the last page."""

    rows: Sequence[Row]
    total: int
    next: str | None


def page_of(
    rows: Sequence[Row], key: Callable[[Row], Key], *, limit: int, cursor: str | None
) -> ListPage[Row]:
    """Up to ``limit`` of ``rows``, which are sorted by ``key``; raises Failure."""
    start = 0 if cursor is None else bisect_right(rows, decode_cursor(cursor), key=key)
    part = rows[start : start + limit]
    more = start + limit < len(rows)
    return ListPage(part, len(rows), encode_cursor(key(part[-1])) if more and part else None)


def encode_cursor(key: Key) -> str:
    return urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def decode_cursor(text: str) -> Key:
    try:
        body = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(body, type=tuple[str, ...])
    except (ValueError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise bad_parameter("cursor is none of ours; leave it out to begin anew") from error
