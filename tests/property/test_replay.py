"""Whatever happens to a node, its records tell what it believes, at every revision.

The events of a route table become lines and the lines a view, which equals the table after every
step: across restarts, snapshots, and records that were lost.
"""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import ANY, patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from routebook import recovery
from routebook.events import Cause, Event, NodeStarted, RecordsLost, StateRestated
from routebook.journal.folder import ACTIVE
from routebook.journal.record import CHAIN_START, Record, decode, encode, hash_of
from routebook.journal.replay import replay
from routebook.journal.snapshot_file import Snapshot
from routebook.journal.snapshot_file import decode as decode_snapshot
from routebook.journal.snapshot_file import encode as encode_snapshot
from routebook.journal.view import View
from routebook.recovery import restate, restore
from routebook.state.kv import KvChange, KvStore
from routebook.state.model import QueueShape
from routebook.state.routes import RouteTable
from support.route_machine import ALL_TOPICS, RouteTableMachine, Saying

KEYS = st.sampled_from(["k1", "k2"])
Facts = dict[str, Any]


def facts_of_table(table: RouteTable, kv: KvStore, registering: tuple[str, str] | None) -> Facts:
    """``registering`` has a data version only once its registration is complete."""
    topics = table.topics
    groups = {}
    for group in table.members.groups():
        held = {change.topic: change for change in topics.held(group, group.registered)}
        groups[group.cluster, group.name] = {
            "acting_master": group.acting_master,
            "zone": group.zone,
            "members": {
                broker_id: (
                    member.addr,
                    member.ha_addr,
                    member.heartbeat_timeout_ms,
                    member.generation,
                    member.state_version,
                    ANY if (group.cluster, member.addr) == registering else member.stamp,
                    member.filter_servers,
                    member.confirmed,
                )
                for broker_id, member in group.members.items()
            },
            "queues": {topic: change.after for topic, change in held.items()},
            "registered": {
                topic: change.registered for topic, change in held.items() if change.registered
            },
            "mappings": sorted(topics.mappings_of(group)),
        }
    return {
        "groups": groups,
        "mappings": {topic: sorted(topics.mappings(topic)) for topic in ALL_TOPICS},
        "kv": {name: dict(table) for name, table in kv.tables.items()},
    }


def facts_of_view(view: View) -> Facts:
    groups = {}
    for key, group in view.groups.by_key.items():
        groups[key] = {
            "acting_master": group.acting_master,
            "zone": group.zone,
            "members": {
                broker_id: (
                    member.addr,
                    member.ha_addr,
                    member.heartbeat_timeout_ms,
                    member.generation,
                    member.epoch,
                    member.data_version,
                    member.filter_servers,
                    member.confirmed,
                )
                for broker_id, member in group.members.items()
            },
            "queues": group.queues,
            "registered": group.registered,
            "mappings": sorted(view.groups.mappings_of(group)),
        }
    return {
        "groups": groups,
        "mappings": {topic: sorted(view.static_mappings(topic)) for topic in ALL_TOPICS},
        "kv": view.kv,
    }


