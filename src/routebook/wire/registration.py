r"""The body of REGISTER_BROKER, in its three shapes.

* JSON ``{"filterServerList":[],"topicConfigSerializeWrapper":{...}}``
* the inner wrapper alone, from brokers before 3.0.11
* one zlib stream of length-prefixed pieces: data version, topic strings
  (``name read write perm filterType [attributes]``), filter servers and, from 5.0.0 on,
  static topic mappings

5.x brokers label a compressed body as uncompressed, so the first byte decides: a zlib
stream starts with 0x78, a JSON text cannot.

Decoding yields between slices: a body may hold tens of thousands of topics.
"""

import re
import zlib
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import msgspec

from routebook.slices import Slices, finished
from routebook.wire import fastjson
from routebook.wire.codes import Version
from routebook.wire.command import Int32, Int64
from routebook.wire.errors import BadRequest, BodyTooLarge, DialectError
from routebook.wire.header_json import as_text

INFLATED_PER_FRAME = 4  # a body may inflate to this many times the frame limit
TOPICS_A_SLICE = 1000
MAX_ODD_TEXT = 256 * 1024  # beyond this only what typed decoding takes is read
MAX_DATA_VERSION = 64 * 1024
_INFLATE_STEP = 1 << 20
_INT = Struct(">i")
_JAVA_INT = re.compile(r"[+-]?[0-9]{1,9}\Z")  # queue counts and permissions come nowhere near it


class DataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """Equal when all three are equal; a missing timestamp never equals anything."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 | None = None


class TopicConfig(msgspec.Struct, rename="camel", gc=False):
    topic_name: str | None = None
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_sys_flag: Int32 = 0


class MappingInfo(msgspec.Struct, rename="camel"):
    topic: str | None = None
    bname: str | None = None
    total_queues: Int32 = 0
    epoch: Int64 = 0
    scope: str | None = None
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = {}


class _Wrapper(msgspec.Struct, rename="camel"):
    data_version: DataVersion | None = DataVersion()
    topic_config_table: dict[str, TopicConfig] | None = {}
    topic_queue_mapping_info_map: dict[str, MappingInfo] | None = {}


class _Body(msgspec.Struct, rename="camel"):
    filter_server_list: list[str] | None = []
    topic_config_serialize_wrapper: _Wrapper | None = msgspec.field(default_factory=_Wrapper)


@dataclass(slots=True)
class RegistrationBody:
    """``filter_servers`` None leaves what is known; ``data_version`` None never matches."""

    data_version: DataVersion | None
    topics: dict[str, TopicConfig] = field(default_factory=dict)
    mappings: list[MappingInfo] = field(default_factory=list)
    filter_servers: list[str] | None = field(default_factory=list)


class _Kind:
    """A shape and its decoders."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape
        self.strict: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self.lax: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape, strict=False)


NOTHING = DataVersion(0, 0, 0)
_BODY = _Kind(_Body)
_WRAPPER = _Kind(_Wrapper)
_DATA_VERSION = _Kind(DataVersion)
_MAPPING = _Kind(MappingInfo)


def crc32(body: bytes) -> int:
    """The checksum as Java brokers send it, its sign bit cleared."""
    return zlib.crc32(body) & 0x7FFFFFFF


def decode_data_version(body: bytes) -> DataVersion | None:
    """Raises BadRequest for a body that is none."""
    if len(body) > MAX_DATA_VERSION:
        raise BodyTooLarge("a data version", MAX_DATA_VERSION)
    return _decode(_DATA_VERSION, body) if body else None


def decode_registration(
    body: bytes, version: int, *, compressed: bool, max_frame: int, max_topics: int
) -> Slices[RegistrationBody]:
    """Raises BadRequest for a body that cannot be read or holds too many topics."""
    if version < 0:
        raise BadRequest(f"version {version} is not one of RocketMQ's")
    if not body:
        old = version < Version.V3_0_11
        return RegistrationBody(NOTHING, filter_servers=None if old else [])
    if version < Version.V3_0_11:
        wrapper = yield from _decode_slices(_WRAPPER, body)
        return _registration(wrapper, None, max_topics)
    if compressed or body[0] == 0x78:
        return (yield from _decode_compressed(body, version, max_frame, max_topics))
    decoded = yield from _decode_slices(_BODY, body)
    return _registration(
        decoded.topic_config_serialize_wrapper, decoded.filter_server_list, max_topics
    )


def _registration(
    wrapper: _Wrapper | None, filter_servers: list[str] | None, max_topics: int
) -> RegistrationBody:
    if wrapper is None or wrapper.topic_config_table is None:
        raise BadRequest("the registration has no topicConfigTable")
    _check_count(len(wrapper.topic_config_table), max_topics)
    data_version = wrapper.data_version
    if data_version is not None and data_version.timestamp is None:
        data_version = None
    mappings = list((wrapper.topic_queue_mapping_info_map or {}).values())
    return RegistrationBody(data_version, wrapper.topic_config_table, mappings, filter_servers)


