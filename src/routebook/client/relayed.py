"""Relayed: what an answer says of itself when it comes out of a relay's cache."""

from dataclasses import dataclass

from routebook.wire.command import Command

AGE_FIELD = "routebookAgeMillis"
STALE_FIELD = "routebookStale"


@dataclass(frozen=True, slots=True, order=True)
class Relayed:
    """An answer came out of the cache of a relay.

    ``age_ms`` is how long ago a NameServer said so. ``doubt`` is why the last attempt to hear it
    again failed, None when it did not.
    """

    age_ms: int
    doubt: str | None = None

    @property
    def stale(self) -> bool:
        """Whether the relay could not hear it again when it should have."""
        return self.doubt is not None


def relayed(answer: Command) -> Relayed | None:
    """None for an answer of a NameServer's own."""
    fields = answer.ext_fields
    age = fields.get(AGE_FIELD) or ""
    if not (age.isascii() and age.isdigit()):
        return None
    doubt = answer.remark or "no reason" if fields.get(STALE_FIELD) == "true" else None
    return Relayed(int(age), doubt)
