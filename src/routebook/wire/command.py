"""One command of the remoting protocol, and the reply to one.

The JSON header is decoded straight into ``Command``; ``body`` and ``codec`` come from the
frame and overwrite whatever a header claims under those names.
"""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from routebook.wire.codes import ResponseCode

JSON = 0
BINARY = 1
FLAG_RESPONSE = 1
FLAG_ONEWAY = 2
MAX_FIELDS = 1000  # of a header; RocketMQ's own have some twenty

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Command(msgspec.Struct, rename={"ext_fields": "extFields"}):
    """One request or answer of the remoting protocol; clients fill in ``opaque`` themselves."""

    code: Int32 = 0
    flag: Int32 = 0
    opaque: Int32 = 0
    version: Int32 = 0
    remark: str | None = None
    ext_fields: dict[str, str | None] = {}
    body: bytes = b""
    codec: int = JSON

    @property
    def is_oneway(self) -> bool:
        """Whether no answer is wanted."""
        return bool(self.flag & FLAG_ONEWAY)


class Oversized(Command):
    """A request that is refused unread; ``remark`` says why."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a handler answers; the opaque and the encoding come from the request.

    ``ext_fields`` is None for answers without a header class and empty for those that have
    one but no value to put in: peers see the difference on the wire.
    """

    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    ext_fields: dict[str, str] | None = None
    body: bytes = b""
