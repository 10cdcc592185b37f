r"""Cutting: a large JSON text, read a few entries of its large tables at a time.

    {"a":…,"table":{"t1":{…},"t2":{…}, … ,"t9":{…}},"b":…}
                    └──── cut off ────┘
    {"a":…,"table":{"routebook.cut":{},"t9":{…}},"b":…}

Where an entry seems to end (``},"``) the text is cut; where entries hold objects, only with as many
braces opened as closed. That a piece is JSON when it is put in braces proves that the cut was
right: it would not be within a string, nor on another level. Where it is not, nothing more is cut,
and what is left must be small. What is left is read whole, and the mark in it proves that the table
was the one that was meant.
"""

import re
from collections.abc import Generator
from typing import NamedTuple, TypeVar

import msgspec

from routebook.slices import Slices

T = TypeVar("T")

CUT_BYTES = 128 * 1024  # a piece
SEARCHED_A_SLICE = 512 * 1024
MARK = "routebook.cut"
_MARKED = b'"routebook.cut":{},'
_TRIES = 200  # ends of inner objects before that of an entry
_END = re.compile(rb'\}\s{0,64}+,\s{0,64}+(?=")')
_LIKELY_END = re.compile(rb'(?<!\{)\}\s{0,64}+,\s{0,64}+(?=")')  # not of an empty object
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
    position, counting = start, False
    while len(text) - position > CUT_BYTES:
        cut = _counted_cut(text, position) if counting else _likely_cut(text, position)
        try:
            decoded = None if cut is None else decoder.decode(cut.piece)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            decoded = None
        if cut is not None and decoded is not None:
            yield decoded
            position = cut.position
        elif counting:
            break
        else:
            counting = True  # entries hold objects of their own
            yield None
    if position == start:
        return text
    if isinstance(text, bytearray):  # nobody else reads it any more
        text[start:position] = _MARKED
        return text
    return text[:start] + _MARKED + text[position:]


def _likely_cut(text: bytes, position: int) -> Cut | None:
    """The entries from ``position`` on, if the first thing that looks like an end is one."""
    end = _LIKELY_END.search(text, position + CUT_BYTES, position + 2 * CUT_BYTES)
    return None if end is None else _piece(text, position, end)


def _counted_cut(text: bytes, position: int) -> Cut | None:
    """The entries from ``position`` on, up to where as many braces are closed as opened."""
    counted, depth = position, 0
    end = _END.search(text, position + CUT_BYTES)
    for _ in range(_TRIES):
        if end is None or end.start() - position > 2 * CUT_BYTES:
            return None
        depth += text.count(b"{", counted, end.start() + 1)
        depth -= text.count(b"}", counted, end.start() + 1)
        if depth == 0:
            return _piece(text, position, end)
        counted = end.start() + 1
        end = _END.search(text, end.end())
    return None


def _piece(text: bytes, position: int, end: "re.Match[bytes]") -> Cut:
    return Cut(end.end(), b"{" + text[position : end.start() + 1] + b"}")
