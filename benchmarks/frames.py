"""Just enough of the remoting protocol to set the stage: registrations, route queries, answers.

Independent of ``src/routebook`` on purpose: what is measured does not also build the questions.
Bodies look like those of a 5.5.0 broker, members in alphabetical order.
"""

import json
import socket
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

REGISTER_BROKER = 103
GET_ROUTEINFO_BY_TOPIC = 105
VERSION_5_5_0 = 513
# Ten digits, as in Load.java, so that every request to one topic has the same length.
OPAQUE = 1_000_000_000
# Longer than any run: the benchmark, not the clock, decides how long a broker lives.
HEARTBEAT_TIMEOUT_MS = 3_600_000


class UnexpectedAnswer(Exception):
    """A server answered something that makes every later figure meaningless."""


@dataclass(frozen=True, slots=True)
class Broker:
    number: int

    @property
    def name(self) -> str:
        return f"bench-broker-{self.number:03}"

    @property
    def address(self) -> str:
        return f"10.1.{self.number // 250}.{self.number % 250 + 1}:10911"


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    remark: str
    body: bytes


def encode_request(
    code: int, ext_fields: dict[str, str], *, body_bytes: int = 0, opaque: int = OPAQUE
) -> bytes:
    """Encode a frame up to where its body begins: length words and header."""
    fields = {
        "code": code,
        "extFields": ext_fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION_5_5_0,
    }
    header = json.dumps(fields, separators=(",", ":")).encode()
    length = 4 + len(header) + body_bytes
    return length.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


def route_query(topic: str) -> bytes:
    return encode_request(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})


def topic_table(names: Iterable[str], *, queues: int = 8) -> bytes:
    """Encode the ``topicConfigTable`` of a registration: by far its largest part, often shared."""
    return b"{" + b",".join(_topic_entry(name, queues) for name in names) + b"}"


def _topic_entry(name: str, queues: int) -> bytes:
    return (
        f'"{name}":{{"attributes":{{}},"order":false,"perm":6,"readQueueNums":{queues},'
        f'"topicFilterType":"SINGLE_TAG","topicName":"{name}","topicSysFlag":0,'
        f'"writeQueueNums":{queues}}}'
    ).encode()


def registration(broker: Broker, table: bytes, *, timestamp_ms: int) -> tuple[bytes, ...]:
    """Return the pieces of one registration frame; ``table`` is one of them, not copied."""
    version = f'{{"counter":1,"stateVersion":0,"timestamp":{timestamp_ms}}}'
    before = (
        '{"filterServerList":[],"topicConfigSerializeWrapper":'
        f'{{"dataVersion":{version},"mappingDataVersion":{version},"topicConfigTable":'
    ).encode()
    after = b',"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
    crc = zlib.crc32(after, zlib.crc32(table, zlib.crc32(before))) & 0x7FFFFFFF
    head = encode_request(
        REGISTER_BROKER,
        {
            "bodyCrc32": str(crc),
            "brokerAddr": broker.address,
            "brokerId": "0",
            "brokerName": broker.name,
            "clusterName": "BenchCluster",
            "compressed": "false",
            "enableActingMaster": "false",
            "haServerAddr": broker.address.replace(":10911", ":10912"),
            "heartbeatTimeoutMillis": str(HEARTBEAT_TIMEOUT_MS),
        },
        body_bytes=len(before) + len(table) + len(after),
    )
    return head + before, table, after


def decode_answer(frame: bytes) -> Answer:
    """Read one whole frame, its length word included."""
    header_bytes = int.from_bytes(frame[5:8], "big")
    header: dict[str, Any] = json.loads(frame[8 : 8 + header_bytes])
    return Answer(int(header["code"]), str(header.get("remark", "")), frame[8 + header_bytes :])


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(connection: socket.socket, *pieces: bytes) -> Answer:
    """Send one frame and wait for its answer; the connection has nothing else in flight.

    Raises UnexpectedAnswer also when the connection breaks or no answer comes in time.
    """
    try:
        for piece in pieces:
            connection.sendall(piece)
        with connection.makefile("rb") as answers:
            prefix = answers.read(4)
            rest = answers.read(int.from_bytes(prefix, "big"))
    except OSError as error:
        raise UnexpectedAnswer(f"no answer: {error}") from error
    if len(prefix) < 4 or len(rest) < int.from_bytes(prefix, "big"):
        raise UnexpectedAnswer("the server closed the connection instead of answering")
    return decode_answer(prefix + rest)


def brokers_in_route(answer: Answer) -> int:
    """Count the brokers a route answer names; 0 when there is no such topic."""
    if answer.code != 0:
        return 0
    route: dict[str, Any] = json.loads(answer.body)
    return len(route["brokerDatas"])
