"""What the documents show works, and what they name exists."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])


def blocks(language: str) -> list[tuple[str, str]]:
    pattern = re.compile(rf"```{language}\n(.*?)```", re.DOTALL)
    return [
        (path.relative_to(ROOT).as_posix(), block)
        for path in DOCUMENTS
        for block in pattern.findall(path.read_text())
    ]


def examples() -> list[tuple[str, str]]:
    """Those of the pipeline take Spark, and are tested with it."""
    return [each for each in blocks("python") if not each[0].startswith("docs/pipeline")]


@pytest.mark.parametrize(("document", "code"), examples())
def test_python_examples_run(document: str, code: str, tmp_path: Path) -> None:
    code = code.replace("/tmp/node", str(tmp_path))
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"127\.0\.0\.1:\d+", run.stdout)


def serve_commands() -> list[str]:
    lines = (
        line.strip().removeprefix("$ ")
        for _, block in blocks("(?:console)?")
        for line in block.splitlines()
    )
    return sorted(
        {
            re.sub(r" {2,}#.*| *# .*", "", line)
            for line in lines
            if "routebook serve" in line and "$" not in line
        }
    )


@pytest.mark.parametrize("command", serve_commands())
def test_serve_commands_are_accepted(command: str, tmp_path: Path) -> None:
    (tmp_path / "namesrv.properties").write_text("listenPort=9876\n")
    arguments = command.split()[1:]
    arguments = [
        "namesrv.properties" if "/" in a and a.endswith(".properties") else a for a in arguments
    ]
    run = subprocess.run(
        [sys.executable, "-m", "routebook", *arguments, "-p"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "listenPort=" in run.stdout


def test_make_targets_named_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"`make ([a-z]+)|^make ([a-z]+)", path.read_text(), re.MULTILINE)
        for target in target
        if target
    }
    assert named
    assert named <= targets


def test_links_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in link:
                assert (path.parent / link).exists(), f"{path.name}: {link}"


@pytest.mark.parametrize("name", ["compatibility.md", "limits.md"])
def test_tests_named_in_a_document_exist(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    paths = list(ROOT.glob("tests/**/test_*.py"))
    known = {name for path in paths for name in re.findall(r"def (test_\w+)", path.read_text())}
    for file in re.findall(r"`(tests/[\w/.]+)", text):
        assert (ROOT / file).exists(), file
    files = set(re.findall(r"\b(test_\w+\.py)::", text))
    assert files <= {path.name for path in paths}
    named = set(re.findall(r"\b(test_\w+)(?!\w*\.py)`", text))
    assert len(named) > 20
    assert named <= known


def limit_rows() -> list[list[str]]:
    text = (ROOT / "docs" / "limits.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == 4 and row[0] != "limit"]


def test_every_limit_says_what_it_costs_and_what_shows_it() -> None:
    rows = limit_rows()
    assert len(rows) > 80
    for row in rows:
        assert all(cell.strip() for cell in row), row
        assert "`" in row[3], f"nothing shows {row[0]}"


def test_every_setting_named_among_the_limits_is_one() -> None:
    from routebook.settings import KEYS

    text = (ROOT / "docs" / "limits.md").read_text()
    named = set(re.findall(r"`([a-z]+[A-Z]\w*)`", text))
    assert len(named) > 10
    assert named <= set(KEYS)


ROOMS = ("wire", "handlers", "state", "server", "journal", "cli.log_rate")
NO_BOUNDS_ON_PEERS = ("wire.broker_requests",)  # what is written by us


def test_every_constant_that_bounds_a_peer_is_among_the_limits_with_its_value() -> None:
    src = ROOT / "src" / "routebook"
    bounds: dict[str, int] = {}
    for path in src.rglob("*.py"):
        module = ".".join(path.relative_to(src).with_suffix("").parts)
        if module.startswith(ROOMS) and module not in NO_BOUNDS_ON_PEERS:
            names = re.findall(r"^(MAX_\w+)(?:: \w+)? = ", path.read_text(), re.MULTILINE)
            bounds |= {f"{module}.{name}": _value(module, name) for name in names}
    told = {
        name: row for row in limit_rows() for name in re.findall(r"`(\w+\.\w+\.[A-Z_]+)`", row[0])
    }
    assert set(bounds) - set(told) == set(), "limits.md has no row for these"
    for name, row in told.items():
        value = _value(*name.rsplit(".", 1))
        sizes = {1: f"{value:,}", 1024: f"{value // 1024:,} KiB", 1024**2: f"{value >> 20:,} MiB"}
        assert any(
            value % unit == 0 and re.search(rf"(?<![\d,]){size}\b", row[1])
            for unit, size in sizes.items()
        ), f"{name} is {value}, and the row says {row[1]}"


def _value(module: str, name: str) -> int:
    value: int = getattr(importlib.import_module(f"routebook.{module}"), name)
    return value


def test_every_setting_of_the_operations_table_is_one() -> None:
    from routebook.settings import KEYS

    text = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(
        r"^\| ([\w., ()`-]+?) \|", text.split("### Settings changed")[0], re.MULTILINE
    )
    names = {
        name.strip()
        for row in rows
        for name in re.sub(r"\(.*?\)", "", row).split(",")
        if name.strip() not in ("key", "---")
    }
    assert len(names) > 20
    assert names - {"---"} <= set(KEYS)
