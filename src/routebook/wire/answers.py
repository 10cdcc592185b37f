"""What the answers of a NameServer say: routes, clusters, groups, topic lists, key-value tables.

The bodies come from Java servers of two generations as well as from ours: integer keys may be
bare or quoted, members may be missing, unknown ones are skipped.
"""

from typing import Any

import msgspec

from routebook.wire import fastjson
from routebook.wire.command import Int32, Int64
from routebook.wire.errors import BadBody, DialectError
from routebook.wire.registration import DataVersion, MappingInfo

MASTER_ID = 0
PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1


class BrokerGroup(
    msgspec.Struct,
    frozen=True,
    rename={
        "name": "brokerName",
        "addrs": "brokerAddrs",
        "acting_master": "enableActingMaster",
        "zone": "zoneName",
    },
):
    """Brokers of one name: broker id to address, 0 the master."""

    name: str
    cluster: str | None = None
    addrs: dict[Int64, str] = {}
    acting_master: bool = False
    zone: str | None = None

    @property
    def master(self) -> str | None:
        """The address of the master, or None while there is none."""
        return self.addrs.get(MASTER_ID)


class TopicQueues(
    msgspec.Struct,
    frozen=True,
    rename={
        "broker": "brokerName",
        "read_queues": "readQueueNums",
        "write_queues": "writeQueueNums",
        "sys_flag": "topicSysFlag",
    },
):
    """The queues of a topic on the brokers of one name."""

    broker: str
    read_queues: Int32 = 0
    write_queues: Int32 = 0
    perm: Int32 = 0
    sys_flag: Int32 = 0

    @property
    def readable(self) -> bool:
        """Whether clients may read the queues."""
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        """Whether clients may send to the queues."""
        return bool(self.perm & PERM_WRITE)


class RouteBody(
    msgspec.Struct,
    rename={
        "brokers": "brokerDatas",
        "queues": "queueDatas",
        "filter_servers": "filterServerTable",
        "order_conf": "orderTopicConf",
        "mappings": "topicQueueMappingByBroker",
    },
):
    brokers: list[BrokerGroup] | None = None
    queues: list[TopicQueues] | None = None
    filter_servers: dict[str, list[str]] | None = None
    order_conf: str | None = None
    mappings: dict[str, MappingInfo] | None = None


class ClusterBody(
    msgspec.Struct, rename={"brokers": "brokerAddrTable", "clusters": "clusterAddrTable"}
):
    brokers: dict[str, BrokerGroup] | None = None
    clusters: dict[str, list[str]] | None = None


class GroupBody(msgspec.Struct, rename="camel"):
    broker_member_group: BrokerGroup | None = None


class TopicListBody(msgspec.Struct, rename="camel"):
    topic_list: list[str] | None = None
    broker_addr: str | None = None


class KvBody(msgspec.Struct):
    table: dict[str, str] | None = None


class WriteState(msgspec.Struct, frozen=True):
    """What a Routebook node says of the write permission of a broker's topics.

    ``restored`` got it back just now. It is ``taken`` from topics the broker registered with it,
    and ``kept`` from those it registered without.
    """

    topics: int
    restored: int = 0
    taken: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


class _BodyDecoder:
    def __init__(self, what: str, shape: Any) -> None:
        self.what = what
        self.strict: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self.lax: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape, strict=False)

    def decode(self, body: bytes) -> Any:
        """Raises BadBody for anything else."""
        try:
            return self.strict.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return self.lax.decode(fastjson.normalised(body))
        except (DialectError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadBody(f"the body is not {self.what}: {error}") from error


_ROUTE = _BodyDecoder("a topic route", RouteBody)
_CLUSTER = _BodyDecoder("a cluster view", ClusterBody)
_GROUP = _BodyDecoder("a broker group", GroupBody)
_TOPICS = _BodyDecoder("a topic list", TopicListBody)
_KV = _BodyDecoder("a key-value table", KvBody)
_VERSION = _BodyDecoder("a data version", DataVersion)
_WRITE_STATE = _BodyDecoder("a state of write permission", WriteState)


def decode_route(body: bytes) -> RouteBody:
    decoded: RouteBody = _ROUTE.decode(body)
    return decoded


def decode_cluster(body: bytes) -> ClusterBody:
    decoded: ClusterBody = _CLUSTER.decode(body)
    return decoded


def decode_group(body: bytes) -> BrokerGroup | None:
    decoded: GroupBody = _GROUP.decode(body)
    return decoded.broker_member_group


def decode_topic_list(body: bytes) -> TopicListBody:
    decoded: TopicListBody = _TOPICS.decode(body)
    return decoded


def decode_kv(body: bytes) -> dict[str, str]:
    decoded: KvBody = _KV.decode(body)
    return decoded.table or {}


def decode_version(body: bytes) -> DataVersion:
    decoded: DataVersion = _VERSION.decode(body)
    return decoded


def decode_write_state(body: bytes) -> WriteState:
    decoded: WriteState = _WRITE_STATE.decode(body)
    return decoded
