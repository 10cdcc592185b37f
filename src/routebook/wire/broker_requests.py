r"""What a broker sends to be listed: the requests, and the body of REGISTER_BROKER.

Two forms of body. Plain: JSON with the members of a 5.x broker in fastjson's order, which 4.9 and
5.x servers read alike. Packed: one zlib stream of length-prefixed pieces,

    data version | count, topic strings | filter servers | count of static mappings

where a topic string is ``name read write perm SINGLE_TAG``. A 5.x server takes five fields or
six, a 4.9 server exactly five, so the attributes, which no NameServer reads, stay out. System
flags and the order flag have no place in this form.

Topics are encoded apart from the body around them, so that a long list can be cut to size.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from struct import Struct

import msgspec

from routebook.wire import bodies
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import Command
from routebook.wire.headers import MAX_NAME, BrokerIdentity, RegisterBrokerHeader
from routebook.wire.registration import DataVersion, crc32

MAX_ATTRIBUTES = 8 * 1024  # characters of all attributes of one topic
MAX_PERM = 15
_MAX_INT = 2**31 - 1
_FILTER_TYPE = "SINGLE_TAG"
_ZLIB_LEVEL = 6  # Java writes 9, which costs four times as much for 2% less
_INT = Struct(">i")


class Topic(msgspec.Struct, frozen=True, gc=False):
    """A topic as one broker offers it. ``perm``: 4 read, 2 write, 1 inherit.

    Raises ValueError for a topic no NameServer would list.
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = 6
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}

    def __post_init__(self) -> None:
        name = self.name
        if not name or len(name) > MAX_NAME or " " in name or not name.isprintable():
            raise ValueError(
                f"a topic name must be 1 to {MAX_NAME} printable characters without spaces,"
                f" not {name[:80]!r}"
            )
        for what, number, highest in (
            ("read_queues", self.read_queues, _MAX_INT),
            ("write_queues", self.write_queues, _MAX_INT),
            ("perm", self.perm, MAX_PERM),
            ("sys_flag", self.sys_flag, _MAX_INT),
        ):
            if not 0 <= number <= highest:
                raise ValueError(
                    f"{what} of topic {name[:80]} must be 0 to {highest}, not {number}"
                )
        if self.attributes:
            texts = [*self.attributes, *self.attributes.values()]
            if sum(map(len, texts)) > MAX_ATTRIBUTES or not all(t.isprintable() for t in texts):
                raise ValueError(
                    f"the attributes of topic {name[:80]} must be printable and at most"
                    f" {MAX_ATTRIBUTES} characters in all"
                )


class _PlainTopic(msgspec.Struct, rename="camel", gc=False):
    attributes: dict[str, str]
    order: bool
    perm: int
    read_queue_nums: int
    topic_filter_type: str
    topic_name: str
    topic_sys_flag: int
    write_queue_nums: int


_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class TopicSlice:
    """Some topics, encoded to be joined with others."""

    count: int
    encoded: bytes


def plain_slice(topics: Sequence[Topic]) -> TopicSlice:
    """Members of ``topicConfigTable`` without the braces around them."""
    table = {
        topic.name: _PlainTopic(
            topic.attributes,
            topic.order,
            topic.perm,
            topic.read_queues,
            _FILTER_TYPE,
            topic.name,
            topic.sys_flag,
            topic.write_queues,
        )
        for topic in topics
    }
    return TopicSlice(len(table), _encoder.encode(table)[1:-1])


def plain_body(
    version: DataVersion, slices: Iterable[TopicSlice], *, mapping_version: DataVersion
) -> bytes:
    return (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%b,'
        b'"mappingDataVersion":%b,"topicConfigTable":{%b},"topicQueueMappingDetailMap":{},'
        b'"topicQueueMappingInfoMap":{}}}'
    ) % (
        bodies.data_version(version),
        bodies.data_version(mapping_version),
        b",".join([piece.encoded for piece in slices]),
    )


def packed_slice(topics: Sequence[Topic]) -> TopicSlice:
    """Topic strings, each behind its length."""
    texts = [
        f"{t.name} {t.read_queues} {t.write_queues} {t.perm} {_FILTER_TYPE}".encode()
        for t in topics
    ]
    return TopicSlice(len(texts), b"".join([_sized(text) for text in texts]))


def packed_body(version: DataVersion, slices: Sequence[TopicSlice]) -> bytes:
    pieces = [
        _sized(bodies.data_version(version)),
        _INT.pack(sum(piece.count for piece in slices)),
        *(piece.encoded for piece in slices),
        _sized(b"[]"),
        _INT.pack(0),
    ]
    return zlib.compress(b"".join(pieces), _ZLIB_LEVEL)


def _sized(piece: bytes) -> bytes:
    return _INT.pack(len(piece)) + piece


def register_broker(header: RegisterBrokerHeader, body: bytes) -> Command:
    """The checksum of ``header`` is made here, of the body as it is sent."""
    return _request(
        RequestCode.REGISTER_BROKER,
        _registration_fields(replace(header, body_crc32=crc32(body))),
        body,
    )


def unregister_broker(broker: BrokerIdentity) -> Command:
    return _request(RequestCode.UNREGISTER_BROKER, _identity_fields(broker))


def query_data_version(broker: BrokerIdentity, version: DataVersion) -> Command:
    return _request(
        RequestCode.QUERY_DATA_VERSION, _identity_fields(broker), bodies.data_version(version)
    )


def broker_heartbeat(broker: BrokerIdentity) -> Command:
    fields = _identity_fields(broker)
    del fields["brokerId"]
    return _request(RequestCode.BROKER_HEARTBEAT, fields)


def register_topic(topic: Topic, broker_name: str) -> Command:
    """REGISTER_TOPIC_IN_NAMESRV: one topic, added to what the server knows of the broker."""
    queues = bodies.queue_data(
        broker_name,
        perm=topic.perm,
        read_queues=topic.read_queues,
        sys_flag=topic.sys_flag,
        write_queues=topic.write_queues,
        standard=False,
    )
    body = bodies.topic_route(
        [], [queues], filter_servers={}, order_conf=None, mappings=[], standard=False
    )
    return _request(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic.name}, body)


def _identity_fields(broker: BrokerIdentity) -> dict[str, str | None]:
    return {
        "brokerAddr": broker.addr,
        "brokerId": str(broker.broker_id),
        "brokerName": broker.name,
        "clusterName": broker.cluster,
    }


def _registration_fields(header: RegisterBrokerHeader) -> dict[str, str | None]:
    fields = _identity_fields(header.broker)
    fields["bodyCrc32"] = str(header.body_crc32)
    fields["compressed"] = _boolean(header.compressed)
    if header.acting_master is not None:
        fields["enableActingMaster"] = _boolean(header.acting_master)
    if header.ha_server_addr is not None:
        fields["haServerAddr"] = header.ha_server_addr
    if header.heartbeat_timeout_ms is not None:
        fields["heartbeatTimeoutMillis"] = str(header.heartbeat_timeout_ms)
    if header.zone is not None:
        fields["__ZONE_NAME"] = header.zone
    return fields


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _request(code: RequestCode, fields: dict[str, str | None], body: bytes = b"") -> Command:
    return Command(code=code, version=Version.V5_5_0, ext_fields=fields, body=body)
