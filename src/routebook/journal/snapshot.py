"""Making snapshots, so that a restart and a look back need not replay all there is.

    python -m routebook.journal.snapshot FOLDER

A node runs that as a process of its own whenever a segment is sealed: serving pays nothing for it.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from routebook.journal.errors import JournalError
from routebook.journal.folder import list_folder, snapshot_name
from routebook.journal.replay import newest, replay
from routebook.journal.snapshot_file import remove_unfinished, write

MAX_SNAPSHOTS = 24


def make_snapshot(
    folder: Path, *, upto: int | None = None, told: Callable[[JournalError], None]
) -> Path | None:
    """A snapshot of all sealed segments, or of those not after record ``upto``.

    Made of the last good one and the segments since. Older ones are thinned, so that what is left
    is spread over the journal. None when there is nothing new. What is damaged is ``told``. Raises
    JournalError when the folder is of no use, OSError when it cannot be written.
    """
    remove_unfinished(folder)
    ends = [span.last_seq for span in list_folder(folder).sealed]
    last_seq = max((end for end in ends if upto is None or end <= upto), default=0)
    start = newest(folder, upto=last_seq, refused=told)
    start_seq = start.view.seq if start else 0
    if start_seq == last_seq:
        return None
    end = replay(folder, start, to_seq=last_seq, damaged=told)
    if end.view.seq != last_seq:
        return None
    path = write(folder, end)
    there = list_folder(folder).snapshots
    damaged = [seq for seq in there if start_seq < seq < last_seq]
    for seq in (*damaged, *superfluous([seq for seq in there if seq not in damaged])):
        (folder / snapshot_name(seq)).unlink(missing_ok=True)
    return path


def superfluous(snapshots: Sequence[int]) -> list[int]:
    """Which to remove of the snapshots at these records, in order, to keep MAX_SNAPSHOTS.

    Always one whose neighbours are closest; never the first or the last two.
    """
    kept, removed = list(snapshots), list[int]()
    while len(kept) > MAX_SNAPSHOTS:
        gaps = [(kept[i + 1] - kept[i - 1], i) for i in range(1, len(kept) - 2)]
        removed.append(kept.pop(min(gaps)[1]))
    return removed


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m routebook.journal.snapshot FOLDER\n")
        return 2

    def told(error: Exception) -> None:
        sys.stderr.write(f"journal: {error}\n")

    try:
        make_snapshot(Path(arguments[0]), told=told)
    except BlockingIOError:
        return 0  # somebody else is at it
    except (JournalError, OSError) as error:
        told(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
