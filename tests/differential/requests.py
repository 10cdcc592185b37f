"""Steps as the bytes a broker, client or tool would send."""

import json
import re
import zlib
from collections.abc import Mapping as Map
from struct import Struct

from differential.steps import (
    Asked,
    Crc,
    DeleteKv,
    DeleteTopic,
    Form,
    GetClusterInfo,
    GetKv,
    GetMembers,
    GetRoute,
    GetTopics,
    GetTopicsOfCluster,
    Heartbeat,
    ListKv,
    Mapping,
    PutKv,
    QueryVersion,
    Queues,
    Register,
    RegisterTopic,
    SetWritable,
    Spelling,
    Stamp,
    Unknown,
    Unregister,
    Via,
)
from differential.wire import Request

V5_0_0 = 413
_INT = Struct(">i")
_REFERENCE = "$.topicConfigSerializeWrapper.topicConfigTable"


def request_of(step: Asked) -> Request:
    code, ext, body = _parts(step)
    return _request(step.via, code, ext, body)


def _request(via: Via, code: int, ext: Map[str, str | None], body: bytes = b"") -> Request:
    sent: dict[str, str | int] = {n: v for n, v in ext.items() if v is not None}
    extra: dict[str, object] | None = None
    if via.signed:
        sent |= {"AccessKey": "someone", "Signature": "c2lnbmVk", "ReqT": "1"}
        sent = {name: _number(value) for name, value in sent.items()}
        extra = {"language": "KLINGON", "unheardOf": {"a": [1, None]}, "remark": "hello"}
    return Request(code, sent or None, body, via.version, via.binary, via.oneway, extra)


def _number(value: str | int) -> str | int:
    return (
        int(value) if isinstance(value, str) and re.fullmatch(r"-?[1-9]\d{0,8}|0", value) else value
    )


def _parts(step: Asked) -> tuple[int, dict[str, str | None], bytes]:
    match step:
        case Register():
            return 103, *_registration(step)
        case Unregister():
            return 104, _identity(step.cluster, step.name, step.broker_id, step.addr), b""
        case Heartbeat():
            return 904, _identity(step.cluster, step.name, None, step.addr), b""
        case QueryVersion():
            ext = _identity(step.cluster, step.name, step.broker_id, step.addr)
            return 322, ext, b"" if step.stamp is None else _compact(_version(step.stamp)).encode()
        case PutKv():
            ext = {"namespace": step.namespace, "key": step.key, "value": step.value}
            return 100, ext, b""
        case GetKv():
            return 101, {"namespace": step.namespace, "key": step.key}, b""
        case DeleteKv():
            return 102, {"namespace": step.namespace, "key": step.key}, b""
        case ListKv():
            return 219, {"namespace": step.namespace}, b""
        case SetWritable():
            return 327 if step.writable else 205, {"brokerName": step.name}, b""
        case DeleteTopic():
            return 216, {"topic": step.topic, "clusterName": step.cluster}, b""
        case RegisterTopic():
            return 217, {"topic": step.topic}, _route(step.queues)
        case GetRoute():
            return 105, _route_query(step), b""
        case GetClusterInfo():
            return 106, {}, b""
        case GetTopics():
            return step.listing.value, {}, b""
        case GetTopicsOfCluster():
            return 224, {"cluster": step.cluster}, b""
        case GetMembers():
            return 901, {"clusterName": step.cluster, "brokerName": step.name}, b""
        case Unknown():
            return step.code, {}, b""


def _identity(
    cluster: str | None, name: str | None, broker_id: int | None, addr: str | None
) -> dict[str, str | None]:
    return {
        "brokerName": name,
        "brokerAddr": addr,
        "clusterName": cluster,
        "brokerId": None if broker_id is None else str(broker_id),
    }


def _route_query(step: GetRoute) -> dict[str, str | None]:
    standard = None if step.standard_only is None else str(step.standard_only).lower()
    return {
        "topic": step.topic,
        "acceptStandardJsonOnly": standard,
        "__ZONE_MODE": step.zone_mode,
        "__ZONE_NAME": step.zone,
    }


def _route(queues: tuple[tuple[str, Queues], ...] | None) -> bytes:
    if queues is None:
        return b""
    datas = [
        {
            "brokerName": name,
            "perm": shape.perm,
            "readQueueNums": shape.read,
            "topicSysFlag": shape.sys_flag,
            "writeQueueNums": shape.write,
        }
        for name, shape in queues
    ]
    return _compact({"brokerDatas": [], "filterServerTable": {}, "queueDatas": datas}).encode()


# -- registrations


def _registration(step: Register) -> tuple[dict[str, str | None], bytes]:
    body = _body(step)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    crcs = {Crc.ABSENT: None, Crc.RIGHT: str(crc), Crc.WRONG: str(crc % 0x7FFFFFFF + 1)}
    compressed = step.form in (Form.COMPRESSED, Form.CUT)
    ext = {
        **_identity(step.cluster, step.name, step.broker_id, step.addr),
        "haServerAddr": step.ha,
        "compressed": "true" if compressed else "false",
        "bodyCrc32": crcs[step.crc],
        "heartbeatTimeoutMillis": None if step.heartbeat_ms is None else str(step.heartbeat_ms),
        "enableActingMaster": (
            None if step.acting_master is None else str(step.acting_master).lower()
        ),
        "__ZONE_NAME": step.zone,
    }
    return ext, body


