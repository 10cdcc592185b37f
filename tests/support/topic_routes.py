"""Routes of topics as values and as bodies, with defaults for all that a test does not name."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from routebook.client.routes import TopicRoute, route_of
from routebook.wire.address import Address
from routebook.wire.answers import decode_route
from support.builders import mapping_info

NODE = Address("10.9.9.9", 9876)


def group(
    name: str, addrs: Mapping[int, str] | None = None, *, cluster: str = "c1", **more: Any
) -> dict[str, Any]:
    given = {0: f"{name}:10911"} if addrs is None else addrs
    return {
        "brokerAddrs": {str(broker_id): addr for broker_id, addr in given.items()},
        "brokerName": name,
        "cluster": cluster,
        **more,
    }


def queues(
    broker: str, *, read: int = 2, write: int = 2, perm: int = 6, sys_flag: int = 0
) -> dict[str, Any]:
    return {
        "brokerName": broker,
        "perm": perm,
        "readQueueNums": read,
        "topicSysFlag": sys_flag,
        "writeQueueNums": write,
    }


def mapping(
    broker: str,
    ids: Iterable[int] = (),
    *,
    total: int = 4,
    epoch: int = 1,
    scope: str | None = "__global__",
    **more: Any,
) -> dict[str, Any]:
    """What ``broker`` claims of the logical queues of a static topic."""
    held = {str(queue_id): 0 for queue_id in ids}
    info = mapping_info("orders", broker, total)
    return {**info, "currIdMap": held, "epoch": epoch, "scope": scope, **more}


def route_body(
    groups: Iterable[Mapping[str, Any]] | None = None,
    topic_queues: Iterable[Mapping[str, Any]] | None = None,
    *,
    order: str | None = None,
    filters: Mapping[str, list[str]] | None = None,
    mappings: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """The body of a route answer: two queues on broker-a and on broker-b, each a master."""
    document: dict[str, Any] = {
        "brokerDatas": list([group("broker-a"), group("broker-b")] if groups is None else groups),
        "filterServerTable": filters or {},
        "queueDatas": list(
            [queues("broker-a"), queues("broker-b")] if topic_queues is None else topic_queues
        ),
    }
    if order is not None:
        document["orderTopicConf"] = order
    if mappings is not None:
        document["topicQueueMappingByBroker"] = mappings
    return json.dumps(document).encode()


def route(
    groups: Iterable[Mapping[str, Any]] | None = None,
    topic_queues: Iterable[Mapping[str, Any]] | None = None,
    *,
    topic: str = "orders",
    **more: Any,
) -> TopicRoute:
    """The same as a client sees it."""
    return route_of(topic, decode_route(route_body(groups, topic_queues, **more)), NODE)
