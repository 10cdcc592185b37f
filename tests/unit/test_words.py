"""Small pieces of sentences."""

import pytest

from routebook import words


@pytest.mark.parametrize(
    ("names", "most", "of", "text"),
    [
        ([], 3, None, ""),
        (["a"], 3, None, "a"),
        (["a", "b"], 3, None, "a and b"),
        (["a", "b", "c"], 3, None, "a, b and c"),
        (["a", "b", "c", "d", "e"], 3, None, "a, b, c and 2 more"),
        (["a", "b", "c"], 3, 10, "a, b, c and 7 more"),
        (["a"], 1, 1, "a"),
    ],
)
def test_names_are_listed(names: list[str], most: int, of: int | None, text: str) -> None:
    assert words.listed(names, most=most, of=of) == text


def test_lines_cut_short_say_how_many_there_are_besides() -> None:
    assert words.first_lines(["a", "b", "c"], most=2) == ["a", "b", "and 1 more"]
    assert words.first_lines(["a", "b"], most=2) == ["a", "b"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3482, "3.4 KiB"),
        (10_200, "10 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (12 * 1024 * 1024, "12 MiB"),
        (5000 * 1024 * 1024, "4.9 GiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_sizes_have_a_unit_that_leaves_a_number_to_be_read(count: int, text: str) -> None:
    assert words.size(count) == text


def test_numbers_have_their_nouns() -> None:
    assert [words.counted(n, "topic") for n in (0, 1, 2)] == ["0 topics", "1 topic", "2 topics"]
