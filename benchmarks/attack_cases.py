"""The attacks that `attacks.py` plays: what can be done to any NameServer, and has been."""

import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.attackers import ENDLESS, Wave
from benchmarks.frames import route_query
from benchmarks.wait_cases import (
    MAX_FRAME,
    Scale,
    body,
    frame,
    identity,
    mapping_table,
    raw_frame,
    topics,
)

FLOOD_S, QUICK_FLOOD_S = 5.0, 0.5
BYSTANDER_TOPIC = "bystander"


@dataclass(frozen=True, slots=True)
class Attack:
    """Waves one after the other on a fresh server, which may open ``files`` and finds ``pairs``."""

    title: str
    waves: Callable[[], Sequence[Wave]]
    pairs: Callable[[], bytes] | None = None
    files: int | None = None


def register(name: str, text: bytes, number: int = 0, **more: str) -> bytes:
    """As a broker does: the Java NameServer wants the address of the other port as well."""
    fields = identity(name, number) | {"haServerAddr": f"{name}:10912"} | more
    return frame(103, text, **fields)


EMPTY = body([])


def once(*frames: bytes) -> Wave:
    return Wave(lambda number: iter(frames))


def stage(*frames: bytes) -> Wave:
    return Wave(lambda number: iter(frames), counts=False, seconds=20.0)


def flood_s(scale: Scale) -> float:
    return FLOOD_S if scale.divisor == 1 else QUICK_FLOOD_S


def compressed(name: str, names: Iterator[str], mappings: Sequence[Iterator[bytes]] = ()) -> bytes:
    """A compressed registration, made piece by piece: unpacked it is larger than a frame may be."""
    packing = zlib.compressobj(9)
    parts: list[bytes] = []

    def sized(piece: bytes) -> None:
        parts.append(packing.compress(len(piece).to_bytes(4, "big") + piece))

    listed = list(names)
    sized(b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}')
    parts.append(packing.compress(len(listed).to_bytes(4, "big")))
    for each in listed:
        sized(f"{each} 8 8 6 SINGLE_TAG {{}}".encode())
    sized(b"[]")
    parts.append(packing.compress(len(mappings).to_bytes(4, "big")))
    for number, queues in enumerate(mappings):
        sized(
            b'{"bname":"%b","currIdMap":{%b},"dirty":false,"epoch":1,"scope":"__global__",'
            b'"topic":"m%d","totalQueues":8}' % (name.encode(), b",".join(queues), number)
        )
    parts.append(packing.flush())
    return register(name, b"".join(parts), compressed="true")


def tables(**spaces: dict[str, str]) -> bytes:
    return json.dumps({"configTable": spaces}, separators=(",", ":")).encode()


def closing(scale: Scale) -> Iterator[Attack]:
    for brokers in (5_000, 10_000, 20_000):

        def waves(count: int = scale(brokers)) -> Sequence[Wave]:
            crowd = (register(f"b{number}", EMPTY) for number in range(count))
            return [
                Wave(lambda number: crowd, counts=False, then_closes=True, seconds=30.0),
                once(frame(319)),
            ]

        yield Attack(f"closing a connection of {brokers:,} brokers", waves)
    for ids in (3_000, 6_000):

        def group(count: int = scale(ids)) -> Sequence[Wave]:
            members = (
                register("group", EMPTY, number, brokerAddr=f"a{number}:1")
                for number in range(count)
            )
            return [Wave(lambda number: members, then_closes=True, seconds=15.0)]

        yield Attack(f"a group of {ids:,} ids, then closed", group)

    def clusters() -> Sequence[Wave]:
        names = (f"c{number}" for number in range(scale(2_500)))
        return [once(*(register("shared", EMPTY, clusterName=name) for name in names))]

    yield Attack("one broker name in 2,500 clusters", clusters)


