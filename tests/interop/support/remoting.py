"""The remoting protocol in its simplest form: JSON headers, one request at a time.

Written apart from the code under test on purpose, so that a mistake there cannot hide here.
"""

import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

GET_MAX_OFFSET = 30
GET_ALL_TOPIC_CONFIG = 21
GET_KV_CONFIG = 101
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106

SUCCESS = 0
QUERY_NOT_FOUND = 22

STANDARD_JSON_VERSION = 401  # V4_9_4: from here on route answers have quoted keys


@dataclass(frozen=True, slots=True)
class Reply:
    code: int
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Connection:
    def __init__(self, address: str, *, tls: bool = False, timeout_s: float = 5.0) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        if tls:
            self._socket = _trusting_context().wrap_socket(self._socket)
        self._opaque = 0

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def call(self, code: int, /, **ext_fields: str) -> Reply:
        """Send one request and wait for its answer. Raises EOFError when the server hangs up."""
        self._opaque += 1
        header = {
            "code": code,
            "extFields": ext_fields,
            "flag": 0,
            "language": "OTHER",
            "opaque": self._opaque,
            "version": STANDARD_JSON_VERSION,
        }
        header_bytes = json.dumps(header).encode()
        self._socket.sendall(_i32(4 + len(header_bytes)) + _i32(len(header_bytes)) + header_bytes)
        while True:
            frame = self._take(int.from_bytes(self._take(4), "big"))
            header_length = int.from_bytes(frame[1:4], "big")
            answer = json.loads(frame[4 : 4 + header_length])
            if answer["opaque"] == self._opaque and answer["flag"] & 1:
                return Reply(
                    code=answer["code"],
                    remark=answer.get("remark"),
                    ext_fields=answer.get("extFields") or {},
                    body=frame[4 + header_length :],
                )

    def _take(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            piece = self._socket.recv(count - len(taken))
            if not piece:
                raise EOFError(f"connection closed after {len(taken)} of {count} bytes")
            taken += piece
        return bytes(taken)


def find_route(address: str, topic: str) -> dict[str, Any] | None:
    """Return the route the name server at ``address`` gives for a topic, None if it has none."""
    with Connection(address) as name_server:
        reply = name_server.call(GET_ROUTEINFO_BY_TOPIC, topic=topic)
    return json.loads(reply.body) if reply.code == SUCCESS else None


def broker_addrs(address: str, broker_name: str, *, tls: bool = False) -> dict[str, str]:
    """Addresses by broker id, as cluster info (106) lists them; empty for an unknown broker."""
    with Connection(address, tls=tls) as name_server:
        reply = name_server.call(GET_BROKER_CLUSTER_INFO)
    cluster_info = loads_with_bare_keys(reply.body)
    broker = cluster_info["brokerAddrTable"].get(broker_name, {})
    return dict(broker.get("brokerAddrs", {}))


def stored_messages(broker_address: str, topic: str, *, queues: int) -> int:
    """How many messages the broker itself says it holds in ``topic``."""
    with Connection(broker_address) as broker:
        replies = [
            broker.call(GET_MAX_OFFSET, topic=topic, queueId=str(queue)) for queue in range(queues)
        ]
    return sum(int(reply.ext_fields.get("offset", "0")) for reply in replies)


def topics_of_broker(broker_address: str) -> set[str]:
    """Topic names in the broker's own table."""
    with Connection(broker_address) as broker:
        reply = broker.call(GET_ALL_TOPIC_CONFIG)
    return set(loads_with_bare_keys(reply.body)["topicConfigTable"])


def loads_with_bare_keys(text: bytes) -> Any:
    """Read fastjson's form of a map with integer keys: ``{0:"a"}`` is not JSON."""
    return json.loads(re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', text))


def _trusting_context() -> ssl.SSLContext:
    """Accept any certificate, as RocketMQ clients do by default (tls.test.mode.enable)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big")
