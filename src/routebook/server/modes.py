"""Who may read what a node writes: said at the start where it is not as the settings have it."""

import logging
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from routebook.journal.folder import PRIVATE_FILE
from routebook.journal.modes import Readers, closed_to

logger = logging.getLogger(__name__)

_OTHERS = 0o077


def warn_of_modes(data_dir: Path, journal: Path | None, kv_path: Path, readers: Readers) -> None:
    """``journal`` is None where none is written."""
    modes = {kv_path: PRIVATE_FILE}
    if journal is not None:
        modes |= {data_dir: readers.way_mode, journal: readers.folder_mode}
        for way in closed_to(readers, journal):
            logger.warning(
                "journalReadableBy=%s, but %s lets nobody else through; chmod +x it", readers, way
            )
    if found := _open_to_others(modes):
        logger.warning(
            "others may read what applications put here: %s; to keep it to the node, chmod 700"
            " folders and chmod 600 files",
            ", ".join(found),
        )


def _open_to_others(modes: Mapping[Path, int]) -> list[str]:
    """Those paths where others than their owner may do more than they should, and their modes."""
    found: list[str] = []
    for path, wanted in modes.items():
        with suppress(OSError):
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & _OTHERS & ~wanted:
                found.append(f"{path} ({mode:o})")
    return found
