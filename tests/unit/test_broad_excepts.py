"""Whoever catches everything says why, or raises it again."""

import ast
from collections.abc import Iterator
from pathlib import Path

import routebook
import routebook_spark

PACKAGES = [Path(package.__path__[0]) for package in (routebook, routebook_spark)]
BROAD = {"Exception", "BaseException"}


def broad_handlers(path: Path) -> Iterator[ast.ExceptHandler]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(
                kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds
            ):
                yield node


def says_why(handler: ast.ExceptHandler, lines: list[str]) -> bool:
    """In the line itself or in the one below it."""
    if isinstance(last := handler.body[-1], ast.Raise) and last.exc is None:
        return True
    line, below = lines[handler.lineno - 1 : handler.lineno + 1]
    said = line.partition("#")[2].partition("noqa: BLE001")
    return bool(said[2].strip(" -") if said[1] else said[0]) or below.strip().startswith("#")


def test_whoever_catches_everything_says_why() -> None:
    seen = 0
    unsaid = []
    for path in sorted(path for package in PACKAGES for path in package.rglob("*.py")):
        lines = path.read_text().splitlines()
        for handler in broad_handlers(path):
            seen += 1
            if not says_why(handler, lines):
                unsaid.append(f"{path.name}:{handler.lineno}")
    assert seen > 20
    assert unsaid == []
