"""JSON bodies exactly as they look on the wire.

Members in alphabetical order, no spaces, nulls left out, integer keys bare. ``standard`` asks
for the form route answers have for 4.9.4 and later: keys quoted, text in ASCII, longs a
browser cannot hold as strings.

A route answer is put together from pieces that are encoded once: ``broker_data`` for
each broker group, ``queue_data`` for each group and queue shape.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

import msgspec

from routebook.slices import Slices, finished
from routebook.wire import fastjson
from routebook.wire.command import Int32
from routebook.wire.errors import BadRequest, BodyTooLarge, DialectError
from routebook.wire.fastjson import (
    quoted,
    quoted_list_slices,
    quoted_map_slices,
    quoted_standard,
)
from routebook.wire.registration import DataVersion

T = TypeVar("T")

_BROWSER_SAFE = 2**53 - 1
PIECES_A_SLICE = 500
MAX_QUEUE_DATAS = 256 * 1024


class QueueData(msgspec.Struct, rename="camel"):
    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


class _TopicRoute(msgspec.Struct, rename="camel"):
    queue_datas: list[QueueData] | None = None


_TOPIC_ROUTE = msgspec.json.Decoder(_TopicRoute | None, strict=False)


def decode_queue_datas(body: bytes) -> Slices[list[QueueData]]:
    """The queue data of a topic route, in slices; raises BadRequest."""
    if not body:
        return []
    if len(body) > MAX_QUEUE_DATAS:
        raise BodyTooLarge("a topic route", MAX_QUEUE_DATAS)
    try:
        route = _TOPIC_ROUTE.decode((yield from fastjson.normalised_slices(body)))
    except (DialectError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"body is not a topic route: {error}") from error
    return (route.queue_datas if route else None) or []


def broker_addrs(addrs: Mapping[int, str], *, standard: bool = False) -> bytes:
    if standard:
        return (
            b"{"
            + b",".join([b'"%d":%b' % (i, quoted_standard(a)) for i, a in addrs.items()])
            + b"}"
        )
    return b"{" + b",".join([b"%d:%b" % (i, quoted(a)) for i, a in addrs.items()]) + b"}"


def broker_data(
    addrs: Mapping[int, str],
    name: str,
    cluster: str,
    *,
    acting_master: bool,
    zone: str | None,
    standard: bool,
) -> bytes:
    quote = quoted_standard if standard else quoted
    return b'{"brokerAddrs":%b,"brokerName":%b,"cluster":%b,"enableActingMaster":%b%b}' % (
        broker_addrs(addrs, standard=standard),
        quote(name),
        quote(cluster),
        b"true" if acting_master else b"false",
        b"" if zone is None else b',"zoneName":' + quote(zone),
    )


def queue_data(
    name: str, *, perm: int, read_queues: int, sys_flag: int, write_queues: int, standard: bool
) -> bytes:
    return (
        b'{"brokerName":%b,"perm":%d,"readQueueNums":%d,"topicSysFlag":%d,"writeQueueNums":%d}'
    ) % (
        quoted_standard(name) if standard else quoted(name),
        perm,
        read_queues,
        sys_flag,
        write_queues,
    )


def queue_mapping(
    *,
    bname: str,
    curr_id_map: Iterable[tuple[int, int]],
    dirty: bool,
    epoch: int,
    scope: str | None,
    topic: str,
    total_queues: int,
    standard: bool,
) -> bytes:
    """One entry of ``topicQueueMappingByBroker``, its key included."""
    return finished(
        queue_mapping_slices(
            bname=bname,
            curr_id_map=curr_id_map,
            dirty=dirty,
            epoch=epoch,
            scope=scope,
            topic=topic,
            total_queues=total_queues,
            standard=standard,
        )
    )


def queue_mapping_slices(
    *,
    bname: str,
    curr_id_map: Iterable[tuple[int, int]],
    dirty: bool,
    epoch: int,
    scope: str | None,
    topic: str,
    total_queues: int,
    standard: bool,
) -> Slices[bytes]:
    """``queue_mapping``; there may be a million queues."""
    quote = quoted_standard if standard else quoted
    pattern = b'"%d":%d' if standard else b"%d:%d"
    ids = yield from _joined(curr_id_map, lambda pair: pattern % pair)
    return (
        b'%b:{"bname":%b,"currIdMap":{%b},"dirty":%b,"epoch":%b,%b"topic":%b,"totalQueues":%d}'
    ) % (
        quote(bname),
        quote(bname),
        ids,
        b"true" if dirty else b"false",
        b'"%d"' % epoch if standard and abs(epoch) > _BROWSER_SAFE else b"%d" % epoch,
        b"" if scope is None else b'"scope":' + quote(scope) + b",",
        quote(topic),
        total_queues,
    )


def topic_route(
    brokers: list[bytes],
    queues: list[bytes],
    *,
    filter_servers: Mapping[str, Iterable[str]],
    order_conf: str | None,
    mappings: list[bytes],
    standard: bool,
) -> bytes:
    quote = quoted_standard if standard else quoted
    filters = b",".join(
        [
            quote(addr) + b":[" + b",".join([quote(server) for server in servers]) + b"]"
            for addr, servers in filter_servers.items()
        ]
    )
    return b'{"brokerDatas":[%b],"filterServerTable":{%b},%b"queueDatas":[%b]%b}' % (
        b",".join(brokers),
        filters,
        b"" if order_conf is None else b'"orderTopicConf":' + quote(order_conf) + b",",
        b",".join(queues),
        b',"topicQueueMappingByBroker":{%b}' % b",".join(mappings) if mappings else b"",
    )


def cluster_info(brokers: Mapping[str, bytes], clusters: Mapping[str, list[str]]) -> Slices[bytes]:
    """In slices: a node may know thousands of groups."""
    tables = yield from _joined(brokers.items(), lambda pair: quoted(pair[0]) + b":" + pair[1])
    names: list[bytes] = []  # one cluster may have all of the groups, or each group its own
    for cluster, groups in clusters.items():
        names.append((yield from quoted_list_slices(groups, quoted(cluster) + b":", b"")))
        if len(names) % PIECES_A_SLICE == 0:
            yield
    return b'{"brokerAddrTable":{%b},"clusterAddrTable":{%b}}' % (tables, b",".join(names))


def _joined(items: Iterable[T], encode: Callable[[T], bytes]) -> Slices[bytes]:
    parts: list[bytes] = []
    waiting = iter(items)
    while some := list(islice(waiting, PIECES_A_SLICE)):
        if parts:
            yield
        parts.append(b",".join(map(encode, some)))
    return b",".join(parts)


def member_group(addrs: Mapping[int, str], name: str, cluster: str | None) -> bytes:
    return b'{"brokerMemberGroup":{"brokerAddrs":%b,"brokerName":%b%b}}' % (
        broker_addrs(addrs),
        quoted(name),
        b"" if cluster is None else b',"cluster":' + quoted(cluster),
    )


def topic_list(topics: Iterable[str], broker_addr: str | None = None) -> Slices[bytes]:
    """In slices: there may be a hundred thousand."""
    broker = b"" if broker_addr is None else b'"brokerAddr":' + quoted(broker_addr) + b","
    return (yield from quoted_list_slices(topics, b"{" + broker + b'"topicList":', b"}"))


def kv_table(entries: Mapping[str, str]) -> Slices[bytes]:
    """In slices: there may be a hundred thousand."""
    return (yield from quoted_map_slices(entries, b'{"table":', b"}"))


def data_version(version: DataVersion) -> bytes:
    return b'{"counter":%d,"stateVersion":%d,"timestamp":%d}' % (
        version.counter,
        version.state_version,
        version.timestamp or 0,
    )
