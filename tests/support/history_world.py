"""A fleet of brokers and the nodes it talks to: everything happens to them, at random.

The same seed makes the same story.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from routebook.events import QueryCount
from routebook.state.model import QueueShape, Registration, VersionStamp
from support.history_node import HistoryNode

BEGIN_MS = 1_794_700_800_000 + 5 * 3_600_000  # 2026-11-15T05:00Z
TICK_MS = 10_000
BEAT_TICKS = 3
WINDOW_TICKS = 30
TIMEOUT_MS = 120_000
HOUR_TICKS = 3_600_000 // TICK_MS
SKEW_MS = 1500
ADMIN = "10.0.9.9:50000"


@dataclass(eq=False, slots=True)
class Process:
    """A broker process. It runs unless it sleeps, and is heard of unless it hangs."""

    name: str
    broker_id: int
    addr: str
    phase: int
    topics: dict[str, QueueShape]
    version: int = 1
    epoch: int = 1
    timeout_ms: int = TIMEOUT_MS
    asleep_ticks: int = 0
    hangs_ticks: int = 0
    links: dict[str, int] = field(default_factory=dict)  # by node
    told: dict[str, tuple[object, ...]] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        return "c2" if self.name.endswith("d") else "c1"

    @property
    def peer(self) -> str:
        return f"{self.addr.split(':')[0]}:40112"

    @property
    def saying(self) -> tuple[object, ...]:
        return (self.name, self.broker_id, self.version, self.timeout_ms)


@dataclass(slots=True)
class _Trouble:
    """Of one node: what is to happen to it, and in how many ticks."""

    ticks: int
    end: str


class World:
    def __init__(self, rng: random.Random, *, nodes: int, brokers: int) -> None:
        self.rng = rng
        self.now_ms = BEGIN_MS
        self.ticks = 0
        self.nodes = [
            HistoryNode(f"ns-{number}", skew_ms=rng.randint(-SKEW_MS, SKEW_MS), now_ms=BEGIN_MS)
            for number in range(1, nodes + 1)
        ]
        self.trouble: dict[str, _Trouble] = {}
        self.hosts = 0
        self.names = [f"broker-{chr(ord('a') + number)}" for number in range(brokers)]
        self.fleet = [self.process(name, 0) for name in self.names]
        self.fleet += [self.process(name, 1) for name in self.names[::2]]
        self.drained: dict[str, int] = {}
        for node in self.nodes:
            node.at(self.now_ms + rng.randint(0, 5000)).start(warm=False)

    def process(self, name: str, broker_id: int) -> Process:
        self.hosts += 1
        topics = {f"topic-{number}": self.shape() for number in self.rng.sample(range(12), 5)}
        return Process(
            name, broker_id, f"10.0.0.{self.hosts}:10911", self.rng.randrange(BEAT_TICKS), topics
        )

    def shape(self) -> QueueShape:
        return QueueShape(self.rng.choice([4, 8]), self.rng.choice([4, 8, 16]), 6, 0)

    def happens(self, times_a_day: float) -> bool:
        return self.rng.random() < times_a_day / (24 * HOUR_TICKS)

    def tick(self) -> None:
        self.ticks += 1
        self.now_ms += TICK_MS
        for node in self.nodes:
            node.at(self.now_ms)
            if node.up:
                self.drop_links(node, node.expire())
        self.happen_to_brokers()
        for broker in sorted(self.fleet, key=lambda one: self.rng.random()):
            self.live(broker)
        self.administer()
        for node in self.nodes:
            self.happen_to_node(node)
            if node.up:
                node.restate_some(self.rng.choice([1, 2, 50]))
                if self.ticks % WINDOW_TICKS == 0:
                    node.sum_up(self.queries(), window_ms=WINDOW_TICKS * TICK_MS)

    def reach(self, broker: Process) -> list[HistoryNode]:
        """The nodes it can talk to, each a few ms later."""
        self.now_ms += self.rng.randint(0, 5)
        return [
            node.at(self.now_ms + self.rng.randint(0, 4))
            for node in self.nodes
            if node.up and broker.addr not in node.cut_off
        ]

    # -- brokers

    def live(self, broker: Process) -> None:
        if broker.asleep_ticks or broker.hangs_ticks:
            broker.asleep_ticks = max(0, broker.asleep_ticks - 1)
            broker.hangs_ticks = max(0, broker.hangs_ticks - 1)
            return
        if (self.ticks + broker.phase) % BEAT_TICKS:
            return
        for node in self.reach(broker):
            self.speak(broker, node)

    def speak(self, broker: Process, node: HistoryNode) -> None:
        """A sign of life, by a heartbeat or by a registration."""
        known = broker.told.get(node.name) == broker.saying and node.name in broker.links
        if known and self.rng.random() < 0.8:
            link = broker.links[node.name]
            if node.heartbeat(broker.cluster, broker.addr, link=link, peer=broker.peer):
                return
        self.register(broker, node)

    def register(self, broker: Process, node: HistoryNode) -> None:
        link = broker.links.setdefault(node.name, node.new_link())
        broker.told[node.name] = broker.saying
        node.register(
            Registration(
                cluster=broker.cluster,
                name=broker.name,
                broker_id=broker.broker_id,
                addr=broker.addr,
                ha_addr=None,
                heartbeat_timeout_ms=broker.timeout_ms,
                acting_master=True if broker.name.endswith("a") else None,
                zone=None,
                state_version=broker.epoch,
                stamp=VersionStamp(0, BEGIN_MS, broker.version),
                topics=broker.topics,
                mappings=(),
                filter_servers=None,
                fingerprint=None,
                link=link,
                peer=broker.peer,
            )
        )

    def tell_all(self, broker: Process) -> None:
        for node in self.reach(broker):
            self.register(broker, node)

    def drop_links(self, node: HistoryNode, links: Iterable[int]) -> None:
        gone = set(links)
        for broker in self.fleet:
            if broker.links.get(node.name) in gone:
                del broker.links[node.name]

    def disconnect(self, broker: Process) -> None:
        """Its connections are closed, those that it can still close."""
        for node in self.reach(broker):
            if node.name in broker.links:
                node.close(broker.links[node.name], broker.peer)
        broker.links.clear()

    def happen_to_brokers(self) -> None:
        for broker in list(self.fleet):
            if broker.asleep_ticks or broker.hangs_ticks:
                continue
            if self.happens(4):
                self.change_topics(broker)
            elif self.happens(2):
                self.leave(broker)
            elif self.happens(2):
                self.disconnect(broker)
                broker.asleep_ticks = self.rng.choice([1, 3, 30, 200])
            elif self.happens(2):
                broker.hangs_ticks = self.rng.choice([6, 20, 60])
            elif self.happens(3):
                self.reconnect(broker)
            elif self.happens(1.5):
                self.change_role(broker)
            elif self.happens(1):
                self.be_replaced(broker)
            elif self.happens(1):
                broker.timeout_ms = self.rng.choice([60_000, 120_000])
            elif self.happens(1):
                self.change_name(broker)
            elif self.happens(2):
                self.rng.choice(self.nodes).cut_off.add(broker.addr)
        for node in self.nodes:
            if node.cut_off and self.happens(100):
                node.cut_off.clear()
            elif self.happens(1):
                node.cut_off.update(broker.addr for broker in self.fleet)

    def change_topics(self, broker: Process) -> None:
        broker.version += 1
        for _ in range(self.rng.randint(1, 3)):
            topic = f"topic-{self.rng.randrange(12)}"
            if topic in broker.topics and len(broker.topics) > 3 and self.rng.random() < 0.4:
                del broker.topics[topic]
            else:
                broker.topics[topic] = self.shape()
        self.tell_all(broker)

    def leave(self, broker: Process) -> None:
        for node in self.reach(broker):
            if node.name in broker.links:
                link = broker.links.pop(node.name)
                node.carry_out(
                    node.table.unregister(
                        broker.cluster, broker.name, broker.addr, link=link, peer=broker.peer
                    )
                )
        broker.asleep_ticks = self.rng.choice([3, 30, 300])

    def reconnect(self, broker: Process) -> None:
        """New connections, and only then the old ones are closed."""
        for node in self.reach(broker):
            old = broker.links.pop(node.name, None)
            self.register(broker, node)
            if old is not None:
                node.close(old, broker.peer)

    def change_role(self, broker: Process) -> None:
        taken = {other.broker_id for other in self.fleet if other.name == broker.name}
        broker.broker_id = self.rng.choice([each for each in range(4) if each not in taken])
        self.tell_all(broker)

    def change_name(self, broker: Process) -> None:
        if sum(other.name == broker.name for other in self.fleet) > 1:
            broker.name = self.rng.choice(self.names)
            taken = {one.broker_id for one in self.fleet if one.name == broker.name} - {0}
            broker.broker_id = next(each for each in range(1, 9) if each not in taken)
            self.tell_all(broker)

    def be_replaced(self, broker: Process) -> None:
        """Another process takes its place before anybody noticed that it is gone."""
        successor = self.process(broker.name, broker.broker_id)
        successor.epoch = broker.epoch + self.rng.randrange(2)
        self.fleet[self.fleet.index(broker)] = successor
        self.tell_all(successor)

    # -- administrators and clients

    def administer(self) -> None:
        for name, until in list(self.drained.items()):
            if self.ticks >= until:
                del self.drained[name]
                self.set_writable(name, writable=True)
        peer = ADMIN
        up = [node for node in self.nodes if node.up]
        if self.happens(3):
            name = self.rng.choice(self.names)
            self.drained[name] = self.ticks + self.rng.choice([30, 200])
            self.set_writable(name, writable=False)
        for node in up:
            if self.happens(1):
                topic = f"topic-{self.rng.randrange(12)}"
                node.carry_out(node.table.delete_topic(topic, None, peer=peer))
            if self.happens(1):
                queues = {self.rng.choice(self.names): self.shape()}
                node.carry_out(node.table.register_topic("topic-admin", queues, peer=peer))
            if self.happens(2):
                node.change_kv(f"key-{self.rng.randrange(3)}", self.rng.choice([None, "1", "2"]))
            if self.happens(0.5):
                node.configure("false", "true")

    def set_writable(self, name: str, *, writable: bool) -> None:
        for node in self.nodes:
            if node.up:
                peer = ADMIN
                node.carry_out(node.table.set_writable(name, writable=writable, peer=peer))

    def queries(self) -> tuple[QueryCount, ...]:
        asked = self.rng.sample(range(16), 3)
        return tuple(
            QueryCount(f"topic-{number}", *(self.rng.randrange(9) for _ in range(3)))
            for number in sorted(asked)
        )

    # -- nodes

    def happen_to_node(self, node: HistoryNode) -> None:
        trouble = self.trouble.get(node.name)
        if trouble is not None:
            trouble.ticks -= 1
            if trouble.ticks <= 0:
                del self.trouble[node.name]
                self.overcome(node, trouble.end)
            elif node.losing and self.happens(60):
                self.go_down(node)
            return
        if self.happens(2):
            self.go_down(node)
        elif self.happens(2):
            node.begin_to_lose()
            self.trouble[node.name] = _Trouble(self.rng.choice([3, 30, 200]), "room")
        elif self.happens(0.7):
            node.skew_ms -= self.rng.choice([3_000, 600_000, 7_200_000])
            self.trouble[node.name] = _Trouble(self.rng.choice([60, 1000]), "clock")

    def go_down(self, node: HistoryNode) -> None:
        killed = self.rng.random() < 0.5
        if killed:
            node.be_killed(unwritten=self.rng.choice([0, 0, 1, 4]))
        else:
            node.stop()
        for broker in self.fleet:
            broker.links.pop(node.name, None)
        down = _Trouble(self.rng.choice([1, 6, 60, 400]), "killed" if killed else "stopped")
        self.trouble[node.name] = down

    def overcome(self, node: HistoryNode, end: str) -> None:
        warm = self.rng.random() < 0.7
        if end == "room":
            node.catch_up()
            if self.happens(3000):  # and again, while it states its tables anew
                node.begin_to_lose()
                self.trouble[node.name] = _Trouble(2, "room")
        elif end == "clock":
            node.skew_ms = self.rng.randint(-SKEW_MS, SKEW_MS)
        else:
            if self.rng.random() < 0.2:
                node.boot_machine()
            if end == "killed":
                node.recover(warm=warm)
            else:
                node.start(warm=warm)
