"""A node that is watched, and those who watch it, without sockets and on a clock of the test.

The node has a journal that may be behind: what is not ``written`` is lost when it is killed. A
follower believes nothing it is told before it has checked its place in the chain.
"""

import json
import random
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from routebook.events import BrokerLeft, Cause, Event, TopicsChanged
from routebook.handlers.watch import told_route
from routebook.journal.record import Record
from routebook.journal.view import View
from routebook.journal.writer import LEAP, REVISIONS_A_MS
from routebook.recovery import restore
from routebook.slices import Slices, finished
from routebook.state.account import Account
from routebook.state.revision import Revision
from routebook.watch.hub import Frame, Watchers
from routebook.wire.command import Reply
from support import raw
from support.desk import Desk

WATCH, ROUTES, UNWATCH = 19_005, 19_006, 19_007


class WatchDesk(Desk):
    """``clock`` is shared with everybody else: a list of one number."""

    def __init__(
        self,
        clock: list[int],
        *,
        node: str = "n1",
        boot: str = "b1",
        seq: int = 0,
        account: Account | None = None,
        **desk: Any,
    ) -> None:
        self.clock = clock
        self.records: list[Record] = []
        self.written = 0
        self.node = node
        self._seq = seq
        self._gone: list[Slices[Any]] = []
        self.frames: list[Frame] = []
        self._work: Iterator[Frame | None] | None = None
        super().__init__(order_message_enable=True, **desk)
        self.watchers = self.services.watchers = Watchers(
            node=node,
            boot=boot,
            revision=lambda: self.revision.value,
            route_of=lambda topic: told_route(topic, self.services),
            topics_of=self._topics_of,
            last_seq=lambda: self._seq,
            now_ms=lambda: self.clock[0],
            account=account,
            rng=random.Random(1),
        )
        self.services.now_ms = lambda: self.clock[0]
        self._began = self.revision.value

    def _topics_of(self, cluster: str, broker: str) -> Collection[str]:
        group = self.routes.members.find_group(cluster, broker)
        return group.registered if group else self.routes.topics.abandoned(cluster, broker)

    def _record(self, events: Iterable[Event]) -> None:
        for event in events:
            super()._record([event])
            self._seq += 1
            record = Record(self._seq, self.clock[0], self.clock[0], self.node, event)
            self.records.append(record)
            self.watchers.record(record)
            if isinstance(event, BrokerLeft) and event.topics_lost:
                topics = self.routes.topics.abandoned(*event.group)
                self.services.absences.note(event, self.clock[0], topics)
            elif isinstance(event, TopicsChanged):
                self.services.absences.note(event, self.clock[0], ())
            if event.changes_routes:
                self.watchers.note(event)

    def order(self, topic: str, value: str | None) -> None:
        """Set the order configuration of a topic, or delete it."""
        fields: dict[str, str | None] = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic}
        code = raw.DELETE_KV if value is None else raw.PUT_KV
        self.ask(code, fields if value is None else fields | {"value": value})

    def watch(self, link: int, body: dict[str, Any]) -> Reply:
        return self.ask(WATCH, body=json.dumps(body).encode(), link=link)

    def unwatch(self, link: int, topics: list[str]) -> Reply:
        return self.ask(UNWATCH, body=json.dumps({"topics": topics}).encode(), link=link)

    def step(self, count: int = 1_000_000) -> list[Frame]:
        """Do so much of what there is to do; the frames to be sent."""
        sent: list[Frame] = []
        for _ in range(count):
            if self._work is None:
                self._work = self.watchers.work()
            try:
                frame = next(self._work)
            except StopIteration:
                self._work = None
                break
            if frame is not None:
                sent.append(frame)
        return sent

    def hang_up(self, link: int) -> None:
        finished(self.watchers.end(link))

    def journal(self) -> None:
        """Everything so far is on disk."""
        self.written = len(self.records)

    def after_stop(self, boot: str) -> "WatchDesk":
        """The node that is started after this one was stopped in order."""
        self.journal()
        return self._next(boot, self.revision.value)

    def after_kill(self, boot: str) -> "WatchDesk":
        """The node that is started after this one was killed, records on their way to the disk.

        Its revision leaps as ``JournalWriter`` has it leap.
        """
        on_disk = self.records[: self.written]
        last = on_disk[-1] if on_disk else None
        since_ms = self.clock[0] - last.wall_ms if last else 0
        revision = max(last.event.revision if last else 0, self._began)  # a start is on disk
        return self._next(boot, revision + LEAP + since_ms * REVISIONS_A_MS)

    def _next(self, boot: str, revision: int) -> "WatchDesk":
        view = View()
        for record in self.records[: self.written]:
            view.apply(record)
        pairs = {name: dict(table) for name, table in self.kv.tables.items()}
        node = WatchDesk(
            self.clock,
            node=self.node,
            boot=boot,
            seq=self._seq + LEAP,
            revision=Revision(revision),
            pairs=pairs,
        )
        node.records = self.records[: self.written]
        node.written = self.written
        view.restart(wall_ms=self.clock[0])
        restore(view, node.routes, now_ms=self.clock[0])
        return node

    def table(self, topics: Iterable[str]) -> dict[str, Any]:
        """What queries for ``topics`` are answered now."""
        return {topic: comparable(self.route(topic)) for topic in topics}

    def leave(self, link: int) -> None:
        """The connection of a broker closes."""
        self.close(link, Cause.CONNECTION_CLOSED)


