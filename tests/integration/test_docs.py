"""What the documents show works, and what they name exists."""

import importlib
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.documents import PAGES, ROOT, all_blocks, anchors_of


def examples() -> list[tuple[str, str]]:
    """Those that another test runs name it."""
    return [(b.page, b.text) for b in all_blocks() if b.language == "python" and not b.shown_by]


@pytest.mark.parametrize(("document", "code"), examples())
def test_python_examples_run(document: str, code: str, tmp_path: Path) -> None:
    code = code.replace("/tmp/node", str(tmp_path))
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"127\.0\.0\.1:\d+", run.stdout)


def test_examples_import_what_is_public_from_where_it_is_public() -> None:
    import routebook
    import routebook_spark

    public = {*routebook.__all__, *routebook_spark.__all__}
    code = [block.text for block in all_blocks() if block.language == "python"]
    code += [path.read_text() for path in ROOT.glob("examples/*.py")]
    found = [
        (module, name)
        for text in code
        for module, names in re.findall(r"^from (routebook\S+) import (.+)$", text, re.MULTILINE)
        for name in re.findall(r"\w+", names)
    ]
    assert len(found) > 10
    inner = [each for each in found if each[0] != "routebook_spark"]
    assert [each for each in inner if each[1] in public] == []


def serve_commands() -> list[str]:
    commands = [" ".join(words) for block in all_blocks() for words in block.commands]
    return sorted({command for command in commands if "routebook serve" in command})


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
        for path in PAGES
        for target in re.findall(r"`make ([a-z]+)|^make ([a-z]+)", path.read_text(), re.MULTILINE)
        for target in target
        if target
    }
    assert named
    assert named <= targets


def test_links_lead_somewhere() -> None:
    for path in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", path.read_text()):
            target = path.parent / link if link else path
            if "://" not in link:
                assert target.exists(), f"{path.name}: {link}"
            if "://" not in link and anchor:
                assert anchor in anchors_of(target), f"{path.name}: {link}#{anchor}"


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text()
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages -= {page for page in pages if page.startswith("adr/")} | {"README.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


def test_pictures_are_small_and_ask_nobody_for_anything() -> None:
    pictures = list((ROOT / "docs" / "images").iterdir())
    shown = " ".join(path.read_text() for path in PAGES)
    for picture in pictures:
        assert f"images/{picture.name})" in shown, f"{picture.name} is shown nowhere"
    for picture in pictures:
        assert picture.stat().st_size < 300_000, picture.name
        if picture.suffix == ".svg":
            assert not re.search(r"(src|href)=|url\(.?http", picture.read_text()), picture.name


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


def test_every_difference_has_a_test() -> None:
    text = (ROOT / "docs" / "compatibility.md").read_text()
    sections = re.findall(r"^### ([\w-]+)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(sections) > 30
    assert [name for name, section in sections if not re.search(r"^Tests?: `", section, re.M)] == []


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


ROOMS = ("wire", "handlers", "state", "server", "journal", "watch", "logs.rates")
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


def test_every_file_of_the_source_that_a_document_names_is_there() -> None:
    named = {
        (page.name, path)
        for page in PAGES
        for path in re.findall(
            r"\b((?:routebook|routebook_spark)/[\w/]*(?:\.py|/))", page.read_text()
        )
    }
    assert len(named) > 40
    assert [each for each in named if not (ROOT / "src" / each[1]).exists()] == []


def test_every_module_that_a_document_names_is_there() -> None:
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(
            r"`((?:routebook|routebook_spark)(?:\.[a-z]\w*)+)`", page.read_text()
        )
    }
    assert len(named) > 5
    assert [each for each in named if not _is_there(each[1])] == []


def _is_there(name: str) -> bool:
    """A module, or something in one."""
    for module, _, rest in ((name, "", ""), name.rpartition(".")):
        with suppress(ModuleNotFoundError):
            return not rest or hasattr(importlib.import_module(module), rest)
    return False


def test_what_a_document_finds_in_a_file_of_the_source_is_there() -> None:
    named = [
        found
        for page in PAGES
        for found in re.findall(r"`(\w+)` in `(routebook/[\w/]+\.py)`", page.read_text())
    ]
    assert len(named) > 4
    for name, path in named:
        assert re.search(rf"^class {name}\b", (ROOT / "src" / path).read_text(), re.M), name


def test_every_request_code_is_told_of_with_the_function_that_answers_it() -> None:
    from routebook.handlers.dispatch import HANDLERS
    from routebook.wire.codes import RequestCode

    text = (ROOT / "docs" / "java-nameserver.md").read_text()
    told = re.findall(r"^\| (\d+) \| (\w+) \| .* \| `([\w/]+)\.py` \| `(\w+)` \|$", text, re.M)
    assert told == [
        (str(int(code)), code.name, handler.__module__.replace(".", "/"), handler.__name__)
        for code in RequestCode
        if (handler := HANDLERS.get(code)) is not None
    ]
