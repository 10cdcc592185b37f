"""What strangers have tried to make a node hold, each for so many seconds."""

import itertools
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache

from support import raw
from support.brokers import Broker
from support.builders import compressed_body, registration_body
from support.nodes import NodeProcess
from support.raw import Answer, BlockingPeer, Hangup

MIB = 1024 * 1024
RECENT, WATCH = 19_002, 19_005


class Toll:
    """How often the node took what it was sent, and what it said when it did not."""

    def __init__(self) -> None:
        self.taken = 0
        self.refused = 0
        self.hung_up = 0
        self.reason = ""

    def count(self, answer: Answer) -> None:
        if answer.code == raw.SUCCESS:
            self.taken += 1
        else:
            self.refused += 1
            self.reason = answer.remark or ""


Attack = Callable[[NodeProcess, float], Toll]


def from_host(node: NodeProcess, host: int) -> BlockingPeer:
    """A peer of its own address: 127.0.0.1 pays for itself only."""
    source = f"127.0.{host // 250}.{host % 250 + 1}"
    return BlockingPeer(node.port, timeout_s=60, source=source)


@contextmanager
def closing(peers: list[BlockingPeer]) -> Iterator[None]:
    try:
        yield
    finally:
        for peer in peers:
            peer.socket.close()


def broker(number: int) -> Broker:
    return Broker(f"b{number}", addr=f"10.{number // 62500}.{number // 250 % 250}.{number % 250}:1")


def registering(
    node: NodeProcess,
    seconds: float,
    bodies: Iterator[bytes],
    *,
    hosts: int = 40,
    at_last: Callable[[Toll], None] = lambda toll: None,
) -> Toll:
    """Register a broker for each body, over connections of many hosts that stay open.

    ``at_last`` is called before they are closed.
    """
    toll, until = Toll(), time.monotonic() + seconds
    peers: list[BlockingPeer] = []
    with closing(peers):
        for number, body in enumerate(bodies):
            if time.monotonic() > until:
                break
            if number < hosts:
                peers.append(from_host(node, number))
            try:
                fields = {**broker(number).fields, "compressed": str(body[:1] == b"x").lower()}
                toll.count(peers[number % len(peers)].ask(raw.REGISTER, fields, body))
            except Hangup:
                toll.hung_up += 1
                peers[number % len(peers)] = from_host(node, number % hosts)
        at_last(toll)
    return toll


def long_names(node: NodeProcess, seconds: float) -> Toll:
    """Little that inflates to much: names of 4,096 characters, then the longest allowed."""

    def bodies() -> Iterator[bytes]:
        for number in itertools.count():
            length = 390 if number % 10 else 4096
            topics = [f"{number}-{each}-".ljust(length, "x") for each in range(3_000)]
            yield compressed_body(topics)

    return registering(node, seconds, bodies())


@cache
def large_names() -> bytes:
    """30,000 names of 4,096 characters, alike but for their numbers: some 250 KiB."""
    packing = zlib.compressobj(9)
    version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    pieces = [packing.compress(_sized(version) + (30_000).to_bytes(4, "big"))]
    pieces += [
        packing.compress(_sized(b"%d-".ljust(4096, b"x") % number + b" 8 8 6 SINGLE_TAG {}"))
        for number in range(30_000)
    ]
    rest = _sized(b"[]") + (0).to_bytes(4, "big")
    return b"".join([*pieces, packing.compress(rest), packing.flush()])


def _sized(piece: bytes) -> bytes:
    return len(piece).to_bytes(4, "big") + piece


def inflated_names(node: NodeProcess, seconds: float) -> Toll:
    """Little that stands for 120 MiB of names, 300 in memory, as fast as it can be sent."""
    return registering(node, seconds, itertools.repeat(large_names()))


def wide_names(node: NodeProcess, seconds: float) -> Toll:
    """One character in each name that makes it four times as large."""

    def bodies() -> Iterator[bytes]:
        for number in itertools.count():
            topics = [f"\U0001f600{number}-{each}-".ljust(127, "x") for each in range(3_000)]
            yield compressed_body(topics)

    return registering(node, seconds, bodies())


def mappings(node: NodeProcess, seconds: float) -> Toll:
    """Few topics, with static mappings of millions of queues."""

    def bodies() -> Iterator[bytes]:
        text = b'{"bname":"b","currIdMap":{%b},"epoch":1,"topic":"%d-%d","totalQueues":4}'
        many = b",".join(b'"%d":%d' % (each, each) for each in range(400_000))
        some = b",".join(b'"%d":%d' % (each, each) for each in range(2_000))
        yield compressed_body(["a", "b"], mappings=[text % (many, 0, 0)])
        for number in itertools.count(1):
            listed = [text % (some, number, each) for each in range(50)]
            yield compressed_body(["a", "b"], mappings=listed)

    return registering(node, seconds, bodies())


