"""What an oracle found wrong."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """``room`` is whose answer it is, ``what`` the kind of mistake, the same for all of a kind."""

    room: str
    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"[{self.room}] {self.what}\n    expected: {self.expected}\n    got:      {self.got}"
