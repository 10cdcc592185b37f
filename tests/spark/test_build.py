"""Whatever is taken and built in whatever order, the tables are those that all at once gives.

Segments come in pieces: late, with holes that are filled or not, by runs that are killed before
they have noted what they took. A build between is killed half-way and done again.
"""

from collections.abc import Callable, Sequence

import pytest

from routebook.journal.record import Record
from routebook_spark.tables import (
    BROKER_SESSIONS,
    CLOCK_SKEW,
    GOLD,
    NODE_COVERAGE,
    PROGRESS,
    ROUTE_VERSIONS,
    SUSPECT_TIMES,
    Table,
)
from support.late_fleets import BANK, SHOP, bank, shop
from support.made_tables import MADE, AtOnce, InSteps, stored
from support.real_and_generated import GENERATED, REAL
from support.silver_lakes import Part


@pytest.mark.parametrize("table", MADE, ids=lambda table: table.name)
def test_a_table_built_in_steps_is_the_one_built_at_once(
    in_steps: InSteps, at_once: AtOnce, table: Table
) -> None:
    """At once by a cluster with the settings of the product, in steps by one machine."""
    rows = stored(in_steps.tables, table)
    assert rows
    assert rows == stored(at_once.tables, table)


def test_what_is_built_at_once_replaces_what_was_there(in_steps: InSteps, at_once: AtOnce) -> None:
    """Else tables that were there before it might be what is compared above."""
    for table in MADE:
        assert stored(in_steps.early, table) != stored(at_once.tables, table), table.name


def test_without_news_nothing_is_built(in_steps: InSteps) -> None:
    assert in_steps.last.stages == ()


def test_the_second_build_goes_on_from_the_first(in_steps: InSteps) -> None:
    """Else the tests above would prove less than they seem to."""
    first, second = in_steps.first, in_steps.second
    assert (first.from_day, second.from_day is None) == (None, False)
    assert len(first.stages) == len(second.stages) == len(MADE)


def test_the_build_between_was_killed_with_some_tables_made_and_others_not(
    in_steps: InSteps,
) -> None:
    assert BROKER_SESSIONS in in_steps.half
    assert not in_steps.half & {CLOCK_SKEW, *GOLD, PROGRESS}


@pytest.mark.parametrize("taken", [shop, bank])
def test_the_second_batch_fills_holes(taken: Callable[[], list[list[Part]]]) -> None:
    first, second = taken()
    reached = {part[0].node: part[-1].seq for part in sorted(first, key=_first_seq)}
    assert sum(part[0].seq < reached[part[0].node] for part in second) >= 3


def _first_seq(part: Sequence[Record]) -> int:
    return part[0].seq


def test_all_fleets_are_told_of_with_what_happened_to_them(in_steps: InSteps) -> None:
    for table in (NODE_COVERAGE, BROKER_SESSIONS, ROUTE_VERSIONS, CLOCK_SKEW):
        fleets = {row["fleet"] for row in stored(in_steps.tables, table)}
        assert fleets == {GENERATED, REAL, SHOP, BANK}, table.name
    late = [SHOP, BANK]
    ends = {row["ends"] for row in stored(in_steps.tables, NODE_COVERAGE, fleets=late)}
    assert ends >= {"silent", "clock", "records_missing"}
    doubts = stored(in_steps.tables, SUSPECT_TIMES, fleets=late)
    assert any(row["kind"] == "held" for row in doubts)
