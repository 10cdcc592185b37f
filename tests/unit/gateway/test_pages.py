"""Pages of a list that changes while it is read, and cursors that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routebook.gateway.api.failures import Failure
from routebook.gateway.api.pages import Key, decode_cursor, encode_cursor, page_of

NAMES = st.text(max_size=5)


def key(name: str) -> Key:
    return (name,)


@given(
    rows=st.lists(NAMES, unique=True),
    others=st.lists(NAMES, unique=True),
    limit=st.integers(1, 4),
)
def test_what_is_there_all_the_time_is_told_once(
    rows: list[str], others: list[str], limit: int
) -> None:
    """Whatever else comes and goes between two pages."""
    told: list[str] = []
    cursor: str | None = None
    for turn in range(len(rows) + len(others) + 1):
        listed = sorted({*rows, *others} if turn % 2 else set(rows))
        page = page_of(listed, key, limit=limit, cursor=cursor)
        assert page.total == len(listed)
        told += page.rows
        cursor = page.next
        if cursor is None:
            break
    assert cursor is None
    assert [name for name in told if name in rows] == sorted(rows)
    assert len(told) == len(set(told))
    assert told == sorted(told)


@given(st.tuples(NAMES, NAMES))
def test_a_cursor_is_read_as_it_was_written(written: tuple[str, str]) -> None:
    assert decode_cursor(encode_cursor(written)) == written


@pytest.mark.parametrize("text", ["{", "bm9uZQ", "W10x", "eyJhIjoxfQ", "é"])
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Failure) as told:
        decode_cursor(text)
    assert told.value.code == "bad_parameter"
