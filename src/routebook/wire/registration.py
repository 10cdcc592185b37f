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
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from routebook.slices import Slices, finished
from routebook.wire import fastjson
from routebook.wire.codes import Version
from routebook.wire.command import Int32, Int64
from routebook.wire.cutting import MARK, entries
from routebook.wire.errors import BadRequest, BodyTooLarge, DialectError
from routebook.wire.header_json import as_text
from routebook.wire.inflation import Inflation, undecodable

T = TypeVar("T")

INFLATED_PER_FRAME = 4  # a body may inflate to this many times the frame limit
TOPICS_A_SLICE = 1000
MAPPINGS_A_SLICE = 100
RELEASED_A_SLICE = 20_000
SEEN_A_SLICE = 2 * 1024 * 1024  # bytes
MAX_WHOLE = 256 * 1024  # bytes that are read at once: some milliseconds, whatever they are
MAX_ODD_TEXT = 256 * 1024  # beyond this only what typed decoding takes is read
MAX_ODD_VALUES = 10_000
MAX_DATA_VERSION = 4 * 1024
MAX_FILTER_LIST = 64 * 1024
COST_OF_ENTRY = 420  # bytes of memory: a topic or a mapping
COST_OF_QUEUE = 140  # of a mapping
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


class MappingInfo(msgspec.Struct, rename="camel", gc=False):
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
_TOPICS = _Kind(dict[str, TopicConfig])
_MAPPINGS = _Kind(dict[str, MappingInfo])


def crc32(body: bytes) -> int:
    """The checksum as Java brokers send it, its sign bit cleared."""
    return zlib.crc32(body) & 0x7FFFFFFF


def seen(body: bytes, *, check: bool) -> Slices[tuple[int, Hashable]]:
    """The checksum of ``body``, if it is to be checked, and a fingerprint equal bodies share.

    The fingerprint is 64 bits wide and keyed per process: nobody can make two bodies collide on
    purpose.
    """
    checksum, fingerprint = 0, 0
    for start in range(0, len(body), SEEN_A_SLICE):
        if start:
            yield
        piece = bytes(body[start : start + SEEN_A_SLICE])
        if check:
            checksum = zlib.crc32(piece, checksum)
        fingerprint = hash((fingerprint, hash(piece)))
    return checksum & 0x7FFFFFFF, fingerprint


def decode_data_version(body: bytes) -> DataVersion | None:
    """Raises BadRequest for a body that is none."""
    if len(body) > MAX_DATA_VERSION:
        raise BodyTooLarge("a data version", MAX_DATA_VERSION)
    return _decode(_DATA_VERSION, body) if body else None


def decode_registration(
    body: bytes,
    version: int,
    *,
    compressed: bool,
    max_frame: int,
    max_topics: int,
    room: "DecodingRoom | None" = None,
) -> Slices[RegistrationBody]:
    """Raises BadRequest for a body that cannot be read or holds too many topics.

    ``room``: what the decoded form may take, as far as it is counted; a new one for each body.
    """
    room = room or DecodingRoom(max_topics)
    if version < 0:
        raise BadRequest(f"version {version} is not one of RocketMQ's")
    if not body:
        old = version < Version.V3_0_11
        return RegistrationBody(NOTHING, filter_servers=None if old else [])
    if version < Version.V3_0_11:
        wrapper = yield from _decode_body(_WRAPPER, body, lambda decoded: decoded, room)
        return _registration(wrapper, None, max_topics)
    if compressed or body[0] == 0x78:
        return (yield from _decode_compressed(body, version, max_frame, max_topics, room))
    decoded = yield from _decode_body(
        _BODY, body, lambda decoded: decoded.topic_config_serialize_wrapper, room
    )
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
    body: bytes, version: int, max_frame: int, max_topics: int, room: "DecodingRoom"
) -> Slices[RegistrationBody]:
    pieces = Inflation(body, max_frame * INFLATED_PER_FRAME)
    data_version: DataVersion | None = decode_data_version((yield from pieces.taken()))
    if data_version is not None and data_version.timestamp is None:
        data_version = None
    count = yield from pieces.count()
    _check_count(count, max_topics)
    topics: dict[str, TopicConfig] = {}
    inflated = 0
    for index in range(count):
        piece = pieces.take()
        if piece is None:
            piece = yield from pieces.taken()
        topic = _topic_of_string(piece)
        topics[topic.topic_name or ""] = topic
        inflated += len(piece)
        if index % TOPICS_A_SLICE == TOPICS_A_SLICE - 1:
            room.take(TOPICS_A_SLICE * COST_OF_ENTRY + inflated)
            inflated = 0
            yield
    filter_servers = _string_list((yield from pieces.taken()))
    mappings: list[MappingInfo] = []
    if version >= Version.V5_0_0:
        mapping_count = yield from pieces.count()
        _check_count(mapping_count, max_topics)
        for index in range(mapping_count):
            mapping = yield from _decode_slices(_MAPPING, (yield from pieces.taken()))
            room.take(COST_OF_ENTRY + COST_OF_QUEUE * len(mapping.curr_id_map))
            mappings.append(mapping)
            if index % MAPPINGS_A_SLICE == MAPPINGS_A_SLICE - 1:
                yield
    yield from pieces.finish()
    return RegistrationBody(data_version, topics, mappings, filter_servers)


