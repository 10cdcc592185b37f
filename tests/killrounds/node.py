"""Rounds of kill -9 on a whole node under load, and what must hold after each restart.

The routes it serves are those its journal tells. What was acknowledged and written is among them,
every acknowledged pair is there, and no number and no revision that was ever given is given again.
"""

import json
import os
import random
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from routebook.events import JournalRecovered
from routebook.journal.folder import ACTIVE
from routebook.journal.reader import read
from routebook.journal.record import place_of
from routebook.journal.replay import replay
from routebook.journal.verify import verify
from routebook.journal.view import View
from routebook.journal.writer import LEAP
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.memories import all_written, health
from support.nodes import NodeProcess
from support.raw import BlockingPeer, Hangup

BROKERS = 6
TOPICS = 40
LONGEST_S = 0.5
EARLY_KILLS = 0.15  # the share of rounds in which a node dies while it starts
POWER_CUTS = 0.2  # and of those that also take what was not synced
VERIFY_EVERY = 10
NAMESPACE = "ns"


@dataclass(slots=True)
class NodeToll:
    """What was seen in all rounds."""

    rounds: int = 0
    early: int = 0
    power_cuts: int = 0
    registrations: int = 0
    pairs: int = 0
    unwritten: int = 0  # registrations that were acknowledged and are gone
    records: int = 0


@dataclass(slots=True)
class Sent:
    """What a node was told. Registrations are counted; ``sure`` are certainly on disk."""

    counters: list[int] = field(default_factory=lambda: [0] * BROKERS)
    acknowledged: list[int] = field(default_factory=lambda: [0] * BROKERS)
    written: list[int] = field(default_factory=lambda: [0] * BROKERS)
    synced: list[int] = field(default_factory=lambda: [0] * BROKERS)
    pairs: dict[str, str] = field(default_factory=dict)
    given_seq: int = 0
    synced_seq: int = 0
    revision: int = 0  # the highest anybody was told
    _notes: list[tuple[int, list[int]]] = field(default_factory=list)

    def note(self, journal: dict[str, Any]) -> None:
        """Take what a node says of its journal, asked after all that was acknowledged so far."""
        self.given_seq, self.synced_seq = journal["last_seq"], journal["synced_seq"]
        self._notes.append((self.given_seq, self.acknowledged.copy()))
        for seq, acknowledged in self._notes:
            if seq <= journal["written_seq"]:
                self.written = acknowledged
            if seq <= journal["synced_seq"]:
                self.synced = acknowledged
        self._notes = [(seq, then) for seq, then in self._notes if seq > journal["synced_seq"]]

    def restarted(self) -> None:
        self._notes.clear()


def node_rounds(
    folder: Path, *, rounds: int, seed: int, tell: Callable[[NodeToll], None] = lambda toll: None
) -> NodeToll:
    """Raises AssertionError with the round and the seed when something does not hold."""
    chance = random.Random(seed)
    toll, sent = NodeToll(), Sent()
    journal = folder / "data" / "journal"
    for number in range(1, rounds + 1):
        where = f"round {number} of seed {seed}"
        node = NodeProcess(
            folder,
            *("--journal-rotate-bytes", "65536"),
            *("--journal-sync", chance.choice(("none", "interval", "batch"))),
            *("--journal-sync-interval-millis", "50"),
        )
        if number > 1 and chance.random() < EARLY_KILLS:
            _die_young(node, chance)
            toll.early += 1
        before = replay(journal, damaged=_unexpected).view if number > 1 else View()
        with node, node.connect() as peer:
            toll.unwritten += _check(node, peer, before, sent, where)
            if number % VERIFY_EVERY == 0:
                _check_journal(journal, where)
            sent.restarted()
            killer = threading.Timer(LONGEST_S * chance.random() ** 2, node.kill)
            killer.start()
            _live(node, sent, chance, number)
            killer.join()
        if chance.random() < POWER_CUTS:
            toll.power_cuts += _cut_power(journal, sent.synced_seq, chance)
            sent.written = sent.synced
        toll.rounds = number
        toll.registrations, toll.pairs = sum(sent.counters), len(sent.pairs)
        tell(toll)
    last = replay(journal, damaged=_unexpected).view
    with NodeProcess(folder) as node, node.connect() as peer:
        toll.unwritten += _check(node, peer, last, sent, "the end")
        assert node.stop() == 0
    toll.records = _check_journal(journal, "the end")
    return toll


# -- living


def _die_young(node: NodeProcess, chance: random.Random) -> None:
    node.launch()
    with suppress(subprocess.TimeoutExpired):
        node.process.wait(0.6 * chance.random())
    node.kill()


def _broker(number: int) -> Broker:
    return Broker(f"broker-{number}", addr=f"10.0.0.{number + 1}:10911", cluster=f"c{number % 2}")


def _topic(number: int) -> str:
    """One that says how often the broker has registered, by its queues."""
    return f"count-of-broker-{number}"


def _live(node: NodeProcess, sent: Sent, chance: random.Random, life: int) -> None:
    """Register, unregister, drain and write pairs until the node is dead."""
    try:
        peers = [node.connect() for _ in range(BROKERS)]
    except ConnectionError:
        return
    try:
        for step in range(1_000_000):
            number = chance.randrange(BROKERS)
            _act(peers[number], number, sent, chance, f"{life}-{step}")
    except (Hangup, ConnectionError, OSError):
        pass
    finally:
        for peer in peers:
            peer.socket.close()


