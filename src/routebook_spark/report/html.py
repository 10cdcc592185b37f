"""HTML that is safe by construction: text becomes HTML only through here, and is escaped.

    element("td", name, class_="name")      # <td class="name">&lt;b&gt;</td>

Names of topics and brokers come from the network. What cannot be printed, or would change the
direction of what follows, is shown as its code.
"""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "hr", "meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Iterable["str | Html"]


def element(name: str, /, *children: Child, **attributes: str | None) -> Html:
    """``class_`` and ``aria_label`` are ``class`` and ``aria-label``; None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Html(f"<{name}{given}>")
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Html:
    return Html("".join(_one(part) for child in children for part in _parts(child)))


def _parts(child: Child) -> Iterable[str]:
    return (child,) if isinstance(child, str) else child


def _one(child: str) -> str:
    return child if isinstance(child, Html) else escape(printable(child))


def printable(text: str) -> str:
    r"""``\u202e`` for a character that has no look of its own."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# -- tables


SHORT = 24  # characters that stay in one line


class Column(str):
    """The head of a column of numbers, to be set flush right."""

    __slots__ = ()


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """Heads that are a ``Column`` are of figures; the first of a row is its head.

    Each cell knows its head, so that a narrow window can show a row as a list. Figures are told by
    ``figures.told``, so that what they are figures of is known: text is refused.
    """
    heads = list(heads)
    kinds = ["number" if isinstance(head, Column) else None for head in heads]
    head = element(
        "tr", [element("th", h, scope="col", class_=k) for h, k in zip(heads, kinds, strict=True)]
    )
    body = []
    for row in rows:
        cells = list(zip(row, kinds, heads, strict=True))
        rest = [_cell(cell, kind, label) for cell, kind, label in cells[1:]]
        body.append(element("tr", element("th", cells[0][0], scope="row"), rest))
    return element(
        "table", element("caption", caption), element("thead", head), element("tbody", body)
    )


def _cell(cell: str, kind: str | None, label: str) -> Html:
    if kind == "number" and not isinstance(cell, Html):
        raise TypeError(f"{label}: {cell!r} does not say what it is a figure of")
    whole = element("span", cell)  # one thing beside its head, whatever it is made of
    return element("td", whole, class_=kind or _short(cell), data_label=label)


def _short(cell: str) -> str | None:
    return "short" if len(cell) <= SHORT else None
