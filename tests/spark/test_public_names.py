"""What ``routebook_spark`` gives its users, and the page of the reference about it."""

import inspect

from scripts.api import FOLDER, PAGES, text_of

import routebook_spark

[PAGE] = [page for page in PAGES if page.package == "routebook_spark"]


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert dir(routebook_spark) == routebook_spark.__all__ == sorted(PAGE.names.split())
    for name in routebook_spark.__all__:
        value = getattr(routebook_spark, name)
        members = vars(value).items() if isinstance(value, type) else ()
        calls = {m: v for m, v in members if inspect.isfunction(v) and not m.startswith("_")}
        assert [n for n, v in {name: value, **calls}.items() if not v.__doc__] == []


def test_the_reference_says_what_the_code_says() -> None:
    assert (FOLDER / "spark.md").read_text() == text_of(PAGE), "run make api"
