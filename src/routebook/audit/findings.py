"""Finding: one thing that is wrong or worth knowing, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from routebook.words import first_lines

EXAMPLES = 5


class Severity(StrEnum):
    """From worst to mildest.

    Error: messages are lost, refused or sent astray. Warning: they will be when one more thing
    happens, or somebody forgot to finish something. Info: worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """``check`` names the kind of finding, ``evidence`` says line by line what was seen."""

    check: str
    severity: Severity
    subject: str
    evidence: tuple[str, ...]
    remedy: str


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, then by subject."""
    return tuple(sorted(findings, key=lambda f: (f.severity.rank, f.subject, f.check)))


def examples(lines: Sequence[str]) -> tuple[str, ...]:
    """The first few lines, and how many there are besides."""
    return tuple(first_lines(lines, most=EXAMPLES))