def frames_of_16_mib(scale: Scale) -> Iterator[Attack]:
    room = MAX_FRAME // scale.divisor - 4096

    def binary() -> Sequence[Wave]:
        entry = b"\0\1k\0\0\0\0"
        entries = entry * (room // len(entry))
        head = b"\0\x69\0\0\0" + bytes(12) + len(entries).to_bytes(4, "big")
        return [once(raw_frame(1, head + entries))]

    def fields() -> Sequence[Wave]:
        listed = b",".join(b'"%d":""' % number for number in range(room // 14))
        return [once(raw_frame(0, b'{"code":105,"extFields":{%b},"opaque":1}' % listed))]

    def mappings() -> Sequence[Wave]:
        count = min(scale(100_000), (room - 4096) // 140)
        table = mapping_table(topics(count))
        return [once(register("s", body(["a", "b"], mappings=table)))]

    yield Attack(
        "103: a single-quoted string of 16 MiB",
        lambda: [once(register("x", b"{'" + b"a" * room + b"':1}"))],
    )
    yield Attack("103: 16 MiB of commas", lambda: [once(register("x", b"[" + b"," * room + b"]"))])
    yield Attack("103: 16 MiB of random bytes", lambda: [once(register("x", os.urandom(room)))])
    yield Attack("a binary header of 16 MiB of tiny entries", binary)
    yield Attack("a JSON header of a million fields", fields)
    yield Attack("103: 100,000 static mappings", mappings)


def large_tables(scale: Scale) -> Iterator[Attack]:
    count = scale(100_000)

    def big() -> bytes:
        names = topics(count)
        table = b",".join(
            b'"%b":{"perm":6,"readQueueNums":8,"topicName":"%b","writeQueueNums":8}'
            % (name.encode(), name.encode())
            for name in names
        )
        return register(
            "big",
            b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,'
            b'"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{%b}}}' % table,
        )

    def groups() -> Sequence[Wave]:
        crowd = (register(f"b{number}", EMPTY) for number in range(scale(20_000)))
        return [
            Wave(lambda number: crowd, counts=False, seconds=30.0),
            once(*[frame(106)] * 4),
        ]

    yield Attack("103: 100,000 topics", lambda: [once(big())])
    yield Attack(
        "205 of a broker with 100,000 topics",
        lambda: [stage(big()), once(*[frame(205, brokerName="big")] * 4)],
    )
    yield Attack("106 with 20,000 broker names", groups)
    yield Attack(
        "103 beside an order table of 100,000 keys",
        lambda: [once(*[register("small", body(["a", "b"]))] * 8)],
        pairs=lambda: tables(
            ORDER_TOPIC_CONFIG=dict.fromkeys(topics(count), "broker-a:4;broker-b:4")
        ),
    )


def bombs(scale: Scale) -> Iterator[Attack]:
    def names() -> Sequence[Wave]:
        return [
            once(
                *(
                    compressed(
                        f"n{broker}",
                        (f"{number}-".ljust(4_096, "x") for number in range(scale(30_000))),
                    )
                    for broker in range(4)
                )
            )
        ]

    def mappings() -> Sequence[Wave]:
        def queues() -> Iterator[bytes]:
            return (b'"%d":%d' % (each, each) for each in range(scale(875_000)))

        return [once(compressed("m", iter(["a", "b"]), [queues() for _ in range(4)]))]

    yield Attack("103: 495 KiB, 480 MiB when unpacked", names)
    yield Attack("103: 3.5 million mapped queues, compressed", mappings)


def floods(scale: Scale) -> Iterator[Attack]:
    lasting = flood_s(scale)
    route = json.dumps({"queueDatas": [{"brokerName": "bystander", "perm": 6}]}).encode()

    def new_topics(number: int) -> Iterator[bytes]:
        return (frame(217, route, topic=f"n{number}-{each}") for each in itertools.count())

    def values(number: int, length: int) -> Iterator[bytes]:
        value = "v" * length
        return (
            frame(100, namespace="n", key=f"{number}-{each}", value=value)
            for each in itertools.count()
        )

    def conflicts(number: int) -> Iterator[bytes]:
        """Two addresses that want to be the same broker, and one that is refused."""
        made = [
            register(f"b{number}", EMPTY),
            register(f"b{number}", EMPTY, brokerAddr="other:1", clusterName="d"),
            register(f"b{number}", body(["t", "u"])[:-4]),
        ]
        return itertools.cycle(made)

    def unread() -> Sequence[Wave]:
        names = [f"{'a-rather-long-topic-name-' * 4}{each}" for each in range(scale(20_000))]
        asked = frame(206) * 2
        deaf = Wave(
            lambda number: iter([asked]),
            scale(300),
            window=ENDLESS,
            batch=2,
            reads=False,
            seconds=lasting,
        )
        return [stage(register("big", body(names))), deaf]

    yield Attack("a flood of 217 with new topics", lambda: [Wave(new_topics, 4, seconds=lasting)])
    yield Attack(
        "a flood of 100 with values of 1 MiB",
        lambda: [Wave(lambda number: values(number, 1 << 20), 8, 4, seconds=lasting)],
    )
    yield Attack(
        "a flood of 100 with values of 50 KiB",
        lambda: [Wave(lambda number: values(number, 50 * 1024), 8, 4, seconds=lasting)],
    )
    yield Attack("a flood of conflicts and refusals", lambda: [Wave(conflicts, 8, seconds=lasting)])
    yield Attack("300 connections that ask for 206 and do not read", unread)


def crowds(scale: Scale) -> Iterator[Attack]:
    query, lasting = route_query(BYSTANDER_TOPIC), flood_s(scale)
    yield Attack(
        "100 connections that pipeline route queries",
        lambda: [
            Wave(
                lambda number: itertools.repeat(query * 64),
                scale(100),
                window=ENDLESS,
                batch=64,
                seconds=lasting,
            )
        ],
    )
    yield Attack(
        "1,024 connections at once",
        lambda: [Wave(lambda number: iter([query] * 8), scale(1_024), window=1)],
    )
    yield Attack(
        "400 connections where 256 files may be open",
        lambda: [
            Wave(lambda number: iter([query]), 400, window=1, seconds=lasting),
        ],
        files=256,
    )


def attacks(scale: Scale) -> list[Attack]:
    kinds = (closing, frames_of_16_mib, large_tables, bombs, floods, crowds)
    return [attack for kind in kinds for attack in kind(scale)]
