"""Text that UTF-8 can hold."""

import re
from typing import cast

_COPIED = 64 * 1024

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


def grown(text: bytearray) -> bytes:
    """What grew where it is, to be read like bytes: a copy of megabytes would take its time.

    Nobody may change it any more.
    """
    return bytes(text) if len(text) <= _COPIED else cast(bytes, text)


def whole(text: str) -> str:
    """``text`` with halves of surrogate pairs joined, and "?" for one alone, as Java writes it."""
    if text.isascii() or not _HALF.search(text):
        return text
    return _HALF.sub("?", _PAIR.sub(_joined, text))


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