class ReplayMachine(RouteTableMachine):
    @initialize()
    def start(self) -> None:
        super().start()
        self.kv = KvStore(self.revision, 1000)
        self.view = View()
        self.lines: list[bytes] = []
        self.noted: dict[int, Facts] = {}  # by the number of lines
        self.lost = 0
        # A few topics at a time, so that a restatement can be interrupted anywhere.
        self.slices = patch.object(recovery, "RESTATED_A_SLICE", 2)
        self.slices.start()
        shape = QueueShape(8, 8, 6, 0)
        for cluster, name, addr, link in (("c1", "a", "x:1", 1), ("c1", "b", "y:1", 2)):
            topics = dict.fromkeys(ALL_TOPICS[:3], shape)
            self.register(
                cluster, name, 0, addr, link, Saying(topics), delete_absent=False, cut_after=None
            )

    def hear(self, events: Iterable[Event]) -> None:
        told = list(events)
        super().hear(told)
        self.write(told)

    def write(self, events: list[Event]) -> None:
        if self.lost:
            self.lost += len(events)
            return
        for event in events:
            seq = len(self.lines) + 1
            record = Record(seq, 1000 + self.now_ms, self.now_ms, "ns-1", event)
            self.lines.append(encode(record, self.last_hash()))
            self.view.apply(decode(self.lines[-1]))
        if events and not self.view.unsure:
            self.noted[len(self.lines)] = self.facts_now()

    def last_hash(self) -> bytes:
        return (hash_of(self.lines[-1]) if self.lines else None) or CHAIN_START

    def facts_now(self) -> Facts:
        return facts_of_table(self.table, self.kv, self.registering)

    @rule(key=KEYS, value=st.sampled_from([None, "1", "2"]))
    def change_kv(self, key: str, value: str | None) -> None:
        self.hear(self.kv.apply([KvChange("space", key, value, "p")]))

    @precondition(lambda self: not self.lost and not self.view.unsure)
    @rule(now_ms=st.integers(0, 1000))
    def restart(self, now_ms: int) -> None:
        """All connections are gone, and the clock is another one; nothing else is."""
        assert self.view.revision == self.revision.value
        self.now_ms = now_ms
        self.table = self.empty_table()
        before = facts_of_view(self.view)
        self.view.restart(wall_ms=now_ms)
        brokers = restore(self.view, self.table, now_ms=now_ms)
        for live in self.live.values():
            live.link = live.other_link = None
            live.confirmed = False
            live.heard_ms = now_ms
        assert facts_of_view(self.view) == unconfirmed(before)
        started = NodeStarted(
            revision=self.revision.value,
            cause=Cause.START,
            peer="",
            version="1",
            address="n:1",
            brokers=brokers,
            topics=len(list(self.table.topics)),
        )
        self.write([started])

    @rule()
    def go_on_from_a_snapshot(self) -> None:
        written = Snapshot(self.view, self.last_hash())
        read = decode_snapshot(b"".join(encode_snapshot(written)))
        assert read == written
        self.view = read.view

    @invariant()
    def the_view_is_the_table(self) -> None:
        if not self.lost and not self.view.unsure:
            assert facts_of_view(self.view) == self.facts_now()
            assert self.view.revision == self.revision.value
            assert not self.view.contradictions

    def teardown(self) -> None:
        self.slices.stop()
        view = View()
        for count, line in enumerate(self.lines, 1):
            view.apply(decode(line))
            if count in self.noted:
                assert self.noted[count] == facts_of_view(view)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ACTIVE).write_bytes(b"".join(self.lines))
            assert replay(Path(folder), damaged=refuse).view == view


class LosingMachine(ReplayMachine):
    """One whose journal cannot keep up at times; then all is restated, whatever goes on."""

    @initialize()
    def start(self) -> None:
        self.steps_to_lose = self.pace = 0
        self.snapshots = False
        self.restating: Iterator[Event] | None = None
        super().start()

    @precondition(lambda self: not self.lost)
    @rule(steps=st.integers(1, 4), pace=st.sampled_from([1, 2, 8]), snapshots=st.booleans())
    def begin_to_lose(self, steps: int, pace: int, snapshots: bool) -> None:
        self.lost, self.steps_to_lose = 1, steps
        self.pace, self.snapshots = pace, snapshots

    @precondition(lambda self: self.restating and not self.lost)
    @rule(pace=st.sampled_from([1, 2]))
    def lose_more_while_restating(self, pace: int) -> None:
        self.begin_to_lose(1, pace, self.snapshots)

    @invariant()
    def the_journal_catches_up(self) -> None:
        if self.lost:
            self.steps_to_lose -= 1
            if self.steps_to_lose < 0:
                self.find_room_again()
        elif self.view.unsure and self.restating is None:
            self.restating = restate(self.table, self.kv.tables, self.revision)
        for event in islice(self.restating or (), self.pace):
            self.write([event])
            if self.snapshots:
                self.go_on_from_a_snapshot()
            if isinstance(event, StateRestated):
                self.restating = None

    def find_room_again(self) -> None:
        count, self.lost = self.lost - 1, 0
        lost = RecordsLost(
            revision=self.revision.value, cause=Cause.JOURNAL, peer="", count=count, since_ms=0
        )
        self.write([lost])


def unconfirmed(facts: Facts) -> Facts:
    for group in facts["groups"].values():
        group["members"] = {k: (*v[:-1], False) for k, v in group["members"].items()}
    return facts


def refuse(error: Exception) -> None:
    raise error


TestReplay = ReplayMachine.TestCase
TestReplay.settings = settings(max_examples=100, stateful_step_count=50)
TestLosses = LosingMachine.TestCase
TestLosses.settings = settings(max_examples=100, stateful_step_count=50)