def _body(step: Register) -> bytes:
    match step.form:
        case Form.NOTHING:
            return b""
        case Form.OLD:
            wrapper = {"dataVersion": _version(step.stamp), "topicConfigTable": _table(step)}
            return _spelt(_compact(wrapper), step.spelling)
        case Form.COMPRESSED | Form.UNLABELLED | Form.CUT:
            return _compressed(step)
        case Form.JSON | Form.NULL_TABLE:
            return _spelt(_json_body(step), step.spelling)


def _json_body(step: Register) -> str:
    """Written by hand around the mappings, whose integer keys Java does not quote."""
    table = None if step.form is Form.NULL_TABLE else _table(step)
    mappings = ",".join(f"{_compact(info.topic)}:{_mapping(info)}" for info in step.mappings)
    filters = _compact(None if step.filters is None else list(step.filters))
    return (
        f'{{"filterServerList":{filters},"topicConfigSerializeWrapper":'
        f'{{"dataVersion":{_compact(_version(step.stamp))},"topicConfigTable":{_compact(table)},'
        f'"topicQueueMappingDetailMap":{{}},"topicQueueMappingInfoMap":{{{mappings}}}}}}}'
    )


def _version(stamp: Stamp | None) -> dict[str, int] | None:
    if stamp is None:
        return None
    members = {"counter": stamp.counter, "stateVersion": stamp.state_version}
    return members if stamp.timestamp is None else {**members, "timestamp": stamp.timestamp}


def _table(step: Register) -> dict[str, object]:
    attributes: object = {"message.type": "NORMAL"}
    table: dict[str, object] = {}
    for topic, queues in step.topics:
        table[topic] = {
            "attributes": attributes,
            "order": False,
            "perm": queues.perm,
            "readQueueNums": queues.read,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": queues.sys_flag,
            "writeQueueNums": queues.write,
        }
        if step.spelling is Spelling.REFERENCE:
            first = step.topics[0][0]
            attributes = {"$ref": f"{_REFERENCE}.{first}.attributes"}
        if step.spelling is Spelling.UNKNOWN_MEMBERS:
            attributes = {"a": "1"}
    return table


def _mapping(info: Mapping) -> str:
    ids = ",".join(f"{logical}:{physical}" for logical, physical in info.queues)
    return (
        f'{{"bname":{_compact(info.broker)},"currIdMap":{{{ids}}},"dirty":false,'
        f'"epoch":{info.epoch},"scope":"__global__","topic":{_compact(info.topic)},'
        f'"totalQueues":{info.total}}}'
    )


def _compressed(step: Register) -> bytes:
    pieces = [_sized(_compact(_version(step.stamp))), _INT.pack(len(step.topics))]
    for topic, queues in step.topics:
        pieces.append(_sized(f"{topic} {queues.read} {queues.write} {queues.perm} SINGLE_TAG {{}}"))
    pieces.append(_sized(_compact(list(step.filters or ()))))
    if step.via.version >= V5_0_0 and step.form is not Form.CUT:
        pieces.append(_INT.pack(len(step.mappings)))
        pieces += [_sized(_mapping(info)) for info in step.mappings]
    return zlib.compress(b"".join(pieces), 9)


def _sized(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _spelt(text: str, spelling: Spelling) -> bytes:
    """The same text written another way; names in it hold none of the characters replaced."""
    match spelling:
        case Spelling.STRINGS:
            text = text.replace('"perm":6', '"perm":"6"').replace(
                '"readQueueNums":8', '"readQueueNums":"8"'
            )
        case Spelling.FLOATS:
            text = text.replace('"perm":6', '"perm":6.0')
        case Spelling.SINGLE_QUOTES:
            text = text.replace('"', "'")
            text = text.replace("'SINGLE_TAG'", '"SINGLE_TAG"')  # fastjson 2 wants an enum so
        case Spelling.TRAILING_COMMAS:
            text = re.sub(r"(\d)}", r"\1,}", text)
        case Spelling.SPACES:
            text = text.replace(",", " ,\n ").replace('":', '" :\t')
        case Spelling.UNKNOWN_MEMBERS:
            text = text.replace('"perm":', '"unheardOf":[1,{"a":null}],"perm":')
        case Spelling.BARE_NAMES:
            text = text.replace('"perm":', "perm:").replace('"dataVersion":', "dataVersion:")
        case Spelling.DOUBLE_COMMAS:
            text = text.replace(',"', ',,"')
        case Spelling.COMMENT:
            text = text.replace("{", "{/* nothing */", 1)
        case Spelling.STRICT | Spelling.REFERENCE:
            pass
    return text.encode()
