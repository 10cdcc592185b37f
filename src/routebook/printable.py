"""Text from the network on one line: nothing in it may move a cursor or begin a line of its own."""


def escaped(text: str) -> str:
    r"""``text`` with all that is not printable as ``\u009b`` and the like, C1 controls included."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def shortened(text: str, longest: int) -> str:
    """``text``, or its beginning and how much more there was."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
