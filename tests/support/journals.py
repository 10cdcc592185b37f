"""Events, records and folders of a journal."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from routebook.events import (
    BrokerConfirmed,
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    ConfigChanged,
    Event,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    KvChanged,
    MappingsChanged,
    MemberFact,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    NoiseCounted,
    PeerNoise,
    QueryCount,
    QueueChange,
    RecordsLost,
    RegistrationCompleted,
    RequestRefused,
    RouteQueries,
    StateRestated,
    StaticMapping,
    Suspect,
    TopicsChanged,
)
from routebook.journal.folder import ACTIVE
from routebook.journal.manifest import manifest_sha256
from routebook.journal.reader import read
from routebook.journal.record import CHAIN_START, Record, encode, hash_of
from routebook.journal.segment import Summary, seal, summary_of
from routebook.journal.verify import verify
from routebook.journal.writer import JournalSettings, JournalStatus, JournalWriter
from support.waiting import wait_for

NODE = "ns-1-0a1b2c3d"
NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z
DAY_MS = 86_400_000

_COMMON: dict[str, Any] = {"revision": 7, "cause": Cause.REGISTER, "peer": "10.0.0.9:51234"}
_BROKER: dict[str, Any] = {
    "cluster": "c1",
    "broker": "broker-a",
    "broker_id": 0,
    "addr": "10.0.0.9:10911",
    "generation": 3,
}
_SHAPE = (8, 8, 6, 0)


def every_event() -> list[Event]:
    """One event of each type, as they might follow each other."""

    def asked(cause: Cause = Cause.REGISTER) -> dict[str, Any]:
        return {**_COMMON, "cause": cause}

    def unasked(cause: Cause) -> dict[str, Any]:
        return {**_COMMON, "cause": cause, "peer": ""}

    mapping = StaticMapping("static", "broker-a", 4, 2, "scope", False, ((0, 1), (2, 3)))
    member = MemberFact(0, "10.0.0.9:10911", "10.0.0.9:10912", 0, 3, 1, (0, 1, 2), ("f:1",))
    return [
        NodeStarted(
            **unasked(Cause.START), version="0.1.0", address="0.0.0.0:9876", brokers=2, topics=40
        ),
        BrokerRegistered(
            **asked(),
            **_BROKER,
            ha_addr="10.0.0.9:10912",
            heartbeat_timeout_ms=120_000,
            acting_master=None,
            zone="z1",
            epoch=5,
            filter_servers=("10.0.0.9:1",),
            addrs_before={},
            addrs_after={0: "10.0.0.9:10911"},
        ),
        TopicsChanged(
            **asked(),
            cluster="c1",
            broker="broker-a",
            changes=(
                QueueChange("orders", None, _SHAPE),
                QueueChange("refunds", None, _SHAPE),
                QueueChange("payments", (4, 4, 6, 0), (4, 4, 4, 0), (4, 4, 6, 0)),
                QueueChange("gone", _SHAPE, None),
            ),
        ),
        MappingsChanged(**asked(), cluster="c1", broker="broker-a", mappings=(mapping,)),
        RegistrationCompleted(**asked(), **_BROKER, topics=3, data_version=(0, NOON_MS, 17)),
        BrokerUpdated(
            **asked(),
            **_BROKER,
            before={"zone": None, "filter_servers": ("10.0.0.9:1",)},
            after={"zone": "z2", "filter_servers": ()},
        ),
        RequestRefused(
            **asked(Cause.REFUSED),
            request="REGISTER_BROKER",
            subject="broker-a",
            reason="the body is not readable",
            answered_success=False,
        ),
        BrokerConflict(
            **asked(Cause.CONFLICT),
            cluster="c1",
            broker="broker-a",
            broker_id=0,
            kept="10.0.0.9:10911",
            other="10.0.0.8:10911",
            reason="both are alive",
        ),
        KvChanged(
            **asked(Cause.ADMIN), namespace="ORDER", key="orders", before=None, after="broker-a:8"
        ),
        ConfigChanged(
            **asked(Cause.ADMIN),
            before={"needWaitForService": "false"},
            after={"needWaitForService": "true"},
        ),
        BrokerConfirmed(**asked(), **_BROKER, after_ms=1_200),
        HeartbeatGaps(
            **unasked(Cause.WINDOW), **_BROKER, window_ms=60_000, gaps_ms=(30_004, 29_998)
        ),
        RouteQueries(
            **unasked(Cause.WINDOW),
            window_ms=60_000,
            topics=(QueryCount("orders", 20, 0, 1), QueryCount("typo", 0, 3, 0)),
            others=4,
        ),
        GuardEngaged(
            **unasked(Cause.GUARD),
            suspects=(Suspect("c1", "broker-a", 0, "10.0.0.9:10911", 121_000),),
            silent=6,
            live=10,
            limit=3,
            window_ms=10_000,
            hold_ms=600_000,
        ),
        GuardReleased(**unasked(Cause.GUARD), reason="deadline", returned=1, left=0, dropped=2),
        BrokerLeft(
            **unasked(Cause.EXPIRED),
            **_BROKER,
            addrs_before={0: "10.0.0.9:10911", 1: "10.0.0.8:10911"},
            addrs_after={1: "10.0.0.8:10911"},
            topics_lost=0,
        ),
        MinBrokerChanged(
            **unasked(Cause.EXPIRED),
            cluster="c1",
            broker="broker-a",
            min_broker_id=1,
            min_broker_addr="10.0.0.8:10911",
            offline_addr="10.0.0.9:10911",
            ha_addr=None,
            recipients=("10.0.0.8:10911",),
        ),
        RecordsLost(**unasked(Cause.JOURNAL), count=5, since_ms=NOON_MS),
        GroupRestated(
            **unasked(Cause.JOURNAL),
            cluster="c1",
            broker="broker-a",
            acting_master=False,
            zone=None,
            members=(member,),
            queues=(QueueChange("orders", None, _SHAPE), QueueChange("refunds", None, _SHAPE)),
            mappings=(mapping,),
        ),
        StateRestated(**unasked(Cause.JOURNAL), groups=1, kv={"ORDER": {"orders": "broker-a:8"}}),
        NodeStalled(
            **unasked(Cause.STALL),
            from_ms=NOON_MS,
            to_ms=NOON_MS + 135_000,
            longest_ms=135_000,
            clock_ms=0,
        ),
        NodeStopped(**unasked(Cause.STOP), brokers=2, topics=40),
        JournalRecovered(**unasked(Cause.JOURNAL), last_seq=16, torn_bytes=90),
        NoiseCounted(
            **unasked(Cause.WINDOW),
            since_ms=NOON_MS,
            count=90_210,
            refused=90_000,
            conflicts=200,
            windows=10,
            peers=(PeerNoise("10.0.0.66", 90_190), PeerNoise("10.0.0.9", 10)),
        ),
    ]


def numbered(number: int) -> KvChanged:
    """A small event that says which one it is."""
    return KvChanged(
        revision=number,
        cause=Cause.ADMIN,
        peer="10.0.0.9:51234",
        namespace="ns",
        key=f"key-{number}",
        before=None,
        after="value",
    )


def request_refused(*, peer: str = "10.0.0.9:51234", reason: str = "no") -> RequestRefused:
    return RequestRefused(
        revision=7,
        cause=Cause.REFUSED,
        peer=peer,
        request="REGISTER_BROKER",
        subject="broker-a",
        reason=reason,
        answered_success=False,
    )


def broker_conflict(*, peer: str = "10.0.0.9:51234") -> BrokerConflict:
    return BrokerConflict(
        revision=7,
        cause=Cause.CONFLICT,
        peer=peer,
        cluster="c1",
        broker="broker-a",
        broker_id=0,
        kept="10.0.0.9:10911",
        other="10.0.0.8:10911",
        reason="both are alive",
    )


def heartbeat_gaps() -> HeartbeatGaps:
    return HeartbeatGaps(
        revision=7, cause=Cause.WINDOW, peer="", **_BROKER, window_ms=60_000, gaps_ms=(30_004,)
    )


def topics_changed(
    *topics: str, broker: str = "broker-a", peer: str = "10.0.0.9:51234"
) -> TopicsChanged:
    return TopicsChanged(
        **{**_COMMON, "peer": peer},
        cluster="c1",
        broker=broker,
        changes=tuple(QueueChange(topic, None, _SHAPE) for topic in topics),
    )


def recovered(last_seq: int) -> JournalRecovered:
    return JournalRecovered(
        revision=0, cause=Cause.JOURNAL, peer="", last_seq=last_seq, torn_bytes=0
    )


def record(seq: int, event: Event | None = None, *, wall_ms: int | None = None) -> Record:
    """Record ``seq``, a second after the one before it."""
    wall_ms = NOON_MS + seq * 1000 if wall_ms is None else wall_ms
    return Record(seq, wall_ms, seq * 1000, NODE, event or numbered(seq))


def chained(records: Iterable[Record], previous: bytes = CHAIN_START) -> list[bytes]:
    """The lines of ``records``."""
    lines: list[bytes] = []
    for item in records:
        lines.append(encode(item, previous))
        previous = hash_of(lines[-1]) or previous
    return lines


class Clock:
    """Wall and monotonic time, a millisecond on at each look."""

    def __init__(self, wall_ms: int = NOON_MS) -> None:
        self._ticks = count()
        self.wall_offset_ms = wall_ms
        self.mono_offset_ms = 0

    def wall_ms(self) -> int:
        return self.wall_offset_ms + next(self._ticks)

    def mono_ms(self) -> int:
        return self.mono_offset_ms + next(self._ticks)


def writer_of(
    folder: Path,
    *,
    clock: Clock | None = None,
    node: str = NODE,
    on_sealed: Callable[[Path], None] | None = None,
    **settings: Any,
) -> JournalWriter:
    clock = clock or Clock()
    chosen = JournalSettings(folder, **settings)
    return JournalWriter(
        chosen, node, wall_ms=clock.wall_ms, mono_ms=clock.mono_ms, on_sealed=on_sealed
    )


@contextmanager
def opened(folder: Path, **settings: Any) -> Iterator[JournalWriter]:
    """A journal that is being written, closed in order at the end of the block."""
    writer = writer_of(folder, **settings)
    writer.open()
    try:
        yield writer
    finally:
        writer.close()


def write_journal(folder: Path, events: Iterable[Event], **settings: Any) -> Path:
    """A journal of ``events``, closed in order."""
    with opened(folder, **settings) as writer:
        for event in events:
            assert writer.append(event) is not None
    return folder


def written(writer: JournalWriter) -> None:
    """Wait until all that was appended is in the file."""
    wait_for(
        "all records to be written",
        writer.status,
        until=lambda status: status.written_seq == status.last_seq,
    )


def lay(
    folder: Path,
    *segments: Sequence[Record],
    active: Sequence[Record] = (),
    closed: Sequence[Record] = (),
) -> Path:
    """A folder with these records sealed, then closed, then active, and no lock."""
    folder.mkdir(exist_ok=True)
    previous, previous_sha256 = CHAIN_START, ""
    for records in segments:
        summary = _lay_closed(folder, records, previous)
        manifest = seal(
            folder,
            summary,
            previous_sha256=previous_sha256,
            sealed_at_ms=NOON_MS,
            stopped=lambda: False,
        )
        assert manifest is not None
        previous, previous_sha256 = summary.last_hash, manifest_sha256(folder, summary.span)
    if closed:
        previous = _lay_closed(folder, closed, previous).last_hash
    if active:
        (folder / ACTIVE).write_bytes(b"".join(chained(active, previous)))
    return folder


def _lay_closed(folder: Path, records: Sequence[Record], previous: bytes) -> Summary:
    lines = chained(records, previous)
    summary = summary_of(lines, node=NODE, first_hash=previous)
    (folder / summary.span.plain).write_bytes(b"".join(lines))
    return summary


def span_of(first_seq: int, last_seq: int) -> list[Record]:
    """Numbered records, both ends included."""
    return [record(seq) for seq in range(first_seq, last_seq + 1)]


def seqs(records: Iterable[Record]) -> list[int]:
    return [item.seq for item in records]


def meaning(folder: Path) -> list[Any]:
    """What is read, as JSON has it."""
    rows = [
        (item.seq, item.wall_ms, item.mono_ms, item.node, type(item.event).__name__, item.event)
        for item in read(folder)
    ]
    found: list[Any] = msgspec.json.decode(msgspec.json.encode(rows))
    return found


def kinds(folder: Path) -> list[str]:
    return [type(record.event).__name__ for record in read(folder)]


def sound(folder: Path) -> None:
    assert verify(folder).findings == ()


def failing(writer: JournalWriter) -> JournalStatus:
    return wait_for("trouble", writer.status, until=lambda status: status.failing)


def run(script: str, folder: Path) -> str:
    """Run ``script`` in another process, where ``folder`` is a variable; what it printed."""
    head = f"from pathlib import Path\nfolder = Path({str(folder)!r})\n"
    lines = script.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    path = filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    done = subprocess.run(
        [sys.executable, "-c", head + "\n".join(line[indent:] for line in lines)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
