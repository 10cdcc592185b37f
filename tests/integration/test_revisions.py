"""Revisions after a kill: none that anybody was told comes again."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from routebook.events import Cause, JournalRecovered, KvChanged
from routebook.journal.folder import ACTIVE
from routebook.journal.reader import read
from routebook.journal.writer import LEAP, REVISIONS_A_MS, JournalSettings, JournalWriter, Recovered
from support.memories import health
from support.nodes import NodeProcess

T0_MS = 1_700_000_000_000


def writer_at(folder: Path, wall_ms: int) -> JournalWriter:
    return JournalWriter(
        JournalSettings(folder), "n", wall_ms=lambda: wall_ms, mono_ms=lambda: wall_ms
    )


def killed(folder: Path, live: Callable[[JournalWriter], None], *, wall_ms: int = T0_MS) -> None:
    """A process opens the journal, does something with it, and is gone."""
    child = os.fork()
    if not child:
        writer = writer_at(folder, wall_ms)
        writer.open()
        live(writer)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def written(writer: JournalWriter, *revisions: int) -> None:
    for revision in revisions:
        note = {"revision": revision, "cause": Cause.ADMIN, "peer": ""}
        writer.append(KvChanged(**note, namespace="n", key="k", before=None, after="v"))  # type: ignore[arg-type]
    while writer.status().written_seq < writer.status().last_seq:
        time.sleep(0.001)


def found_in(folder: Path, *, wall_ms: int = T0_MS) -> Recovered:
    writer = writer_at(folder, wall_ms)
    found = writer.open()
    writer.close()
    return found


def test_after_an_orderly_stop_revisions_go_on(tmp_path: Path) -> None:
    writer = writer_at(tmp_path, T0_MS)
    writer.open()
    written(writer, 1, 2, 3)
    writer.close()
    assert found_in(tmp_path).leap == 0


def test_after_a_kill_revisions_leap_and_the_journal_says_so(tmp_path: Path) -> None:
    killed(tmp_path, lambda writer: written(writer, 1, 2, 3))
    found = found_in(tmp_path)
    assert found.revision == 3 + found.leap
    assert found.leap >= LEAP
    [told] = [r.event for r in read(tmp_path) if isinstance(r.event, JournalRecovered)]
    assert told.revision == found.revision


def test_each_of_many_kills_leaps_further_whether_or_not_a_word_of_the_last_life_is_left(
    tmp_path: Path,
) -> None:
    killed(tmp_path, lambda writer: written(writer, 1, 2, 3))
    lowest = 3
    for life in range(6):
        revision = lowest
        killed(tmp_path, written)
        if life % 2:  # the disk never had it
            (tmp_path / ACTIVE).unlink(missing_ok=True)
        found = found_after_kill(tmp_path)
        assert found > revision + LEAP // 2, life
        lowest = found


def found_after_kill(folder: Path) -> int:
    """What the next life begins with, which is killed as well."""
    pipe_in, pipe_out = os.pipe()
    child = os.fork()
    if not child:
        os.write(pipe_out, str(writer_at(folder, T0_MS).open().revision).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(pipe_out)
    with os.fdopen(pipe_in) as said:
        return int(said.read())


def test_records_that_were_lost_for_hours_are_leapt_over_as_well(tmp_path: Path) -> None:
    killed(tmp_path, lambda writer: written(writer, 1, 2, 3))
    hour_ms = 3_600_000
    assert found_in(tmp_path, wall_ms=T0_MS + hour_ms).leap > hour_ms * REVISIONS_A_MS


def test_a_clock_that_was_set_back_changes_nothing(tmp_path: Path) -> None:
    killed(tmp_path, lambda writer: written(writer, 1, 2, 3))
    assert found_in(tmp_path, wall_ms=T0_MS - 3_600_000).leap >= LEAP


def test_a_killed_node_tells_higher_revisions_than_before(tmp_path: Path) -> None:
    told = 0
    for _ in range(3):
        with NodeProcess(tmp_path) as node, node.connect() as peer:
            revision = health(peer)["revision"]
            assert not told or revision > told
            told = revision
            node.kill()