def _act(peer: BlockingPeer, number: int, sent: Sent, chance: random.Random, name: str) -> None:
    what = chance.random()
    if what < 0.5:
        sent.counters[number] += 1
        count = sent.counters[number]
        topics: dict[str, dict[str, Any]] = {_topic(number): {"readQueueNums": count}}
        topics |= {f"topic-{chance.randrange(500)}": {} for _ in range(chance.randrange(TOPICS))}
        body = registration_body({"TBW102": {}, **topics}, counter=count)
        assert peer.ask(raw.REGISTER, _broker(number).fields, body).code == raw.SUCCESS
        sent.acknowledged[number] = count
    elif what < 0.7:
        value = str(chance.random())
        answer = peer.call(raw.PUT_KV, namespace=NAMESPACE, key=name, value=value)
        assert answer.code == raw.SUCCESS
        sent.pairs[name] = value
    elif what < 0.75:
        guest = Broker(f"guest-{number}", addr=f"10.0.1.{number + 1}:10911", cluster="guests")
        code = chance.choice((raw.REGISTER, raw.UNREGISTER))
        body = registration_body([f"of-guest-{number}", "TBW102"])
        assert peer.ask(code, guest.fields, body).code == raw.SUCCESS
    elif what < 0.8:
        code = chance.choice((raw.WIPE_WRITE, raw.ADD_WRITE))
        assert peer.call(code, brokerName=f"broker-{number}").code == raw.SUCCESS
    elif what < 0.85:
        topic = f"topic-{chance.randrange(500)}"
        assert peer.call(raw.DELETE_TOPIC, topic=topic).code == raw.SUCCESS
    else:
        told = health(peer)
        sent.revision = max(sent.revision, told["revision"])
        sent.note(told["journal"])


def _cut_power(journal: Path, synced_seq: int, chance: random.Random) -> bool:
    """Take away what a disk may not have had yet: some of the active segment's unsynced end."""
    path = journal / ACTIVE
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return False
    whole = [line for line in lines if line.endswith(b"\n")]
    synced = sum(len(line) for line in whole if place_of(line).seq <= synced_seq)
    os.truncate(path, chance.randint(synced, sum(map(len, lines))))
    return True


# -- checking


def _check(node: NodeProcess, peer: BlockingPeer, before: View, sent: Sent, where: str) -> int:
    """How many acknowledged registrations are gone, as far as that may be."""
    served = _served(peer)
    assert served == _told(before), f"{where}: it serves what its journal does not tell"
    found = health(peer)
    assert found["brokers"] == found["unconfirmed"] == len(list(before.brokers())), where
    if before.seq:
        assert found["revision"] > sent.revision, f"{where}: {found['revision']} again"
    sent.revision = max(sent.revision, found["revision"])
    table = peer.call(raw.LIST_KV, namespace=NAMESPACE)
    pairs = table.value["table"] if table.code == raw.SUCCESS else {}
    assert sent.pairs.items() <= pairs.items(), f"{where}: acknowledged pairs are gone"
    gone = 0
    for number, (sure, most) in enumerate(zip(sent.written, sent.counters, strict=True)):
        count = served.get(_topic(number), {}).get(f"broker-{number}", (0, 0, 0))[0]
        assert sure <= count <= most, f"{where}: {count} of broker {number}, {sure} were written"
        gone += max(sent.acknowledged[number] - count, 0)
        sent.acknowledged[number] = count
    all_written(peer)
    if before.seq:
        _check_leap(node.data_dir / "journal", before.seq, sent.given_seq, where)
    now = replay(node.data_dir / "journal", damaged=_unexpected).view
    assert now.kv.get(NAMESPACE, {}) == pairs, where
    return gone


Queues = dict[str, dict[str, tuple[int, int, int]]]  # by topic and broker


def _served(peer: BlockingPeer) -> Queues:
    topics: list[str] = json.loads(peer.call(raw.ALL_TOPICS).body)["topicList"]
    found: Queues = {}
    for topic in topics:
        answer = peer.call(raw.ROUTE, topic=topic)
        assert answer.code == raw.SUCCESS, answer
        found[topic] = {
            data["brokerName"]: (data["readQueueNums"], data["writeQueueNums"], data["perm"])
            for data in answer.value["queueDatas"]
        }
    return found


def _told(view: View) -> Queues:
    return {
        topic: {entry.broker: entry.queues[:3] for entry in view.route(topic)}
        for topic in view.topics()
    }


def _check_leap(journal: Path, last_seq: int, given_seq: int, where: str) -> None:
    """The kill is recorded, under a number that nobody can have been given."""
    after = next(read(journal, from_seq=last_seq + 1))
    event = after.event
    assert isinstance(event, JournalRecovered), f"{where}: {after}"
    assert event.last_seq == last_seq, f"{where}: {after}"
    assert after.seq > given_seq, f"{where}: {after.seq} after {given_seq}"
    assert after.seq % LEAP == 0, where


def _check_journal(journal: Path, where: str) -> int:
    report = verify(journal)
    assert report.sound, (where, [str(finding) for finding in report.findings])
    last = 0
    for record in read(journal):
        assert record.seq > last, f"{where}: {record.seq} after {last}"
        last = record.seq
    return report.records


def _unexpected(error: Exception) -> None:
    raise error
