"""Whether a newer Routebook was the last to write a journal: then it is not to be touched.

One process writes a segment, so the first line of the newest ones speaks for all of them.
"""

from contextlib import suppress
from pathlib import Path

from routebook.journal.errors import BadRecord, BadSegment
from routebook.journal.folder import ACTIVE, list_folder
from routebook.journal.manifest import read_manifest
from routebook.journal.record import decode
from routebook.journal.segment import chunks_of, lines_of


def refuse_newer(folder: Path) -> None:
    """Raises NewerSchema, and JournalError for a folder that cannot be read.

    What is merely damaged is passed over: others will say so.
    """
    if not folder.exists():
        return
    listing = list_folder(folder)
    names = [span.packed for span in listing.packed[-1:]]
    names += [span.plain for span in listing.plain[-1:]]
    names += [ACTIVE] * listing.active
    for name in names:
        with suppress(BadRecord, BadSegment, FileNotFoundError):
            decode(next(lines_of(chunks_of(folder / name)), b""))
    for span in listing.manifests[-1:]:
        with suppress(BadSegment, FileNotFoundError):
            read_manifest(folder, span)
