"""Names that anybody may register: they reach the terminal as text and as nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from routebook.plain import json_text, one_line, plain, word
from support.brokers import Broker
from support.fleet import Fleet

ESCAPE = "\x1b[2J\x1b]0;title\x07"
HOSTILE = {
    "escape": f"a{ESCAPE}",
    "c1": "a\x9b31m",
    "delete": "a\x7f",
    "carriage-return": "orders\roverwritten",
    "line": "orders\npayments",
    "bidi": "a\u202egnp.exe",
    "markup": "[bold red]a[/]",
    "emoji-code": ":warning:",
}
UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, 1) as fleet:
        yield fleet


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_name_is_text_wherever_it_is_shown(fleet: Fleet, name: str) -> None:
    fleet.register(
        Broker(name, addr=f"10.0.0.1{name}:10911", cluster=f"c{name}"), [f"t{name}", "orders"]
    )

    for words in (
        ["topics"],
        ["topics", "--routes"],
        ["topics", "--cluster", "no"],
        ["route", f"t{name}"],
        ["route", f"t{name}", "--all-nodes"],
        ["route", f"no{name}"],
        ["brokers"],
        ["brokers", "--topics"],
        ["brokers", "no"],
        ["clusters"],
        ["kv", "put", "ns", name, name],
        ["kv", "list", "ns"],
        ["kv", "get", "ns", f"no{name}"],
        ["kv", "delete", "ns", name],
        ["topics", "add", f"t{name}", "-b", f"no{name}"],
        ["topics", "delete", f"t{name}"],
        ["drain", name],
        ["drain", f"no{name}"],
    ):
        ran = fleet.run(*words)
        assert not UNPRINTABLE.search(ran.stdout + ran.stderr), (words, ran)
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
def test_json_has_the_exact_name_and_no_control_code(fleet: Fleet, name: str) -> None:
    fleet.register(Broker(), [name, "another"])

    ran = fleet.run("topics", "--json")

    assert name in ran.document["topics"]
    assert not UNPRINTABLE.search(ran.stdout)


def test_one_topic_is_one_line(fleet: Fleet) -> None:
    fleet.register(Broker(), ["orders\npayments", "another"])

    assert fleet.run("topics").lines == ["another", "orders\N{REPLACEMENT CHARACTER}payments"]


def test_markup_is_shown_as_it_is(fleet: Fleet) -> None:
    fleet.register(Broker(), ["[bold red]a[/]", "another"])

    assert "[bold red]a[/]" in fleet.run("topics", "--routes").stdout


def test_a_value_is_exact_where_a_program_reads_it(fleet: Fleet) -> None:
    value = "two\nlines\tand \x1b[31mred"
    fleet.run("kv", "put", "ns", "key", value)

    assert fleet.run("kv", "get", "ns", "key").stdout == value + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grün 東京 😀", "grün 東京 😀"),
        ("a\x1b[31m", "a\N{REPLACEMENT CHARACTER}[31m"),
        ("a\nb", "a\nb"),
        (None, "–"),
        (7, "7"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_plain_text(text: object, expected: str) -> None:
    assert plain(text) == expected


def test_a_word_and_a_line_have_no_line_breaks() -> None:
    assert word("a\nb") == "a\N{REPLACEMENT CHARACTER}b"
    assert one_line(" a\n\n b\tc ") == "a b c"


@pytest.mark.parametrize("text", ["grün", "\x7f", "\x9b", "\u202e", "\U000e0001", '"\\', "\ud800"])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_text_says_the_same_as_json(text: str, indent: int | None) -> None:
    value = {text: [text, {"n": 1}]}

    written = json_text(value, indent=indent)

    assert json.loads(written) == value
    assert all(line.isprintable() for line in written.split("\n"))
