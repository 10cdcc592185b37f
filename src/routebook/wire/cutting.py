r"""Cutting: a large JSON text, read a few entries of its large tables at a time.

    {"a":…,"table":{"t1":{…},"t2":{…}, … ,"t9":{…}},"b":…}
                    └──── cut off ────┘
    {"a":…,"table":{"routebook.cut":{},"t9":{…}},"b":…}

Where an entry seems to end (``},"`` with as many braces opened as closed) the text is cut. That a
piece is JSON when it is put in braces proves that the cut was right: it would not be within a
string, nor on another level. Where it is not, nothing more is cut, and what is left must be small.
What is left is read whole, and the mark in it proves that the table was the one that was meant.
"""

import re
from collections.abc import Generator
from typing import NamedTuple, TypeVar

import msgspec

from routebook.slices import Slices

T = TypeVar("T")

CUT_BYTES = 64 * 1024  # a piece
SEARCHED_A_SLICE = 512 * 1024
MARK = "routebook.cut"
_MARKED = b'"routebook.cut":{},'
_TRIES = 200  # ends of inner objects before that of an entry
_END = re.compile(rb'\}\s{0,64}+,\s{0,64}+(?=")')
_OPENING = re.compile(rb"\s{0,64}+:\s{0,64}+\{\s{0,64}+(?=\")")
_BEFORE = re.compile(rb"[{,]\s{0,64}+\Z")


class Cut(NamedTuple):
    """What is left of a text, and the piece that was cut off."""

    position: int
    piece: bytes


def _start_of(text: bytes, table: bytes) -> Slices[int | None]:
    """Where the entries of a member ``table`` of some object begin; None when there are none."""
    quoted = b'"' + table + b'"'
    at, start = -1, 0
    while at < 0 and start < len(text):
        at = text.find(quoted, start, start + SEARCHED_A_SLICE + len(quoted))
        start += SEARCHED_A_SLICE
        if start >= SEARCHED_A_SLICE * 2:
            yield
    if at < 0 or not _BEFORE.search(text[max(0, at - 65) : at]):
        return None
    opening = _OPENING.match(text, at + len(quoted))
    return None if opening is None else opening.end()


def entries(
    text: bytes, table: bytes, decoder: "msgspec.json.Decoder[dict[str, T]]"
) -> Generator[dict[str, T] | None, None, bytes]:
    """Entries of ``table``, some at a time; returns what is left of ``text``.

    Yields None where others may have a turn and nothing is found yet.
    """
    start = yield from _start_of(text, table)
    if start is None:
        return text
    position = start
    while (cut := _cut(text, position)) is not None:
        try:
            decoded = decoder.decode(cut.piece)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            break
        yield decoded
        position = cut.position
    if position == start:
        return text
    return text[:start] + _MARKED + text[position:]


def _cut(text: bytes, position: int) -> Cut | None:
    """The entries from ``position`` on, some 64 KiB of them."""
    if len(text) - position <= CUT_BYTES:
        return None
    counted, depth = position, 0
    end = _END.search(text, position + CUT_BYTES)
    for _ in range(_TRIES):
        if end is None or end.start() - position > 4 * CUT_BYTES:
            return None
        depth += text.count(b"{", counted, end.start() + 1)
        depth -= text.count(b"}", counted, end.start() + 1)
        if depth == 0:
            return Cut(end.end(), b"{" + text[position : end.start() + 1] + b"}")
        counted = end.start() + 1
        end = _END.search(text, end.end())
    return None
