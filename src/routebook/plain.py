"""Text made safe to show. Names come from the network: nothing in one may move the cursor."""

import json
from typing import Any

_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"


def plain(shown: object) -> str:
    """Without control codes and the like; line breaks stay, None is a dash."""
    text = "–" if shown is None else str(shown)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _UNPRINTABLE for c in text)


def word(shown: object) -> str:
    """``plain`` without line breaks: one name, one line."""
    return plain(shown).replace("\n", _UNPRINTABLE)


def one_line(shown: object) -> str:
    """``plain`` with every stretch of white space as one blank."""
    return plain(" ".join(str(shown).split()))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON that no terminal stumbles over: what is not printable is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)
