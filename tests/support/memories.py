"""What nodes remember: the journals they write, and bodies to be had again after a restart."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from routebook.app import NameServer
from routebook.events import Event, NodeStarted
from routebook.journal.reader import read
from routebook.journal.record import Record
from routebook.journal.verify import verify
from routebook.wire.codes import RequestCode
from support import raw
from support.nodes import local_node
from support.raw import V5_5_0, BlockingPeer, Peer
from support.waiting import soon, wait_for

SomeEvent = TypeVar("SomeEvent", bound=Event)
SHAPE = (8, 8, 6, 0)
READ_ONLY = (8, 8, 4, 0)
OLD_VERSION = 0  # of clients that read a map with bare keys
HEALTH = int(RequestCode.ROUTEBOOK_HEALTH)


def journal_of(home: Path) -> Path:
    """Where an embedded node with this home writes."""
    return home / "namesrv" / "routebook" / "journal"


def records(folder: Path) -> list[Record]:
    return list(read(folder))


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def names(found: Iterable[Record]) -> list[str]:
    return [type(record.event).__name__ for record in found]


def events_of(folder: Path, kind: type[SomeEvent], *, from_seq: int = 1) -> list[SomeEvent]:
    found = read(folder, from_seq=from_seq)
    return [record.event for record in found if isinstance(record.event, kind)]


@asynccontextmanager
async def stopping_first(
    folder: Path, **settings: object
) -> AsyncIterator[tuple[NameServer, Peer]]:
    """A node and a peer whose connection is open until the node closes it."""
    async with AsyncExitStack() as later, local_node(folder, **settings) as node:
        yield node, await later.enter_async_context(Peer(node.port))


async def told(
    folder: Path,
    kind: type[SomeEvent],
    *,
    from_seq: int = 1,
    until: Callable[[list[SomeEvent]], bool] = bool,
) -> list[SomeEvent]:
    """Wait for events of one kind in a journal that is being written."""
    return await soon(
        f"{kind.__name__} in the journal",
        lambda: events_of(folder, kind, from_seq=from_seq),
        until=until,
    )


def written(
    folder: Path,
    kind: type[SomeEvent],
    *,
    from_seq: int = 1,
    until: Callable[[list[SomeEvent]], bool] = bool,
) -> list[SomeEvent]:
    """``told`` for a node in a process of its own."""
    return wait_for(
        f"{kind.__name__} in the journal",
        lambda: events_of(folder, kind, from_seq=from_seq),
        until=until,
    )


def health(peer: BlockingPeer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(peer.call(HEALTH).body)
    return found


def all_written(peer: BlockingPeer) -> None:
    """Wait until nothing is lost if the node is killed."""
    wait_for(
        "all of it to be written",
        lambda: health(peer)["journal"],
        until=lambda journal: journal["written_seq"] == journal["last_seq"],
    )


def since_the_last_start(folder: Path) -> list[Record]:
    found = records(folder)
    start = max(i for i, record in enumerate(found) if isinstance(record.event, NodeStarted))
    return found[start + 1 :]


async def unconfirmed(peer: Peer) -> int:
    found: int = json.loads((await peer.call(HEALTH)).body)["unconfirmed"]
    return found


def check_sound(folder: Path) -> None:
    """Nothing is wrong with the journal, and no number was given twice."""
    report = verify(folder)
    assert report.sound, [str(finding) for finding in report.findings]
    numbers = [record.seq for record in read(folder)]
    assert len(set(numbers)) == len(numbers)
    assert numbers == sorted(numbers)


def bodies(peer: BlockingPeer, topics: Iterable[str]) -> dict[tuple[str, int, str], bytes]:
    """Whole route answers, for old and new clients, with and without a zone."""
    found: dict[tuple[str, int, str], bytes] = {}
    for topic in topics:
        for version in (OLD_VERSION, V5_5_0):
            for zone in ("", "east"):
                fields = {"topic": topic}
                if zone:
                    fields |= {"__ZONE_MODE": "true", "__ZONE_NAME": zone}
                answer = peer.ask(raw.ROUTE, fields, version=version)
                assert answer.code == raw.SUCCESS, answer
                found[topic, version, zone] = answer.body
    return found
