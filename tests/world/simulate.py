"""The world at work: brokers, nodes and the network between them, one event after the other.

truth = happened(draw(7))
"""

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from world.book import Registration
from world.node import Node
from world.plan import (
    BEAT,
    BrokerPlan,
    BrokerStops,
    ClockSet,
    Cut,
    Deed,
    DiskFails,
    FleetPlan,
    NodeDown,
    NodePlan,
    NodeStalls,
    Plan,
    TopicSet,
)
from world.truth import EPOCH_MS, BrokerLife, Life, Span, Truth

_START_MS = 500  # nodes are there before brokers


def happened(plan: Plan) -> Truth:
    return _World(plan).run()


class _World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = Random(plan.seed * 7919 + 1)
        self.now_ms = 0.0
        self.truth = Truth(plan, [], {})
        self._todo: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.links = count(1)
        self.fleets = {fleet.name: _Fleet(self, fleet) for fleet in plan.fleets}

    def later(self, delay_ms: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._todo, (self.now_ms + delay_ms, next(self._order), do))

    def run(self) -> Truth:
        for deed in self.plan.deeds:
            self.later(deed.at_ms, lambda deed=deed: self.fleets[deed.fleet].suffer(deed))  # type: ignore[misc]
        while self._todo and self._todo[0][0] <= self.plan.lasts_ms:
            self.now_ms, _, do = heapq.heappop(self._todo)
            do()
        self.now_ms = float(self.plan.lasts_ms)
        for fleet in self.fleets.values():
            fleet.finish()
        return self.truth


class _Fleet:
    def __init__(self, world: _World, plan: FleetPlan) -> None:
        self.world = world
        self.plan = plan
        self.cuts: dict[tuple[str, str], float] = {}  # broker and node, until when
        self.nodes: dict[str, Node] = {}
        self._lives: dict[str, int] = {}
        for node in plan.nodes:
            world.later(_START_MS, lambda node=node: self._begin(node))  # type: ignore[misc]
        self.brokers = {broker.label: _Broker(self, broker) for broker in plan.brokers}

    def _begin(self, plan: NodePlan, clock: list[tuple[float, int]] | None = None) -> None:
        world = self.world
        self._lives[plan.name] = number = self._lives.get(plan.name, 0) + 1
        life = Life(plan.name, self.plan.name, f"life-{number}", plan.window_ms, plan.segment)
        life.clock = list(clock or [(0.0, plan.ahead_ms)])
        world.truth.lives.append(life)
        node = self.nodes[plan.name] = Node(
            life,
            Random(f"{world.plan.seed} {plan.name} {number}"),
            now_ms=lambda: world.now_ms,
            later=world.later,
            closed=self._hung_up,
        )
        node.start()

    def _hung_up(self, link: int) -> None:
        for broker in self.brokers.values():
            broker.hang_up(link)

    def finish(self) -> None:
        for node in self.nodes.values():
            node.finish()
        for broker in self.brokers.values():
            broker.finish()

    def is_cut(self, broker: str, node: str) -> bool:
        return self.cuts.get((broker, node), -1.0) > self.world.now_ms

    def suffer(self, deed: Deed) -> None:
        later = self.world.later
        match deed:
            case BrokerStops():
                broker = self.brokers[deed.broker]
                if broker.stop(deed.how):
                    later(deed.for_ms, broker.resume if deed.how == "hung" else broker.start)
            case TopicSet():
                self.brokers[deed.broker].set_topic(deed.topic, deed.queues)
            case NodeStalls():
                node = self.nodes[deed.node]
                if node.up:
                    node.stall()
                    later(deed.for_ms, lambda: node.wake(suspended=deed.suspended))
            case NodeDown():
                self._take_down(deed)
            case ClockSet():
                self.nodes[deed.node].set_clock(deed.by_ms)
            case Cut():
                until = self.world.now_ms + deed.for_ms
                pair = (deed.broker, deed.node)
                self.cuts[pair] = max(until, self.cuts.get(pair, 0.0))
            case DiskFails():
                self.nodes[deed.node].fail_disk(deed.for_ms)

    def _take_down(self, deed: NodeDown) -> None:
        node, later = self.nodes[deed.node], self.world.later
        if not node.up:
            return
        if deed.how == "stopped":
            node.stop()
        else:
            node.kill(alive_known=deed.alive_known)
        if deed.how == "replaced":
            node.finish()
            plan = next(each for each in self.plan.nodes if each.name == deed.node)
            later(deed.for_ms, lambda: self._begin(plan, [(0.0, node.life.clock[-1][1])]))
        else:
            later(deed.for_ms, node.back)


