"""Registrations as brokers send them, with defaults for all that a test does not care about."""

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

Topics = Mapping[str, Mapping[str, Any]] | Iterable[str]


def broker_fields(
    name: str = "broker-a",
    broker_id: int = 0,
    *,
    addr: str | None = None,
    cluster: str = "c1",
    **more: str | None,
) -> dict[str, str | None]:
    """Ext fields of a broker; a field given as None is left out."""
    fields: dict[str, str | None] = {
        "brokerName": name,
        "brokerAddr": addr or f"10.0.0.{broker_id + 1}:10911",
        "clusterName": cluster,
        "haServerAddr": f"10.0.0.{broker_id + 1}:10912",
        "brokerId": str(broker_id),
        **more,
    }
    return {key: value for key, value in fields.items() if value is not None}


def topic_table(topics: Topics) -> dict[str, dict[str, Any]]:
    given = topics if isinstance(topics, Mapping) else {topic: {} for topic in topics}
    return {
        topic: {
            "order": False,
            "perm": 6,
            "readQueueNums": 8,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": 8,
            **config,
        }
        for topic, config in given.items()
    }


def registration_body(
    topics: Topics = ("orders", "payments"),
    *,
    counter: int = 1,
    state_version: int = 0,
    timestamp: int = 1_700_000_000_000,
    filter_servers: list[str] | None = None,
    mappings: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    return json.dumps(
        {
            "filterServerList": filter_servers or [],
            "topicConfigSerializeWrapper": {
                "dataVersion": {
                    "counter": counter,
                    "stateVersion": state_version,
                    "timestamp": timestamp,
                },
                "topicConfigTable": topic_table(topics),
                "topicQueueMappingInfoMap": mappings or {},
            },
        }
    ).encode()


def mapping_info(topic: str, bname: str = "broker-a", total_queues: int = 4) -> dict[str, Any]:
    return {
        "bname": bname,
        "currIdMap": {"0": 0, "1": 1},
        "dirty": False,
        "epoch": 1_700_000_000_123,
        "scope": "__global__",
        "topic": topic,
        "totalQueues": total_queues,
    }


def compressed_body(
    topics: Topics = ("orders", "payments"),
    *,
    counter: int = 1,
    mappings: Iterable[bytes] | None = (),
    filter_servers: bytes = b"[]",
) -> bytes:
    """``mappings`` None leaves the section out, as senders before 5.0.0 do."""
    version = b'{"counter":%d,"stateVersion":0,"timestamp":1700000000000}' % counter
    configs = [
        f"{topic} {c['readQueueNums']} {c['writeQueueNums']} {c['perm']} SINGLE_TAG {{}}".encode()
        for topic, c in topic_table(topics).items()
    ]
    pieces = [_sized(version), _int(len(configs)), *map(_sized, configs), _sized(filter_servers)]
    if mappings is not None:
        listed = list(mappings)
        pieces += [_int(len(listed)), *map(_sized, listed)]
    return zlib.compress(b"".join(pieces), 9)


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big")


def _sized(piece: bytes) -> bytes:
    return _int(len(piece)) + piece