@cache
def a_million_mappings() -> bytes:
    """875,000 queues in static mappings of two topics."""
    text = b'{"bname":"b%d","currIdMap":{%b},"epoch":1,"topic":"static","totalQueues":4}'
    queues = b",".join(b'"%d":%d' % (each, each) for each in range(1_000))
    return compressed_body(["a", "b"], mappings=[text % (each, queues) for each in range(875)])


def millions_of_mappings(node: NodeProcess, seconds: float) -> Toll:
    """Four registrations with 3.5 million queues in static mappings, and on."""
    return registering(node, seconds, itertools.repeat(a_million_mappings()))


def filter_lists(node: NodeProcess, seconds: float) -> Toll:
    def bodies() -> Iterator[bytes]:
        for number in itertools.count():
            servers = [f"{number}-{each}-".ljust(200, "f") for each in range(1000)]
            yield registration_body(filter_servers=servers)

    return registering(node, seconds, bodies())


def empty_brokers(node: NodeProcess, seconds: float) -> Toll:
    return registering(node, seconds, (registration_body([]) for _ in itertools.count()))


def odd_shapes(node: NodeProcess, seconds: float) -> Toll:
    def bodies() -> Iterator[bytes]:
        for number in itertools.count():
            yield compressed_body(
                {
                    f"{number}-{each}": {"readQueueNums": 1000 + each, "writeQueueNums": 9 + number}
                    for each in range(3_000)
                }
            )

    return registering(node, seconds, bodies())


def bombs(node: NodeProcess, seconds: float) -> Toll:
    bomb = zlib.compress(bytes(100 * MIB), 9)
    return registering(node, seconds, (bomb for _ in itertools.count()))


def plain_nothings(node: NodeProcess, seconds: float) -> Toll:
    """A frame as large as allowed, full of topics that say nothing."""
    topics = b",".join(b'"%x":{}' % number for number in range(1_300_000))
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + topics + b"}}}"
    return registering(node, seconds, (body for _ in itertools.count()))


