"""Records: an event with its place and time, as one line of JSON.

    {"v":1,"seq":17,"node":"ns-1-0a1b2c3d","wall_ms":…,"mono_ms":…,"type":"BrokerLeft","data":{…},"hash":"…"}

``data`` holds the members of the event. Its named tuples are objects, except a ``QueryCount``,
which is a list, and ``QueueChange``: topics that changed in the same way share one entry.

``hash`` chains the lines: blake2b of the hash before it and of the line up to the comma before
``"hash"``, 8 bytes as hex. The first record of a node follows eight zero bytes.

Members may be added, with defaults, and are never removed, renamed or retyped. A reader skips
members it does not know, and keeps events of types it does not know as they are. A change that an
old reader would misread raises ``v``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from hashlib import blake2b
from itertools import chain, repeat
from typing import Any, NamedTuple, get_type_hints

import msgspec

from routebook import events
from routebook.events import (
    Cause,
    Event,
    MemberFact,
    PeerNoise,
    QueueChange,
    Shape,
    StaticMapping,
    Suspect,
)
from routebook.journal.errors import BadRecord, NewerSchema

VERSION = 1
CHAIN_START = bytes(8)
_HASH_BYTES = 8
_PIECE = 2047
_TAIL = len(b',"hash":"0123456789abcdef"}')


@dataclass(frozen=True, slots=True)
class Record:
    """``wall_ms`` may go backwards, with the clock of the machine; ``seq`` never does."""

    seq: int
    wall_ms: int
    mono_ms: int
    node: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownEvent(Event):
    """An event of a later version. ``cause`` is JOURNAL where it is one not known here."""

    type: str
    data: dict[str, Any]

    @property
    def type_name(self) -> str:
        return self.type

    def is_about_broker(self, broker: str) -> bool:
        return self.data.get("broker") == broker


class QueueGroup(msgspec.Struct, omit_defaults=True):
    """Topics whose queues changed in the same way: read queues, write queues, perm, flags."""

    before: Shape | None
    after: Shape | None
    topics: list[str]
    registered: Shape | None = None


class _Form(NamedTuple):
    """How values of one type are stored."""

    stored: Any
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


def _grouped(changes: tuple[QueueChange, ...]) -> list[QueueGroup]:
    if not changes:
        return []
    # Mostly they all changed in the same way: found out by columns, not topic by topic.
    flat: list[Any] = list(chain.from_iterable(changes))
    topics, *columns = (flat[column::4] for column in range(4))
    if all(column.count(column[0]) == len(column) for column in columns):
        before, after, registered = (column[0] for column in columns)
        return [QueueGroup(before, after, topics, registered)]
    groups: defaultdict[Any, list[str]] = defaultdict(list)
    for topic, way in zip(topics, zip(*columns, strict=True), strict=True):
        groups[way].append(topic)
    return [
        QueueGroup(before, after, topics, registered)
        for (before, after, registered), topics in groups.items()
    ]


# What QueueChange() does, without a call of Python code for each topic.
_queue_change = partial(tuple.__new__, QueueChange)


def _ungrouped(groups: Iterable[QueueGroup]) -> tuple[QueueChange, ...]:
    return tuple(
        chain.from_iterable(
            map(
                _queue_change,
                zip(
                    group.topics,
                    repeat(group.before),
                    repeat(group.after),
                    repeat(group.registered),
                    strict=False,
                ),
            )
            for group in groups
        )
    )


def _objects(kind: Any) -> _Form:
    """Named tuples as objects, which can grow members."""
    hints, defaults = get_type_hints(kind), kind._field_defaults
    stored: Any = msgspec.defstruct(
        kind.__name__,
        [(n, hints[n], defaults[n]) if n in defaults else (n, hints[n]) for n in kind._fields],
        namespace={"__doc__": kind.__doc__},
    )
    return _Form(
        list[stored],
        lambda values: [stored(*value) for value in values],
        lambda values: tuple(kind(*msgspec.structs.astuple(value)) for value in values),
    )


_FORMS: dict[Any, _Form] = {
    tuple[QueueChange, ...]: _Form(list[QueueGroup], _grouped, _ungrouped),
    tuple[StaticMapping, ...]: _objects(StaticMapping),
    tuple[MemberFact, ...]: _objects(MemberFact),
    tuple[Suspect, ...]: _objects(Suspect),
    tuple[PeerNoise, ...]: _objects(PeerNoise),
    # Lists in here were tuples: values of events do not change.
    dict[str, object]: _Form(
        dict[str, Any],
        lambda values: values,
        lambda values: {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()},
    ),
}


class _Codec:
    """Events of one type, and the members of ``data`` that are stored in another form."""

    def __init__(self, kind: type[Event]) -> None:
        hints = get_type_hints(kind)
        self.kind = kind
        self.name = kind.__name__.encode()
        self.forms = {name: _FORMS[hint] for name, hint in hints.items() if hint in _FORMS}
        self.stored: Any = self._struct(hints) if self.forms else kind
        self.decode = msgspec.json.Decoder(self.stored).decode

    def _struct(self, hints: dict[str, Any]) -> Any:
        members: list[Any] = []
        for field in fields(self.kind):
            hint = self.forms[field.name].stored if field.name in self.forms else hints[field.name]
            default = () if field.default is MISSING else (field.default,)
            members.append((field.name, hint, *default))
        return msgspec.defstruct(
            self.kind.__name__, members, kw_only=True, namespace={"__doc__": self.kind.__doc__}
        )

    def pack(self, event: Event) -> Any:
        if not self.forms:
            return event
        values = {field.name: getattr(event, field.name) for field in fields(self.kind)}
        for name, form in self.forms.items():
            values[name] = form.pack(values[name])
        return self.stored(**values)

    def unpack(self, data: msgspec.Raw) -> Event:
        stored = self.decode(data)
        if not self.forms:
            event: Event = stored
            return event
        values = msgspec.structs.asdict(stored)
        for name, form in self.forms.items():
            values[name] = form.unpack(values[name])
        return self.kind(**values)


def _codecs() -> dict[type[Event], _Codec]:
    kinds = [k for k in vars(events).values() if isinstance(k, type) and issubclass(k, Event)]
    bases = {base for kind in kinds for base in kind.__bases__}
    return {kind: _Codec(kind) for kind in kinds if kind not in bases}


_CODECS = _codecs()
_CODECS_BY_NAME = {kind.__name__: codec for kind, codec in _CODECS.items()}


class _Line(msgspec.Struct):
    v: int
    seq: int
    node: str
    wall_ms: int
    mono_ms: int
    type: str
    data: msgspec.Raw


class _Version(msgspec.Struct):
    v: int


class Place(msgspec.Struct, gc=False):
    """Where in the journal a line belongs, and what it is."""

    seq: int
    wall_ms: int
    type: str = ""
    node: str = ""


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_place = msgspec.json.Decoder(Place).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def event_types() -> dict[str, Any]:
    """The type of ``data`` in a record of each type of event."""
    return {name: codec.stored for name, codec in sorted(_CODECS_BY_NAME.items())}


def encode(record: Record, previous: bytes = CHAIN_START) -> bytes:
    """The line of ``record``, with its line feed, after the line that hashed to ``previous``."""
    event = record.event
    if isinstance(event, UnknownEvent):
        name, stored = as_json(event.type), event.data
    else:
        codec = _CODECS[type(event)]
        name, stored = b'"%b"' % codec.name, codec.pack(event)
    body = b'{"v":%d,"seq":%d,"node":%b,"wall_ms":%d,"mono_ms":%d,"type":%b,"data":%b' % (
        VERSION,
        record.seq,
        as_json(record.node),
        record.wall_ms,
        record.mono_ms,
        name,
        as_json(stored),
    )
    return b'%b,"hash":"%b"}\n' % (body, _digest(previous, body).hex().encode())


def decode(line: bytes) -> Record:
    """The record of ``line``, whatever its hash.

    Raises BadRecord, and NewerSchema for a version this reader would misread.
    """
    try:
        members = _decode_line(line)
        if members.v > VERSION:
            raise NewerSchema(members.v, VERSION)
        event = _event(members.type, members.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _refuse_newer(line)
        raise BadRecord(f"not a record: {error}") from error
    return Record(members.seq, members.wall_ms, members.mono_ms, members.node, event)


def event_of(name: str, data: Mapping[str, Any]) -> Event:
    """The event of this type with these members, as a record has them. Raises BadRecord."""
    try:
        return _event(name, msgspec.Raw(as_json(data)))
    except msgspec.MsgspecError as error:
        raise BadRecord(f"not a {name}: {error}") from error


def types_where(wanted: Callable[[type[Event]], bool]) -> frozenset[str]:
    """The names of those types of events."""
    return frozenset(kind.__name__ for kind in _CODECS if wanted(kind))


def type_written(kind: type[Event] | str) -> bytes:
    """What lines of events of this type, and no others, have in them."""
    return b'"type":"%b"' % (kind if isinstance(kind, str) else kind.__name__).encode()


def place_of(line: bytes) -> Place:
    """What can be had of a line without reading its event. Raises BadRecord."""
    try:
        return _decode_place(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRecord(f"not a record: {error}") from error


def hash_of(line: bytes) -> bytes | None:
    """What ``line`` says its hash is; None when it does not end in one."""
    text = line.rstrip(b"\n")
    if text[-_TAIL : -_TAIL + 9] != b',"hash":"' or text[-2:] != b'"}':
        return None
    try:
        return bytes.fromhex(text[-18:-2].decode("ascii"))
    except ValueError:
        return None


def true_hash(line: bytes, previous: bytes) -> bytes:
    """The hash that ``line``, one that ends in a hash, must have after ``previous``."""
    return _digest(previous, line.rstrip(b"\n")[:-_TAIL])


def _digest(previous: bytes, body: bytes) -> bytes:
    digest = blake2b(previous, digest_size=_HASH_BYTES)
    # In pieces: with more at once hashlib lets go of the interpreter, and a writer beside a busy
    # server waits longer to get it back than the hash takes.
    for start in range(0, len(body), _PIECE):
        digest.update(body[start : start + _PIECE])
    return digest.digest()


def _event(name: str, data: msgspec.Raw) -> Event:
    codec = _CODECS_BY_NAME.get(name)
    if codec is not None:
        try:
            return codec.unpack(data)
        except msgspec.ValidationError:
            # A cause of a later version, or is the record just wrong?
            members = _decode_object(data)
            cause = members.get("cause")
            if not isinstance(cause, str) or cause in _CAUSES:
                raise
            return _unknown(name, members)
    return _unknown(name, _decode_object(data))


_CAUSES = frozenset(cause.value for cause in Cause)


def _unknown(name: str, data: dict[str, Any]) -> UnknownEvent:
    revision, cause, peer = data.get("revision"), data.get("cause"), data.get("peer")
    return UnknownEvent(
        revision=revision if isinstance(revision, int) else 0,
        cause=Cause(cause) if isinstance(cause, str) and cause in _CAUSES else Cause.JOURNAL,
        peer=peer if isinstance(peer, str) else "",
        type=name,
        data=data,
    )


def _refuse_newer(line: bytes) -> None:
    """A newer schema may well look like a broken record; say which it is."""
    try:
        found = _decode_version(line).v
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    if found > VERSION:
        raise NewerSchema(found, VERSION)


def as_json(value: Any) -> bytes:
    """``value``, whatever text is in it."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        # Half of a surrogate pair, which some peer put into a name: no UTF-8 can hold it.
        return _encode(_without_surrogates(msgspec.to_builtins(value, str_keys=True)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value
