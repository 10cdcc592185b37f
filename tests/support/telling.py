"""Views told by the events of a desk."""

from collections.abc import Iterable, Sequence
from typing import Any

from routebook.events import (
    Cause,
    Event,
    GroupRestated,
    MemberFact,
    NodeStarted,
    QueueChange,
    RecordsLost,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.errors import JournalError
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.state.kv import KvChange
from routebook.wire.codes import RequestCode
from support.builders import mapping_info, registration_body
from support.desk import Desk
from support.journals import record

SHAPE = (8, 8, 6, 0)
READ_ONLY = (8, 8, 4, 0)
NOTE: dict[str, Any] = {"revision": 0, "cause": Cause.JOURNAL, "peer": ""}


def view_of(events: Iterable[Event], view: View | None = None) -> View:
    """``view``, or a new one, after ``events``; a second passes before each."""
    view = View() if view is None else view
    for event in events:
        view.tell(event, wall_ms=view.wall_ms + 1000)
    return view


def started(*, brokers: int) -> NodeStarted:
    return NodeStarted(**NOTE, version="1", address="n:1", brokers=brokers, topics=0)


def lost(count: int = 1) -> RecordsLost:
    return RecordsLost(**NOTE, count=count, since_ms=0)


def restated(groups: int, kv: dict[str, dict[str, str]] | None = None) -> StateRestated:
    return StateRestated(**NOTE, groups=groups, kv=kv or {})


def group_restated(
    broker: str = "broker-a",
    *,
    topics: Iterable[str] = ("orders",),
    generation: int = 1,
    continued: bool = False,
) -> GroupRestated:
    member = MemberFact(0, "10.0.0.1:10911", None, 120_000, generation, 0, (0, 1, 1), ())
    return GroupRestated(
        **NOTE,
        cluster="c1",
        broker=broker,
        acting_master=False,
        zone=None,
        members=() if continued else (member,),
        queues=tuple(QueueChange(topic, None, SHAPE) for topic in topics),
        mappings=(),
        continued=continued,
    )


def topics_changed(*changes: QueueChange, broker: str = "broker-a") -> TopicsChanged:
    return TopicsChanged(**NOTE, cluster="c1", broker=broker, changes=changes)


def full_day() -> list[Event]:
    """Events that leave something behind in every part of a view."""
    desk = Desk()
    body = registration_body(
        ["static", "orders"], mappings={"static": mapping_info("static")}, filter_servers=["f:1"]
    )
    desk.register(body=body, enableActingMaster="true")
    desk.register("broker-a", 1)
    desk.register("broker-b", addr="10.0.0.3:10911", __ZONE_NAME="east")
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-b"})
    desk.events += desk.kv.apply([KvChange("space", "a", "1")])
    return desk.events


def records_of(events: Sequence[Event], first_seq: int = 1) -> list[Record]:
    return [record(seq, event) for seq, event in enumerate(events, first_seq)]


def thirds() -> tuple[list[Record], list[Record], list[Record]]:
    records = records_of(full_day())
    third = len(records) // 3
    return records[:third], records[third : 2 * third], records[2 * third :]


def played(records: Sequence[Record]) -> View:
    view = View()
    for item in records:
        view.apply(item)
    return view


def refuse(error: JournalError) -> None:
    raise error


def registered(*names: str) -> Desk:
    """A desk where brokers of these names have registered, each at an address of its own."""
    desk = Desk()
    for number, name in enumerate(names, 1):
        desk.register(name, addr=f"10.0.0.{number}:10911")
    return desk


def wipe(desk: Desk, name: str = "broker-a") -> None:
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": name})