def _check_count(topics: int, max_topics: int) -> None:
    if topics > max_topics:
        raise BadRequest(
            f"a registration of {topics} topics exceeds the limit of {max_topics}"
            " (maxTopicsPerBroker)"
        )


def _decode_compressed(
    body: bytes, version: int, max_frame: int, max_topics: int
) -> Slices[RegistrationBody]:
    pieces = _Pieces((yield from _inflated(body, max_frame * INFLATED_PER_FRAME)))
    data_version: DataVersion | None = _decode(_DATA_VERSION, pieces.take())
    if data_version is not None and data_version.timestamp is None:
        data_version = None
    count = pieces.count()
    _check_count(count, max_topics)
    topics: dict[str, TopicConfig] = {}
    for index in range(count):
        topic = _topic_of_string(pieces.take())
        topics[topic.topic_name or ""] = topic
        if index % TOPICS_A_SLICE == TOPICS_A_SLICE - 1:
            yield
    filter_servers = _string_list(pieces.take())
    mappings: list[MappingInfo] = []
    if version >= Version.V5_0_0:
        mapping_count = pieces.count()
        _check_count(mapping_count, max_topics)
        for index in range(mapping_count):
            mappings.append(_decode(_MAPPING, pieces.take()))
            if index % 200 == 199:
                yield
    return RegistrationBody(data_version, topics, mappings, filter_servers)


def _inflated(body: bytes, limit: int) -> Slices[bytes]:
    inflater = zlib.decompressobj()
    parts: list[bytes] = []
    size, rest = 0, body
    while not inflater.eof:
        try:
            part = inflater.decompress(rest, _INFLATE_STEP)
        except zlib.error as error:
            raise _undecodable(str(error)) from error
        rest = inflater.unconsumed_tail
        size += len(part)
        if size > limit:
            raise BodyTooLarge("the inflated registration", limit)
        if not part and not rest and not inflater.eof:
            raise _undecodable("the zlib stream is cut short")
        parts.append(part)
        yield
    return b"".join(parts)


class _Pieces:
    """Length-prefixed pieces of an inflated body, taken one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def count(self) -> int:
        if self._position + 4 > len(self._data):
            raise _undecodable("a section is missing")
        (number,) = _INT.unpack_from(self._data, self._position)
        if number < 0:
            raise _undecodable(f"a length of {number}")
        self._position += 4
        return int(number)

    def take(self) -> bytes:
        length = self.count()
        start = self._position
        end = start + length
        if end > len(self._data):
            raise _undecodable(f"a piece of {length} bytes is cut short")
        self._position = end
        return self._data[start:end]


def _undecodable(reason: str) -> BadRequest:
    # The first line operators know from the reference, then what is wrong.
    return BadRequest(
        "org.apache.rocketmq.remoting.exception.RemotingCommandException:"
        f" Failed to decode RegisterBrokerBody: {reason}"
    )


def _topic_of_string(piece: bytes) -> TopicConfig:
    fields = piece.decode("utf-8", "replace").split(" ")
    if len(fields) < 5 or not fields[0]:
        raise _undecodable(f"topic config {piece[:80]!r}")
    if not all(_JAVA_INT.match(field) for field in fields[1:4]):
        raise _undecodable(f"topic config {piece[:80]!r}")
    return TopicConfig(fields[0], int(fields[1]), int(fields[2]), int(fields[3]))


def _string_list(piece: bytes) -> list[str]:
    try:
        items = fastjson.loads(piece)
    except DialectError:
        return []  # as the reference: an unreadable list is an empty one
    return [as_text(item) for item in items if item is not None] if isinstance(items, list) else []


def _decode(kind: "_Kind", text: bytes) -> Any:
    """Decode a small text in one go."""
    return finished(_decode_slices(kind, text))


def _decode_slices(kind: "_Kind", text: bytes) -> Slices[Any]:
    """Strictly typed if it can be, else through the dialect; what nobody reads is never built.

    References are followed in small texts only: brokers use them for topic attributes, which
    a NameServer does not look at.
    """
    small = len(text) <= MAX_ODD_TEXT
    follow = small and b"$ref" in text
    if not follow:
        try:
            return kind.strict.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield
    try:
        text = yield from fastjson.normalised_slices(text)
        if not follow:
            try:
                return kind.lax.decode(text)
            except msgspec.ValidationError:
                if not small:
                    raise
        document = msgspec.json.decode(text)
        if follow:
            document = fastjson.resolved(document)
        return msgspec.convert(_tidied(document), kind.shape, strict=False)
    except (DialectError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"body is not readable: {error}") from error


def _tidied(value: Any) -> Any:
    """``value`` without null members and with whole floats as ints, as fastjson reads them.

    A null list or table keeps its meaning only where a registration looks for it.
    """
    if isinstance(value, dict):
        return {k: _tidied(v) for k, v in value.items() if v is not None or k in _NULLABLE}
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


_NULLABLE = frozenset(
    {"filterServerList", "topicConfigSerializeWrapper", "topicConfigTable", "dataVersion"}
)
