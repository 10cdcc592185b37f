"""Every table has its section in docs/pipeline, with all of its columns."""

import re
from pathlib import Path

import pytest

from routebook_spark.tables import BRONZE, GOLD, SILVER, Table

FOLDER = Path(__file__).parents[2] / "docs" / "pipeline"
PAGES = "".join((FOLDER / f"{layer}.md").read_text() for layer in ("bronze", "silver", "gold"))


def section(table: Table) -> str:
    found = re.search(rf"^## {table.name}\n(.*?)(?=^#{{1,2}} |\Z)", PAGES, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{table.name} has no section"
    return found[1]


@pytest.mark.parametrize("table", [*BRONZE, *SILVER, *GOLD], ids=lambda table: table.name)
def test_a_table_is_documented_with_all_its_columns_and_a_row(table: Table) -> None:
    text = section(table)
    assert "ne row is" in text
    assert [name for name in table.schema.names if f"`{name}`" not in text] == []
    assert "```" in text