def _topic_of_string(piece: bytes) -> TopicConfig:
    fields = piece.decode("utf-8", "replace").split(" ")
    if len(fields) < 5 or not fields[0]:
        raise undecodable(f"topic config {piece[:80]!r}")
    if not all(_JAVA_INT.match(field) for field in fields[1:4]):
        raise undecodable(f"topic config {piece[:80]!r}")
    return TopicConfig(fields[0], int(fields[1]), int(fields[2]), int(fields[3]))


def _string_list(piece: bytes) -> list[str]:
    if len(piece) > MAX_FILTER_LIST:
        raise BodyTooLarge("the list of filter servers", MAX_FILTER_LIST)
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
    small = _is_small(text)
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
            yield
        document = msgspec.json.decode(text)
        if follow:
            document = fastjson.resolved(document, MAX_ODD_VALUES)
        yield
        document = _tidied(document)
        yield
        return msgspec.convert(document, kind.shape, strict=False)
    except (DialectError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def released(table: dict[str, Any]) -> Slices[None]:
    """Let go of a large table, which takes its time too."""
    while table:
        for _ in range(min(len(table), RELEASED_A_SLICE)):
            table.popitem()
        yield


def _unreadable(error: Exception) -> BadRequest:
    return BadRequest(f"body is not readable: {error}")


def _is_small(text: bytes) -> bool:
    """Whether a value can be made of everything in ``text``, and looked at one by one."""
    if len(text) > MAX_ODD_TEXT:
        return False
    return text.count(b",") + text.count(b"{") + text.count(b"[") <= MAX_ODD_VALUES


def _decode_body(
    kind: "_Kind", text: bytes, wrapper_of: Callable[[Any], "_Wrapper | None"], room: "DecodingRoom"
) -> Slices[Any]:
    """``_decode_slices`` for a body whose tables may be large: they are read in pieces."""
    if len(text) <= MAX_WHOLE:
        decoded = yield from _decode_slices(kind, text)
        return decoded
    topics: dict[str, TopicConfig] = {}
    mappings: dict[str, MappingInfo] = {}
    try:
        text = yield from _cut_off(text, topics, mappings, room, strict=True)
        if len(text) <= MAX_WHOLE:
            try:
                return _put_together(kind.strict.decode(text), wrapper_of, topics, mappings)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                yield
        text = yield from fastjson.normalised_slices(text)
        yield
        text = yield from _cut_off(text, topics, mappings, room, strict=False)
        if len(text) > MAX_WHOLE:
            raise DialectError(f"{len(text)} bytes of it are neither topics nor static mappings")
        return _put_together(kind.lax.decode(text), wrapper_of, topics, mappings)
    except (DialectError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def _cut_off(
    text: bytes,
    topics: dict[str, TopicConfig],
    mappings: dict[str, MappingInfo],
    room: "DecodingRoom",
    *,
    strict: bool,
) -> Slices[bytes]:
    """What is left of ``text`` when entries of its tables are put where they belong."""
    decoders = (_TOPICS.strict, _MAPPINGS.strict) if strict else (_TOPICS.lax, _MAPPINGS.lax)
    text = yield from _collected(entries(text, b"topicConfigTable", decoders[0]), topics, room)
    return (
        yield from _collected(
            entries(text, b"topicQueueMappingInfoMap", decoders[1]), mappings, room
        )
    )


def _collected(
    pieces: Generator[dict[str, T] | None, None, bytes], found: dict[str, T], room: "DecodingRoom"
) -> Slices[bytes]:
    while True:
        try:
            piece = next(pieces)
        except StopIteration as done:
            left: bytes = done.value
            return left
        if piece is None:
            yield
            continue
        if len(found) + len(piece) > room.entries:
            yield from released(found)
            raise BadRequest(
                f"a registration of more than {room.entries} topics exceeds the limit of"
                f" {room.entries} (maxTopicsPerBroker)"
            )
        room.take(COST_OF_ENTRY * len(piece))
        if isinstance(next(iter(piece.values()), None), MappingInfo):
            room.take(COST_OF_QUEUE * sum(map(_queues_of, piece.values())))
        found.update(piece)
        yield


def _queues_of(mapping: Any) -> int:
    return len(mapping.curr_id_map)


def _put_together(
    decoded: Any,
    wrapper_of: Callable[[Any], "_Wrapper | None"],
    topics: dict[str, TopicConfig],
    mappings: dict[str, MappingInfo],
) -> Any:
    """The entries that were cut off and those of what was left."""
    wrapper = wrapper_of(decoded)
    if wrapper is None:
        raise DialectError("no topicConfigSerializeWrapper")
    wrapper.topic_config_table = _joined(topics, wrapper.topic_config_table)
    wrapper.topic_queue_mapping_info_map = _joined(mappings, wrapper.topic_queue_mapping_info_map)
    return decoded


def _joined(cut_off: dict[str, T], left: dict[str, T] | None) -> dict[str, T] | None:
    if not cut_off:
        return left
    if left is None or left.pop(MARK, None) is None:
        raise DialectError("a table that is not where it belongs")
    cut_off.update(left)
    return cut_off


class DecodingRoom:
    """How many entries its tables may have, and how much memory the decoded form may take."""

    def __init__(self, entries: int, limit: int = 2**60) -> None:
        self.entries = entries
        self.taken = 0
        self._limit = limit

    def take(self, amount: int) -> None:
        self.taken += amount
        if self.taken > self._limit:
            raise BodyTooLarge("the decoded registration", self._limit)


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
