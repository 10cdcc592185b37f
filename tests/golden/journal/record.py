"""Makes the recorded journal of this version, once: ``python tests/golden/journal/record.py``.

It has sealed segments, one that was closed by a kill, an active one with a line that is cut, and
one record of each type. ``expected.json`` says what they meant to the version that wrote them.
The lines that docs/journal/events.md shows are from it.
Journals of released versions are never made anew: that they still read is the point.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from routebook.journal.reader import Range, read_lines
from routebook.journal.record import VERSION, place_of
from support.journals import (
    Clock,
    every_event,
    meaning,
    numbered,
    opened,
    write_journal,
    written,
)

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parents[2] / "docs" / "journal" / "events.md"


def main() -> int:
    target = HERE / f"v{VERSION}"
    if target.exists() and sys.argv[1:] != ["--again"]:
        print(f"{target} is there; --again makes it anew, which only an unreleased one may be")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        first, second, third = (Path(folder) / name for name in ("first", "second", "third"))
        write_journal(first, every_event(), rotate_records=8)
        with opened(first, clock=Clock(Clock().wall_ms() + 60_000)) as writer:
            writer.append(numbered(1))
            written(writer)
            shutil.copytree(first, second)  # as a node leaves it that is killed now
        with opened(second, clock=Clock(Clock().wall_ms() + 120_000)) as writer:
            writer.append(numbered(2))
            written(writer)
            shutil.copytree(second, third)
        with (third / "active.jsonl").open("ab") as file:
            file.write(b'{"v":1,"seq":')
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(third, target / "journal")
    expected = meaning(target / "journal")
    lines = ",\n".join(json.dumps(row) for row in expected)
    (target / "expected.json").write_text(f"[\n{lines}\n]\n")
    print(f"{len(expected)} records in {target}")
    DOCUMENT.write_text(with_lines(DOCUMENT.read_text(), lines_by_type(target / "journal")))
    return 0


def lines_by_type(folder: Path) -> dict[str, str]:
    """The last line of each type."""
    return {
        place_of(line.text).type: line.text.decode().rstrip("\n")
        for line in read_lines(folder, Range())
    }


def with_lines(document: str, lines: dict[str, str]) -> str:
    """The document with a line of its type in each section that is called after one."""
    for name, line in lines.items():
        head, title, rest = document.partition(f"## {name}\n")
        prose, fence, rest = rest.partition("```json\n")
        document = f"{head}{title}{prose}{fence}{line}\n```{rest.partition('```')[2]}"
    return document


if __name__ == "__main__":
    sys.exit(main())
