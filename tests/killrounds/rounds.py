"""Rounds of kill -9 at random moments, and what must hold after each.

The journal reads, before and after the next start. Nothing that was synced is gone, no number was
given twice, every stop is recorded, and ``verify`` finds nothing.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from routebook.events import JournalRecovered, KvChanged
from routebook.journal.folder import ACTIVE
from routebook.journal.reader import read
from routebook.journal.record import place_of
from routebook.journal.verify import verify
from routebook.journal.writer import JournalSettings, JournalWriter

VICTIM = Path(__file__).with_name("victim.py")
LONGEST_S = 0.3
POWER_CUTS = 0.3  # the share of rounds that also take what was not synced


@dataclass(slots=True)
class Toll:
    """What was seen in all rounds."""

    rounds: int = 0
    records: int = 0
    segments: int = 0
    torn: int = 0
    unwritten: int = 0
    power_cuts: int = 0


@dataclass(frozen=True, slots=True)
class Death:
    """What a process had said by the time it was killed."""

    next_seq: int
    unclean: bool
    last_seq: int
    synced_seq: int


def kill_rounds(
    folder: Path, *, rounds: int, seed: int, tell: Callable[[Toll], None] = lambda toll: None
) -> Toll:
    """Raises AssertionError with the round and the seed when something does not hold."""
    chance = random.Random(seed)
    toll = Toll()
    kept = 0  # what was certainly on disk after the round before
    given = 0  # the last number that anybody was given
    leaps = 1  # that of the orderly life at the end
    for number in range(1, rounds + 1):
        death = _live_and_die(folder, chance)
        where = f"round {number} of seed {seed}: {death}"
        assert death.unclean == (number > 1), where
        assert death.next_seq > given, where
        given = death.last_seq

        if chance.random() < POWER_CUTS:
            toll.power_cuts += _cut_power(folder, death.synced_seq, chance)
        seen = _check(folder, kept, where)
        assert seen >= death.synced_seq, f"{where}: the journal ends with {seen}"
        toll.rounds = number
        toll.unwritten += given - max(seen, death.next_seq - 1)
        leaps += number > 1 and seen > kept  # who dies before the first write leaves no trace
        kept = seen
        tell(toll)

    writer = JournalWriter(JournalSettings(folder), "victim", wall_ms=lambda: 0, mono_ms=lambda: 0)
    assert writer.open().next_seq > given
    writer.close()
    report = verify(folder)
    assert report.sound, report
    assert report.leaps == leaps, (report, leaps)
    recoveries = [r.event for r in read(folder) if isinstance(r.event, JournalRecovered)]
    toll.torn = sum(event.torn_bytes > 0 for event in recoveries)
    toll.records, toll.segments = report.records, report.segments
    return toll


def _live_and_die(folder: Path, chance: random.Random) -> Death:
    victim = subprocess.Popen(
        [sys.executable, str(VICTIM), str(folder), str(chance.randrange(2**32))],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert victim.stdout is not None
    try:
        _, next_seq, unclean = victim.stdout.readline().split()
        # The moments after the start are when the last life is put in order.
        time.sleep(LONGEST_S * chance.random() ** 2)
    finally:
        victim.kill()
        said = victim.stdout.read().splitlines()
        victim.stdout.close()
        victim.wait()
    whole = [line.split() for line in said if line.count(b" ") == 1][:-1]
    last_seq, synced_seq = max(((int(last), int(synced)) for last, synced in whole), default=(0, 0))
    return Death(int(next_seq), unclean == b"1", max(last_seq, int(next_seq)), synced_seq)


def _cut_power(folder: Path, synced_seq: int, chance: random.Random) -> bool:
    """Take away what a disk may not have had yet: some of the active segment's unsynced end."""
    path = folder / ACTIVE
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return False
    synced = sum(
        len(line) for line in lines if line.endswith(b"\n") and place_of(line).seq <= synced_seq
    )
    size = sum(map(len, lines))
    os.truncate(path, chance.randint(synced, size))
    return True


def _check(folder: Path, kept: int, where: str) -> int:
    """What was left can be read, in order, from the last record kept on; the last number."""
    last = max(kept - 1, 0)
    for record in read(folder, from_seq=kept):
        assert record.seq > last, f"{where}: {record.seq} after {last}"
        assert kept == 0 or last >= kept or record.seq == kept, f"{where}: {kept} is gone"
        last = record.seq
        if isinstance(record.event, KvChanged):
            assert record.event.key == f"key-{record.seq}", where
    return last
