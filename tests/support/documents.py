"""README and docs: their pages, their blocks, and what commands in them print."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])

FENCE = re.compile(r"^```([a-z]*)(?: by (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """``shown_by`` is the test that shows what an excerpt says: a file, or ``file::test``."""

    page: str
    language: str
    shown_by: str
    text: str

    @property
    def sessions(self) -> list[tuple[str, str]]:
        """Commands with what each of them prints."""
        _, *parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
        return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, without comments and the variables set before it."""
        lines = self.text.splitlines()
        if self.language == "console":
            lines = [command for command, _ in self.sessions]
        if self.language not in ("console", "sh"):
            return []
        parted = [shlex.split(line, comments=True) for line in lines]
        return [_without_variables(words) for words in parted if words]


def _without_variables(words: list[str]) -> list[str]:
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def blocks_of(page: Path) -> list[Block]:
    name = page.relative_to(ROOT).as_posix()
    return [Block(name, *found) for found in FENCE.findall(page.read_text())]


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def shape(text: str) -> str:
    """A text without its numbers, and without what their widths do to tables."""
    text = re.sub(r"\d+", "0", text)
    text = re.sub(r" {2,}", "  ", text)
    return re.sub(r"─+", "─", text).rstrip()


def looks_like(printed: str, shown: str) -> bool:
    """Whether a program printed what a page shows; a line ``...`` stands for any lines."""
    parts = [re.escape(shape(part)) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    return re.fullmatch(r"(?:.*\n)?".join(parts), shape(printed), re.DOTALL) is not None


def anchors_of(page: Path) -> set[str]:
    """What a link to a heading of the page may name, as GitHub makes it."""
    prose = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
