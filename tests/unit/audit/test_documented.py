"""The document of the doctor names what the doctor says."""

import ast
import re
from pathlib import Path

from routebook.audit.compare import Kind
from routebook.audit.doctor import NAMES

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "doctor.md").read_text()


def names_of_checks() -> set[str]:
    """Texts of the checks that look like the name of a finding."""
    return {
        node.value
        for path in (ROOT / "src" / "routebook" / "audit" / "checks").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and (re.fullmatch(r"[a-z]+(-[a-z]+)+", node.value) or node.value == "unreachable")
    }


def test_every_finding_is_explained_and_no_other() -> None:
    explained = re.findall(r"^#### (\S+)$", DOCUMENT, re.MULTILINE)
    assert len(explained) == len(set(explained)) > 20
    assert set(explained) == names_of_checks()


def test_every_finding_can_be_ignored_by_its_name() -> None:
    assert list(NAMES) == sorted(names_of_checks())


def test_every_kind_of_difference_is_explained() -> None:
    section = DOCUMENT.split("## compare")[1].split("## doctor")[0]
    assert re.findall(r"^\| `(\S+)` \|", section, re.MULTILINE) == [kind.value for kind in Kind]
