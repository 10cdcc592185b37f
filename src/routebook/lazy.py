"""Names of a package that are imported when they are first used (PEP 562).

A package that gives its users everything under one name must not make those pay for it who want
one thing, nor the programs inside it, of which every import loads the package first.
"""

from collections.abc import Callable, Sequence
from importlib import import_module


def attribute_of(
    package: str, homes: Sequence[str], names: Sequence[str]
) -> Callable[[str], object]:
    """A ``__getattr__`` for ``package``: each of ``names`` is in ``__all__`` of one of ``homes``.

    They are imported in turn until one has the name, so the quickest comes first.
    """

    def find(name: str) -> object:
        if name in names:
            for home in map(import_module, homes):
                if name in home.__all__:
                    return getattr(home, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