class _Broker:
    """A broker process, or the host on which there will be one."""

    def __init__(self, fleet: _Fleet, plan: BrokerPlan) -> None:
        self._fleet = fleet
        self._world = fleet.world
        self.plan = plan
        self._links: dict[str, int | None] = {}
        self._topics = {"orders": (4, 4, 6, 0), "refunds": (2, 2, 6, 0)}
        self._run = 0
        self._counter = 0
        self._began = 0.0
        self._hung_since: float | None = None
        self.alive = False
        self.life = BrokerLife(fleet.plan.name, plan.label, plan.addr)
        fleet.world.truth.brokers[fleet.plan.name, plan.label] = self.life
        fleet.world.later(plan.starts_ms, self.start)

    def start(self) -> None:
        if self.alive:
            return
        self.alive, self._began = True, self._world.now_ms
        self._run += 1
        self._counter += 1
        self._links = {}
        self._beat_of(self._run)

    def stop(self, how: str) -> bool:
        if not self.alive or self._hung_since is not None:
            return False
        now_ms = self._world.now_ms
        if how == "hung":
            self._hung_since = now_ms
            return True
        self.alive = False
        self.life.alive.append(Span(self._began, now_ms))
        for name, node in self._fleet.nodes.items():
            link = self._links.get(name)
            if link is None or self._fleet.is_cut(self.plan.label, name):
                continue
            said = self._said(link)
            if how == "unregistered":
                self._send(name, lambda node=node, said=said: node.hear_goodbye(said))  # type: ignore[misc]
            else:
                self._send(name, lambda node=node, s=said: node.hear_close(s.link, s.peer))  # type: ignore[misc]
        return True

    def resume(self) -> None:
        if self._hung_since is not None:
            self.life.hung.append(Span(self._hung_since, self._world.now_ms))
            self._hung_since = None
            self._beat()

    def set_topic(self, topic: str, queues: int) -> None:
        self._topics[topic] = (queues, queues, 6, 0)
        if self.alive and self._hung_since is None:
            self._counter += 1
            self._beat(registers=True)

    def hang_up(self, link: int) -> None:
        """A node closed this connection, or is gone."""
        for name, ours in self._links.items():
            if ours == link:
                self._links[name] = None

    def finish(self) -> None:
        if self.alive:
            self.life.alive.append(Span(self._began, self._world.now_ms + 1))
        if self._hung_since is not None:
            self.life.hung.append(Span(self._hung_since, self._world.now_ms + 1))

    def _beat_of(self, run: int) -> None:
        if not self.alive or self._run != run:
            return
        if self._hung_since is None:
            self._beat()
        wait_ms = BEAT - (self._world.now_ms - self.plan.beats_ms) % BEAT
        self._world.later(wait_ms, lambda: self._beat_of(run))

    def _beat(self, *, registers: bool = False) -> None:
        for name, node in self._fleet.nodes.items():
            if self._fleet.is_cut(self.plan.label, name) or not node.up:
                continue
            link = self._links.get(name)
            new = link is None
            if link is None:
                link = self._links[name] = next(self._world.links)
            said = self._said(link)

            def arrive(node: Node = node, said: Registration = said, new: bool = new) -> None:
                node.hear(said, registers=new or registers)

            self._send(name, arrive)

    def _said(self, link: int) -> Registration:
        stamp = (0, EPOCH_MS + int(self._began), self._counter)
        plan = self.plan
        return Registration(
            plan.cluster, plan.name, plan.broker_id, plan.addr, link, stamp, dict(self._topics)
        )

    def _send(self, name: str, arrive: Callable[[], None]) -> None:
        self._world.later(self._world.rng.randint(1, 20), arrive)