def plain_lists(node: NodeProcess, seconds: float) -> Toll:
    """A list of four million filter servers, and one of queues."""
    servers = b'{"filterServerList":[' + b'"a",' * 4_000_000 + b'"a"]}'
    queues = b",".join(b'"%d":%d' % (number, number) for number in range(900_000))
    mapped = (
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{},"topicQueueMappingInfoMap":{"s":'
        b'{"topic":"s","bname":"b","currIdMap":{' + queues + b"}}}}}"
    )
    return registering(node, seconds, itertools.cycle([servers, mapped]))


def pairs(node: NodeProcess, seconds: float) -> Toll:
    """One pair, changed again and again: the latest records know every value."""
    toll, until = Toll(), time.monotonic() + seconds
    values = ["v" * 200_000, "w" * 200_000]
    with node.connect() as peer:
        for number in itertools.count():
            if time.monotonic() > until:
                return toll
            fields = {"namespace": "n", "key": "k", "value": values[number % 2]}
            toll.count(peer.ask(raw.PUT_KV, fields))
    raise AssertionError("there is no end to counting")


def pipelined_pairs(node: NodeProcess, seconds: float) -> Toll:
    """Values of a quarter of a megabyte, over many connections of many hosts at once."""
    toll, until = Toll(), time.monotonic() + seconds
    peers = [from_host(node, host) for host in range(16)]
    with closing(peers):
        for number in itertools.count():
            if time.monotonic() > until:
                break
            for host, peer in enumerate(peers):
                value = f"{number}-{host}-".ljust(200_000, "v")
                for key in ("a", "b"):
                    fields = {"namespace": "n", "key": f"{key}{host}", "value": value}
                    peer.send(raw.request(raw.PUT_KV, fields))
            for peer in peers * 2:
                toll.count(peer.read())
    return toll


def small_pairs(node: NodeProcess, seconds: float) -> Toll:
    toll, until = Toll(), time.monotonic() + seconds
    with node.connect() as peer:
        for number in itertools.count():
            if time.monotonic() > until:
                break
            for each in range(64):
                fields = {"namespace": "n", "key": f"{number:x}-{each:x}", "value": ""}
                peer.send(raw.request(raw.PUT_KV, fields))
            for _ in range(64):
                toll.count(peer.read())
    return toll


def large_bodies(node: NodeProcess, seconds: float) -> Toll:
    """Changes that wait for the disk, each with a body nobody reads."""
    toll, until = Toll(), time.monotonic() + seconds
    with ExitStack() as stack:
        peers = [stack.enter_context(node.connect()) for _ in range(8)]
        for number in itertools.count():
            if time.monotonic() > until:
                break
            fields = {"namespace": "n", "key": f"k{number}", "value": str(number)}
            frames = raw.request(raw.PUT_KV, fields, b"x" * (2 * MIB)) * 8
            for peer in peers:
                peer.send(frames)
            for peer in peers:
                for _ in range(8):
                    toll.count(peer.read())
    return toll


def unread(node: NodeProcess, seconds: float) -> Toll:
    """Three hundred readers that ask for lists of everything and do not read."""
    toll = Toll()
    with ExitStack() as stack:
        teller = stack.enter_context(node.connect())
        topics = [f"{'a-rather-long-topic-name-' * 4}{number}" for number in range(20_000)]
        toll.count(teller.ask(raw.REGISTER, broker(1).fields, compressed_body(topics)))
        for _ in range(300):
            deaf = stack.enter_context(node.connect())
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            with suppress(OSError):
                deaf.send(raw.request(raw.ALL_TOPICS) * 2)
        _bystanding(node, seconds)
    return toll


def unread_records(node: NodeProcess, seconds: float) -> Toll:
    """The largest answers there are, many at once for each connection."""
    toll = Toll()
    with ExitStack() as stack:
        teller = stack.enter_context(node.connect())
        for number in range(10):
            topics = [f"{number}-{each}".ljust(120, "t") for each in range(3000)]
            toll.count(teller.ask(raw.REGISTER, broker(number).fields, compressed_body(topics)))
        for _ in range(20):
            deaf = stack.enter_context(node.connect())
            deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            with suppress(OSError):
                deaf.send(raw.request(RECENT) * 64)
        _bystanding(node, seconds)
    return toll


def unfinished(node: NodeProcess, seconds: float) -> Toll:
    """Four thousand frames that are never complete."""
    toll, part = Toll(), raw.request(raw.ROUTE, {"topic": "t"}, b"x" * 100_000)[:60_000]
    with ExitStack() as stack:
        for _ in range(4000):
            with suppress(OSError):
                peer = stack.enter_context(node.connect())
                peer.socket.settimeout(0.05)
                peer.send(part)
                toll.taken += 1
        _bystanding(node, seconds)
    return toll


def watches(node: NodeProcess, seconds: float) -> Toll:
    """As many topics as a connection may watch, of the longest names, over and over."""
    toll, until = Toll(), time.monotonic() + seconds
    peers: list[BlockingPeer] = []
    with closing(peers):
        while time.monotonic() < until:
            number = len(peers)
            peers.append(from_host(node, number % 40))
            names = [f"{number}-{each}-".ljust(390, "w") for each in range(10_000)]
            body = json.dumps({"topics": dict.fromkeys(names, "")}).encode()
            toll.count(peers[-1].ask(WATCH, {}, body))
    return toll


def watched_brokers(node: NodeProcess, seconds: float) -> Toll:
    """Brokers of many topics that come and go, watched by many who do not read."""
    toll, until = Toll(), time.monotonic() + seconds
    names = [f"{each}-".ljust(390, "w") for each in range(5_000)]
    body = json.dumps({"topics": dict.fromkeys(names, ""), "feed": True}).encode()
    packed = compressed_body(names)
    peers: list[BlockingPeer] = []
    with closing(peers):
        for host in range(12):
            peers.append(from_host(node, host % 6))
            peers[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            toll.count(peers[-1].ask(WATCH, {}, body))
        teller = from_host(node, 20)
        peers.append(teller)
        for number in itertools.count():
            if time.monotonic() > until:
                break
            fields = {**broker(number).fields, "compressed": "true"}
            toll.count(teller.ask(raw.REGISTER, fields, packed))
            toll.count(teller.ask(raw.UNREGISTER, fields))
    return toll


def _bystanding(node: NodeProcess, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with node.connect() as bystander:
            assert bystander.call(raw.ROUTE, topic="nobody").code == raw.TOPIC_NOT_EXIST
        time.sleep(0.05)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        long_names,
        inflated_names,
        wide_names,
        mappings,
        millions_of_mappings,
        filter_lists,
        empty_brokers,
        odd_shapes,
        bombs,
        plain_nothings,
        plain_lists,
        pairs,
        pipelined_pairs,
        small_pairs,
        large_bodies,
        unread,
        unread_records,
        unfinished,
        watches,
        watched_brokers,
    )
}
