"""What ``routebook`` gives its users: all there, documented, and loaded only when it is used."""

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from scripts.api import FOLDER, PAGES, Page, index, text_of

import routebook

EXAMPLES = FOLDER.parents[1] / "examples"
HOMES = ("routebook.app", "routebook.agent", "routebook.client", "routebook.settings")
PUBLIC = ("routebook", *HOMES, "routebook.testing")


def test_the_package_gives_all_that_its_public_rooms_give() -> None:
    given = [name for home in HOMES for name in importlib.import_module(home).__all__]
    assert sorted(routebook.__all__) == sorted([*given, "__version__"])
    assert dir(routebook) == routebook.__all__


@pytest.mark.parametrize("package", PUBLIC)
def test_every_name_that_is_given_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_a_name_that_nobody_has_is_refused_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="module 'routebook' has no attribute 'Broker'"):
        _ = routebook.Broker  # type: ignore[attr-defined]


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    code = "import sys, routebook; print(*sorted(n for n in sys.modules if 'routebook' in n))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["routebook", "routebook.lazy", "routebook.version"]


def members(name: str, kind: type) -> Iterator[tuple[str, object]]:
    """The class, and the methods and properties a user sees of it."""
    yield name, kind
    for member in dir(kind):
        found = inspect.getattr_static(kind, member)
        called = isinstance(found, property | classmethod) or inspect.isfunction(found)
        if called and not member.startswith("_"):
            yield f"{name}.{member}", getattr(kind, member)


@pytest.mark.parametrize("package", ["routebook", "routebook.testing"])
def test_every_public_name_says_what_it_is(package: str) -> None:
    module = importlib.import_module(package)
    given = [(name, getattr(module, name)) for name in module.__all__ if name != "__version__"]
    named = [
        each
        for name, value in given
        for each in (members(name, value) if isinstance(value, type) else [(name, value)])
    ]
    assert len(named) > len(given)
    # dataclasses and enumerations without a docstring have one that Python made
    made = ("An enumeration.", *(f"{name}(" for name in module.__all__))
    silent = [name for name, value in named if not _doc(value) or _doc(value).startswith(made)]
    assert silent == []


def _doc(value: object) -> str:
    return value.__doc__ or "" if isinstance(value, type) else inspect.getdoc(value) or ""


# -- the reference

WITHOUT_SPARK = [page for page in PAGES if page.package != "routebook_spark"]


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=lambda page: page.name)
def test_the_reference_says_what_the_code_says(page: Page) -> None:
    assert (FOLDER / f"{page.name}.md").read_text() == text_of(page), "run make api"


def test_the_reference_has_a_page_for_every_public_name() -> None:
    assert (FOLDER / "README.md").read_text() == index(), "run make api"
    for package in ("routebook", "routebook.testing"):
        names = [n for page in PAGES if page.package == package for n in page.names.split()]
        assert sorted([*names, "__version__"]) == sorted(
            {*importlib.import_module(package).__all__, "__version__"}
        )


def test_every_example_of_the_reference_is_run_by_the_test_it_names() -> None:
    texts = [path.read_text() for path in FOLDER.glob("*.md")]
    fences = [f for text in texts for f in re.findall(r"```(.*?)\n(.*?)```", text, re.DOTALL)]
    assert len(fences) == sum(page.example is not None for page in PAGES)
    for begin, code in fences:
        [name] = [path.name for path in EXAMPLES.glob("*.py") if path.read_text() == code]
        assert f'"{name}"' in (EXAMPLES.parent / begin.removeprefix("python by ")).read_text()