def comparable(route: dict[str, Any] | None) -> Any:
    """Without the order in which groups are told, which may be another on another node."""
    if route is None:
        return None
    queues = sorted(map(json.dumps, route["queueDatas"]))
    brokers = sorted(json.dumps(each, sort_keys=True) for each in route["brokerDatas"])
    return {**route, "queueDatas": queues, "brokerDatas": brokers}


class Follower:
    """Follows ``topics`` over connections that break, from node to node."""

    def __init__(self, name: str, topics: Iterable[str]) -> None:
        self.name = name
        self.topics = set(topics)
        self.routes: dict[str, Any] = {}
        self.etags: dict[str, str] = {}
        self.node: WatchDesk | None = None
        self.link = 0
        self.since: str | None = None
        self.heard: list[raw.Answer] = []  # frames of this connection
        self.reads = True
        self._unread: list[Frame] = []
        self.told: list[tuple[str, int]] = []  # all revisions ever, with their boots
        self.synced = False

    def connect(self, node: WatchDesk, link: int) -> dict[str, str]:
        body: dict[str, Any] = {"topics": {t: self.etags.get(t, "") for t in sorted(self.topics)}}
        if self.since is not None:
            body["since"] = self.since
        reply = node.watch(link, body)
        assert reply.code == raw.SUCCESS, reply
        fields = reply.ext_fields
        assert fields is not None
        expected = "reset"
        if self.since is not None and self.since.split(".")[:2] == [fields["node"], fields["boot"]]:
            expected = "resumed"
        assert fields["kind"] == expected, (fields, self.since)
        self.node, self.link, self.heard, self.reads = node, link, [], True
        self._unread, self.synced = [], False
        self._boot, self._n, self._rev = fields["boot"], 0, int(fields["rev"])
        self._note_rev()
        return dict(fields)

    def cut(self) -> None:
        assert self.node is not None
        self.node.hang_up(self.link)
        self.node = None

    def add(self, topic: str) -> None:
        self.topics.add(topic)
        if self.node is not None:
            self.node.watch(self.link, {"topics": {topic: self.etags.get(topic, "")}})

    def drop(self, topic: str) -> None:
        self.topics.discard(topic)
        self.routes.pop(topic, None)
        self.etags.pop(topic, None)
        if self.node is not None:
            self.node.unwatch(self.link, [topic])

    def take(self, frame: Frame) -> None:
        """A frame is sent: heard at once, or when it is read."""
        self._unread.append(frame)
        if self.reads:
            self._read()
        elif self.node is not None:
            self.node.watchers.park(self.link)

    def read(self) -> None:
        self.reads = True
        self._read()
        if self.node is not None:
            self.node.watchers.unpark(self.link)

    def _read(self) -> None:
        unread, self._unread = self._unread, []
        for frame in unread:
            if self.node is not None:
                self._hear(raw.answer_of(frame.data[4:]))

    def _hear(self, frame: raw.Answer) -> None:
        fields = frame.ext_fields
        assert fields is not None
        assert (frame.code, frame.flag & raw.ONEWAY) == (ROUTES, raw.ONEWAY)
        # the chain: no gap, never back, one boot
        assert fields["boot"] == self._boot
        assert int(fields["n"]) == self._n + 1
        assert int(fields["after"]) == self._rev
        assert int(fields["rev"]) >= self._rev
        self._n, self._rev = self._n + 1, int(fields["rev"])
        self._note_rev()
        self.heard.append(frame)
        if fields["kind"] == "routes":
            for entry in json.loads(frame.body):
                self._learn(entry)
        elif fields["kind"] in ("synced", "bookmark"):
            self.synced = True
            assert self.node is not None
            if self._rev == self.node.revision.value:
                self.check()
        elif fields["kind"] == "bye":
            self.node.hang_up(self.link) if self.node is not None else None
            self.node = None

    def _learn(self, entry: dict[str, Any]) -> None:
        topic = entry["topic"]
        if topic not in self.topics:
            return  # it was dropped while the frame was on its way
        assert entry["etag"] != self.etags.get(topic, ""), "told what it has"
        self.etags[topic] = entry["etag"]
        assert ("gone" in entry) == (entry["etag"] == "")
        self.routes[topic] = comparable(entry.get("route"))

    def check(self) -> None:
        """It has what the table has."""
        assert self.node is not None
        told = {topic: self.routes.get(topic) for topic in self.topics}
        assert told == self.node.table(self.topics), self.name

    def _note_rev(self) -> None:
        assert self.node is not None or self._n == 0
        self.told.append((self._boot, self._rev))
        if self.node is not None:
            self.since = f"{self.node.node}.{self._boot}.{self._rev}"
