"""AnswerMemo: route queries that were asked before, answered without reading them again.

Clients poll: the same header comes again and again, with another opaque. The memo knows such
a header by its bytes around the opaque and keeps the answer in pieces around the place where
the opaque goes. Any event empties it, so an answer is never older than the table.

A header is kept only if its one ``"opaque":`` is the command's own; a peer that hides another
one in its ext fields can at most confuse the numbering of its own answers.
"""

import re
from struct import Struct
from typing import Protocol

from routebook.handlers.tally import KNOWN, Cell, QueryTally
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import JSON, Command, Reply
from routebook.wire.header_json import reply_around_opaque

_PREFIX = Struct(">II")
_OPAQUE = b'"opaque":'
_DIGITS = re.compile(rb"[0-9]{1,10}(?=[,}])")
_ZERO = ord("0")
MAX_HEADER = 512
MAX_ENTRIES = 16_384
MAX_BYTES = 64 * 1024 * 1024
ENTRY_BYTES = 600  # beside its key and its body

Parts = tuple[bytes, bytes, bytes, bytes, bytes]


class Memo(Protocol):
    """Whole answers to headers met before."""

    def find(self, header: bytes) -> Parts | None: ...
    def keep(self, header: bytes, request: Command, reply: Reply) -> None: ...


class AnswerMemo:
    """Counts in ``tally`` what it answers; to be cleared when the tally is taken."""

    def __init__(self, tally: QueryTally, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tally = tally
        self._kept: dict[bytes, tuple[bytes, bytes, bytes, int, int, Cell]] = {}
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def clear(self) -> None:
        if self._kept:
            self._kept.clear()
            self._bytes = 0

    def find(self, header: bytes) -> Parts | None:
        """The pieces of the whole answer frame, or None for a header not met lately."""
        if len(header) > MAX_HEADER:
            return None
        start = header.find(_OPAQUE) + 9
        end = header.find(b",", start)
        kept = self._kept.get(header[:start] + header[end:])
        if kept is None:
            return None
        opaque, digits = header[start:end], end - start
        if not opaque.isdigit() or (digits > 9 and not _is_java_int(opaque)):
            return None
        if digits > 1 and opaque[0] == _ZERO:
            return None  # not a JSON number: the decoder knows what to do
        before, after, body, header_length, length, cell = kept
        cell[KNOWN] += 1
        return _PREFIX.pack(length + digits, header_length + digits), before, opaque, after, body

    def keep(self, header: bytes, request: Command, reply: Reply) -> None:
        """Remember the answer, if it is one that stays true until the next event."""
        if (
            request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC
            or reply.code != ResponseCode.SUCCESS
            or request.codec != JSON
            or request.flag
            or len(header) > MAX_HEADER
            or header.count(_OPAQUE) != 1
        ):
            return
        start = header.find(_OPAQUE) + 9
        digits = _DIGITS.match(header, start)
        if digits is None or int(digits[0]) != request.opaque or header[digits.end()] != 0x2C:
            return
        key = header[:start] + header[digits.end() :]
        size = len(key) + len(reply.body) + ENTRY_BYTES
        if len(self._kept) >= MAX_ENTRIES or self._bytes + size > self._max_bytes:
            self.clear()
        before, after = reply_around_opaque(reply)
        header_length = len(before) + len(after)
        self._kept[key] = (
            before,
            after,
            reply.body,
            header_length,
            4 + header_length + len(reply.body),
            self._tally.cell(request.ext_fields.get("topic") or ""),
        )
        self._bytes += size


def _is_java_int(digits: bytes) -> bool:
    return len(digits) <= 10 and int(digits) < 2**31
