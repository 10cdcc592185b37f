"""The process that is killed: opens the journal and appends numbered events until it dies.

    python victim.py FOLDER SEED

It says ``open``, the next number and whether it found an unclean stop; then, again and again, the
last number it was given and the last one it was told is synced.
"""

import random
import sys
import time
from pathlib import Path

from routebook.events import Cause, KvChanged
from routebook.journal.writer import JournalSettings, JournalWriter


def main(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = JournalSettings(
        folder,
        sync=chance.choice(("none", "interval", "batch")),
        sync_interval_ms=20,
        rotate_records=chance.choice((200, 2_000, 20_000)),
    )
    writer = JournalWriter(
        settings,
        "victim",
        wall_ms=lambda: time.time_ns() // 1_000_000,
        mono_ms=lambda: time.monotonic_ns() // 1_000_000,
    )
    found = writer.open()
    print("open", found.next_seq, int(found.unclean), flush=True)
    while True:
        for _ in range(chance.randint(1, 300)):
            append(writer, chance)
        status = writer.status()
        print(status.last_seq, status.synced_seq, flush=True)
        time.sleep(chance.random() * 0.01)


def append(writer: JournalWriter, chance: random.Random) -> None:
    number = writer.status().last_seq + 1
    writer.append(
        KvChanged(
            revision=number,
            cause=Cause.ADMIN,
            peer="",
            namespace="ns",
            key=f"key-{number}",
            before=None,
            after="x" * chance.choice((1, 50, 3000)),
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
