"""Watching routes: what is asked for (19005, 19007), and the frames a watcher is told (19006).

A frame is a one-way request of the node. Its header says where it belongs in the chain:

    {"code":19006,"extFields":{"after":"117","boot":"5d0c…","kind":"routes","n":"3","rev":"118"},"flag":2,…}

The body of ``routes`` is a list of entries. Each is encoded once for all who watch its topic.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from routebook.slices import Slices
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import JSON, Command
from routebook.wire.errors import BadBody, BadRequest
from routebook.wire.fastjson import quoted_standard
from routebook.wire.frame import frame
from routebook.wire.headers import MAX_NAME, check_name

MAX_TOPICS = 10_000  # of one watcher
ETAG_DIGITS = 16
EVERYTHING = "*"
# The longest names, with their etags, quotes, colons and commas.
MAX_BODY = MAX_TOPICS * (MAX_NAME + ETAG_DIGITS + 6) + 1024
_QUOTES = 4 * MAX_TOPICS + 32  # four for each topic, a few for the rest
CHECKED_A_SLICE = 1000
_MAX_TOKEN = 200

RESET, RESUMED, ADDED = "reset", "resumed", "added"
ROUTES, SYNCED, BOOKMARK = "routes", "synced", "bookmark"
EVENTS, LOST, BYE = "events", "lost", "bye"
SLOW, DRAINING = "slow", "draining"


class WatchBody(msgspec.Struct, rename={"feed_since": "feedSince"}):
    """Topics with the etags the watcher has, and where it was when it was told last."""

    topics: dict[str, str] = {}
    since: str | None = None
    feed: bool = False
    feed_since: str | None = None


class UnwatchBody(msgspec.Struct):
    topics: list[str]


class Token(NamedTuple):
    """A place in what one boot of one node told: a revision, or the number of an event."""

    node: str
    boot: str
    at: int

    def __str__(self) -> str:
        return f"{self.node}.{self.boot}.{self.at}"

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Raises BadRequest for a text that no node gave."""
        node, boot, at = [*text[:_MAX_TOKEN].rsplit(".", 2), "", ""][:3]
        if not (node and boot and at.isascii() and at.isdigit() and len(at) < 20):
            raise BadRequest(f"a token is node.boot.number, not {text[:40]!r}")
        return cls(node, boot, int(at))


class RouteEntry(msgspec.Struct):
    """One topic of a frame: its route, why it has none, or neither: then it is to be asked for.

    An empty ``route`` is none.
    """

    topic: str
    etag: str
    route: msgspec.Raw = msgspec.Raw()
    gone: str | None = None


class EventEntry(msgspec.Struct):
    """One event: a line of the journal, without ``left_out`` of the topics it lists."""

    record: msgspec.Raw
    left_out: int = 0


_WATCH = msgspec.json.Decoder(WatchBody)
_UNWATCH = msgspec.json.Decoder(UnwatchBody)
_ROUTES = msgspec.json.Decoder(list[RouteEntry])
_EVENTS = msgspec.json.Decoder(list[EventEntry])


def decode_watch(body: bytes) -> Slices[WatchBody]:
    """Raises BadRequest, for too many topics before they are decoded."""
    _check_size(body)
    try:
        asked = _WATCH.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body says not what to watch: {error}") from error
    for number, (topic, etag) in enumerate(asked.topics.items(), start=1):
        check_topic(topic)
        if len(etag) > ETAG_DIGITS:
            raise BadRequest(f"an etag has {ETAG_DIGITS} digits, not {len(etag)}")
        if number % CHECKED_A_SLICE == 0:
            yield
    return asked


def decode_unwatch(body: bytes) -> list[str] | None:
    """The topics to be told of no longer; None for all of them. Raises BadRequest."""
    if not body:
        return None
    _check_size(body)
    try:
        return _UNWATCH.decode(body).topics
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body lists no topics: {error}") from error


def _check_size(body: bytes) -> None:
    if len(body) > MAX_BODY or body.count(b'"') > _QUOTES:
        raise BadRequest(f"one connection watches at most {MAX_TOPICS} topics")


def check_topic(topic: str) -> None:
    """Raise BadRequest for what cannot be watched."""
    if topic == EVERYTHING:
        raise BadRequest(f"{EVERYTHING} is no topic: all that happens is in the feed")
    if not topic:
        raise BadRequest("a topic has a name")
    check_name("a topic name", topic)


def route_entry(topic: str, etag: str, route: bytes | None) -> bytes:
    """``route`` None: it is too large for a frame, and is to be asked for."""
    told = b"" if route is None else b',"route":' + route
    return b'{"topic":%b,"etag":"%b"%b}' % (quoted_standard(topic), etag.encode(), told)


def gone_entry(topic: str, reason: str) -> bytes:
    return b'{"topic":%b,"etag":"","gone":%b}' % (quoted_standard(topic), quoted_standard(reason))


def listed(entries: Iterable[bytes]) -> bytes:
    """The body of a frame."""
    return b"[" + b",".join(entries) + b"]"


def push_frame(
    kind: str,
    boot: str,
    n: int,
    after: int,
    rev: int,
    body: bytes = b"",
    more: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of one frame. Thousands are made for one change, so it is put together by hand."""
    others = b""
    if more:
        others = b"".join(
            b'"%b":%b,' % (name.encode(), quoted_standard(text)) for name, text in more.items()
        )
    header = (
        b'{"code":%d,"extFields":{"after":"%d","boot":"%b","kind":"%b",%b"n":"%d","rev":"%d"},'
        b'"flag":2,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    ) % (
        RequestCode.ROUTEBOOK_ROUTES,
        after,
        boot.encode(),
        kind.encode(),
        others,
        n,
        rev,
        n & 0x7FFFFFFF,
        Version.V5_5_0,
    )
    return frame(JSON, header, body)


class Push(NamedTuple):
    """A frame as it arrives."""

    kind: str
    boot: str
    n: int
    after: int
    rev: int
    fields: Mapping[str, str | None]
    body: bytes


def pushed(command: Command) -> Push:
    """Raises BadBody for a frame that says not where it belongs."""
    fields = command.ext_fields
    try:
        return Push(
            fields["kind"] or "",
            fields["boot"] or "",
            int(fields["n"] or ""),
            int(fields["after"] or ""),
            int(fields["rev"] or ""),
            fields,
            command.body,
        )
    except (KeyError, ValueError) as error:
        raise BadBody(f"a frame without its place in the chain: {error}") from error


def decode_routes(body: bytes) -> list[RouteEntry]:
    """Raises BadBody."""
    try:
        return _ROUTES.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not a list of routes: {error}") from error


def decode_events(body: bytes) -> list[EventEntry]:
    """Raises BadBody."""
    try:
        return _EVENTS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadBody(f"the body is not a list of events: {error}") from error
