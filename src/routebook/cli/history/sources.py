"""Where ``routebook history`` has its records from, and what is said of it.

The first of these that is given: --journal, -n, NAMESRV_ADDR, the journal of a node of this user.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from routebook.cli.errors import CannotAsk, Negative
from routebook.cli.journal.command import default_folder, journal_at
from routebook.cli.nameservers import Asking
from routebook.cli.output import say, warn
from routebook.history.finding.recent import NotSent, Source, recent, source_of
from routebook.journal.errors import JournalError


def sources(
    folders: Sequence[Path], namesrv_addr: str | None, asking: Asking, downloads: Path
) -> list[Source]:
    """Those to ask; raises CannotAsk when no node answers, Negative where there is no journal."""
    if folders:
        return [_in_folder(folder) for folder in folders]
    if namesrv_addr is not None:
        return list(_downloaded(asking, downloads))
    if os.environ.get("NAMESRV_ADDR"):
        say("NAMESRV_ADDR says which nodes are asked; --journal DIR reads a folder instead.")
        return list(_downloaded(asking, downloads))
    return [_in_folder(default_folder())]


def _in_folder(given: Path) -> Source:
    try:
        folder = journal_at(given)
    except JournalError as error:
        raise Negative(str(error)) from error
    return Source(folder, f"journal {folder}")


def _downloaded(asking: Asking, folder: Path) -> Iterator[Source]:
    """The latest records of the nodes asked, as journals."""
    answers = asking.run(lambda client: client.on_every_node(recent))
    failures = []
    for number, (address, sent) in enumerate(answers.items()):
        try:
            yield source_of(address, sent, folder / str(number))
        except NotSent as error:
            failures.append(str(error))
    if len(failures) == len(answers):
        raise CannotAsk("; ".join(failures))
    for failure in failures:
        warn(f"{failure}")
