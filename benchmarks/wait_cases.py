"""What `waits.py` plays: worlds a node may know, and what a peer does to it in each."""

import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.frames import encode_request

MAX_FRAME = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Scale:
    divisor: int

    def __call__(self, number: int) -> int:
        return max(2, number // self.divisor)


@dataclass(frozen=True, slots=True)
class Step:
    """Frames of one connection; ``counts`` is False for what only sets the stage."""

    frames: Sequence[bytes]
    answers: int = 1
    counts: bool = True
    then_closes: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    steps: Sequence[Step]


@dataclass(frozen=True, slots=True)
class World:
    name: str
    cases: Sequence[Case]
    brokers: Callable[[], Iterator[list[bytes]]] = field(default=lambda: iter(()))
    pairs: Callable[[], bytes] | None = None


def frame(code: int, body: bytes = b"", /, **fields: str) -> bytes:
    return encode_request(code, fields, body_bytes=len(body)) + body


def raw_frame(codec: int, header: bytes, body: bytes = b"") -> bytes:
    length = 4 + len(header) + len(body)
    return length.to_bytes(4, "big") + bytes([codec]) + len(header).to_bytes(3, "big") + header


def identity(name: str, number: int = 0, cluster: str = "c", addr: str = "") -> dict[str, str]:
    return {
        "brokerAddr": addr or f"{name}:10911",
        "brokerId": str(number),
        "brokerName": name,
        "clusterName": cluster,
        "heartbeatTimeoutMillis": "3600000",
    }


def topics(count: int, start: int = 0) -> list[str]:
    return [f"topic-{number:05d}" for number in range(start, start + count)]


def body(
    names: Sequence[str], *, counter: int = 1, mappings: bytes = b"{}", flag: int = 3
) -> bytes:
    table = b",".join(
        b'"%b":{"attributes":{},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":'
        b'"SINGLE_TAG","topicName":"%b","topicSysFlag":%d,"writeQueueNums":8}'
        % (name.encode(), name.encode(), 3)
        for name in names
    )
    return (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":%d,'
        b'"stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{%b},'
        b'"topicQueueMappingInfoMap":%b}}'
    ) % (counter, table, mappings)


def packed(names: Sequence[str]) -> bytes:
    def sized(piece: bytes) -> bytes:
        return len(piece).to_bytes(4, "big") + piece

    version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
    strings = [sized(f"{name} 8 8 6 SINGLE_TAG".encode()) for name in names]
    pieces = [sized(version), len(strings).to_bytes(4, "big"), *strings, sized(b"[]"), bytes(4)]
    return zlib.compress(b"".join(pieces))


def mapping_table(names: Sequence[str]) -> bytes:
    entries = (
        b'"%b":{"bname":"s","currIdMap":{0:0,1:1,2:2,3:3},"dirty":false,"epoch":1,"scope":'
        b'"__global__","topic":"%b","totalQueues":8}' % (name.encode(), name.encode())
        for name in names
    )
    return b"{" + b",".join(entries) + b"}"


def register(name: str, text: bytes, **more: str) -> bytes:
    return frame(103, text, **identity(name), **more)


def watch_body(names: Sequence[str]) -> bytes:
    return b'{"topics":{' + b",".join(b'"%b":""' % name.encode() for name in names) + b"}}"


def one(name: str, *frames: bytes) -> Case:
    return Case(name, [Step(frames, answers=len(frames))])


def strangers(scale: Scale) -> World:
    """A node that knows nobody, and 16 MiB of anything."""
    room = MAX_FRAME // scale.divisor - 4096
    filled = {
        "a string in single quotes": b"{'" + b"a" * room + b"':1}",
        "one of escapes": b"{'" + b"\\x41" * (room // 4) + b"':1}",
        "commas": b"[" + b"," * room + b"]",
        "spaces": b"{" + b" " * room + b"}",
        "braces": b"{" * room,
        "brackets": b"[" * room,
        "bare keys": b"{" + b"a:1," * (room // 4) + b"b:1}",
        "strings": b'{"filterServerList":[' + b'"",' * (room // 3) + b'""]}',
        "tiny topics": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{%b}}}'
        % b",".join(b'"%d":{}' % number for number in range(room // 13)),
        "one huge mapping": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{},'
        b'"topicQueueMappingInfoMap":{"t":{"topic":"t","bname":"b","currIdMap":{%b}}}}}'
        % b",".join(b'"%d":0' % number for number in range(room // 12)),
        "random bytes": os.urandom(room),
        "a zlib bomb": zlib.compress(bytes(60 * 1024 * 1024 // scale.divisor), 9),
    }
    entry = b"\0\1k\0\0\0\0"
    entries = entry * (room // len(entry))
    binary = b"\0\x64\0\0\0" + bytes(12) + len(entries).to_bytes(4, "big") + entries
    fields = b",".join(b'"%d":""' % number for number in range(room // 14))
    value = "v" * (room - 1024)
    cases = [one(f"103, 16 MiB: {name}", register("x", text)) for name, text in filled.items()]
    cases += [
        one("a binary header of tiny entries", raw_frame(1, binary[: 2**24 - 1])),
        one(
            "a JSON header of a million fields",
            raw_frame(0, b'{"code":105,"extFields":{%b},"opaque":1}' % fields),
        ),
        one("100 with a value of 16 MiB", frame(100, namespace="n", key="k", value=value)),
        one("105 with a body of 16 MiB", frame(105, bytes(room), topic="x")),
        one("217 with a body of 16 MiB", frame(217, b"{" * room, topic="x")),
        one("318 with a body of 16 MiB", frame(318, b"a=b\n" * (room // 4))),
        one("322 with a body of 16 MiB", frame(322, b"{" * room, **identity("x"))),
    ]
    empty = body([])
    for brokers in (5_000, 20_000):
        count = scale(brokers)
        crowd = [register(f"b{number}", empty) for number in range(count)]
        cases.append(
            Case(
                f"closing a connection of {brokers} brokers",
                [
                    Step(crowd, answers=count, counts=False),
                    Step([frame(319)], then_closes=True),
                ],
            )
        )
    count = scale(3_000)
    group = [
        frame(103, empty, **identity("group", number, addr=f"a{number}:1"))
        for number in range(count)
    ]
    cases.append(Case("a group of 3,000 ids, then closed", [Step(group, count, then_closes=True)]))
    count = scale(2_500)
    clusters = [
        frame(103, empty, **identity("shared", cluster=f"c{number}")) for number in range(count)
    ]
    cases.append(Case("one name in 2,500 clusters", [Step(clusters, count, then_closes=True)]))
    count = scale(20_000)
    crowd = [register(f"b{number}", empty) for number in range(count)]
    cases.append(
        Case("106 with 20,000 groups", [Step(crowd, count, counts=False), Step([frame(106)])])
    )
    return World("strangers", cases)


def large_broker(scale: Scale) -> World:
    """100,000 topics on one broker, 100,000 key-value pairs, and every code asked for."""
    count = scale(100_000)
    names = topics(count)
    big = {"brokerName": "big"}
    known = json.dumps({"queueDatas": [{"brokerName": "big", "perm": 6}] * scale(3_000)}).encode()
    cases: list[Case] = []
    for code, fields in (
        (101, {"namespace": "SPACE", "key": names[0]}),
        (102, {"namespace": "SPACE", "key": names[1]}),
        (100, {"namespace": "SPACE", "key": names[2], "value": "other"}),
        (105, {"topic": names[3]}),
        (106, {}),
        (205, big),
        (327, big),
        (206, {}),
        (216, {"topic": names[4]}),
        (219, {"namespace": "SPACE"}),
        (224, {"cluster": "c"}),
        (304, {}),
        (311, {}),
        (312, {}),
        (313, {}),
        (318, {}),
        (319, {}),
        (322, identity("big")),
        (901, big),
        (904, identity("big")),
        (19_001, {}),
        (19_002, {}),
        (19_003, {}),
        (19_004, {**big, "lookOnly": "true"}),
        (19_008, {}),
        (19_009, {"silences": "true"}),
    ):
        cases.append(one(f"{code}, 100,000 topics and pairs", frame(code, **fields)))
    cases.append(one("217, known names", frame(217, known, topic="new")))
    watched = frame(19_005, watch_body(names[: scale(10_000)]))
    cases.append(Case("19005, 10,000 topics", [Step([watched], answers=2)]))
    cases.append(one("19005, a million topics", frame(19_005, watch_body(topics(scale(900_000))))))
    long = [f"{number}-".ljust(390, "w") for number in range(scale(10_000))]
    unwatched = frame(19_007, json.dumps({"topics": long}).encode())
    # Both answers, and a frame that says there is nothing more to tell.
    named = [frame(19_005, watch_body(long)), unwatched]
    cases.append(Case("19005 and 19007, 10,000 long names", [Step(named, answers=3)]))
    # The broker lives by the connection it registers on last, and goes with it: from here on.
    cases += [
        one("103, 100,000 topics unchanged", register("big", body(names))),
        one("103, 100,000 topics changed", register("big", body(names, counter=2))),
        one("103, 100,000 topics, another broker", register("other", body(names))),
        one("103, 100,000 topics, compressed", register("third", packed(names))),
        one(
            "103, 100,000 static mappings",
            register("s", body(names[:2], mappings=mapping_table(names))[: MAX_FRAME - 4096]),
        ),
        one("103 with an order table", register("small", body(names[:2]))),
        one("104, 100,000 topics", frame(104, **identity("other"))),
    ]

    def pairs() -> bytes:
        space = dict.fromkeys(names, "value")
        order = dict.fromkeys(names, "broker-a:4;broker-b:4")
        tables = {"SPACE": space, "ORDER_TOPIC_CONFIG": order}
        return json.dumps({"configTable": tables}, separators=(",", ":")).encode()

    return World("one large broker", cases, lambda: iter([[register("big", body(names))]]), pairs)


def large_cluster(scale: Scale) -> World:
    """300 brokers with the same 10,000 topics; then half of them die."""
    names = topics(scale(10_000))
    count = scale(300)
    text = body(names)

    def brokers() -> Iterator[list[bytes]]:
        for number in range(count):
            yield [register(f"b{number}", text)]

    cases = [
        one(f"{code}, 300 x 10,000", frame(code, **fields))
        for code, fields in (
            (105, {"topic": names[0]}),
            (106, {}),
            (205, {"brokerName": "b0"}),
            (327, {"brokerName": "b0"}),
            (206, {}),
            (216, {"topic": names[4]}),
            (224, {"cluster": "c"}),
            (304, {}),
            (311, {}),
            (901, {"brokerName": "b0"}),
            (19_002, {}),
            (19_004, {"brokerName": "b0", "lookOnly": "true"}),
            (19_008, {}),
            (19_009, {"silences": "true"}),
        )
    ]
    # The answer, and the first frames.
    watched = frame(19_005, watch_body(names))
    cases.append(Case("19005, 300 x 10,000", [Step([watched], answers=4)]))
    dead = [
        register(f"d{number}", body(topics(len(names), 500_000))) for number in range(count // 2)
    ]
    for code in (311, 206):
        cases.append(
            Case(
                f"150 brokers dead, then {code}",
                [
                    Step(dead, len(dead), counts=False),
                    Step([frame(319)], then_closes=True),
                    Step([frame(code)]),
                ],
            )
        )
    return World("a large cluster", cases, brokers)


def worlds(scale: Scale) -> list[World]:
    return [strangers(scale), large_broker(scale), large_cluster(scale)]
