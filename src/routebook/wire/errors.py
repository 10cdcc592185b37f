"""What can be wrong with bytes.

WireError            the stream is unreadable from here on; the connection is closed
FrameTooLarge      a length prefix beyond the limit
BadRequest           one command's fields or body are wrong; the connection stays
BodyTooLarge       a body that inflates, or an answer that grows, beyond its limit
BadBody              the body of an answer is not what was asked for
DialectError         text that is not even fastjson's idea of JSON
"""


class WireError(Exception):
    """The stream is unreadable from here on."""


class FrameTooLarge(WireError):
    """A length prefix exceeds the limit this node accepts."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"frame of {length} bytes exceeds the limit of {limit}")
        self.length = length
        self.limit = limit


class BadRequest(Exception):
    """One command cannot be carried out as it was sent."""


class BodyTooLarge(BadRequest):
    """A body is larger than a peer may make us hold or could accept."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"{what} exceeds the limit of {limit} bytes")
        self.limit = limit


class BadBody(Exception):
    """The body of an answer is not what was asked for."""


class DialectError(ValueError):
    """Text that neither JSON nor fastjson would read."""
