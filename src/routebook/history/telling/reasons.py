"""Why something happened, a phrase for every cause."""

from routebook.events import Cause
from routebook.history.telling.words import origin

_LEFT = {
    Cause.REGISTER: "a registration took its place",
    Cause.UNREGISTER: "it unregistered",
    Cause.CONNECTION_CLOSED: "its connection was closed by the peer",
    Cause.IDLE: "nothing came over its connection for too long, so the node closed it",
    Cause.EXPIRED: "no heartbeat came within its timeout",
    Cause.ADMIN: "an administrator removed it",
    Cause.CONFLICT: "another broker claimed its identity",
    Cause.REPLACED: "another address took its id",
    Cause.MOVED: "its address came back under another name",
    Cause.REFUSED: "what it sent was refused",
    Cause.STALE: "it was overtaken by a newer registration",
    Cause.RECOVERED: "it was put right while the node recovered",
    Cause.NOT_CONFIRMED: "it was known from before the restart and not heard of since",
    Cause.START: "the node started without it",
    Cause.STOP: "the node stopped",
    Cause.WINDOW: "a window of counting ended",
    Cause.GUARD: "the guard no longer held it",
    Cause.STALL: "the node was not awake",
    Cause.JOURNAL: "it was not among the brokers restated after records were lost",
}

_CHANGED = {
    Cause.REGISTER: "by a registration from {peer}",
    Cause.UNREGISTER: "because a broker unregistered",
    Cause.CONNECTION_CLOSED: "because a connection was closed by the peer",
    Cause.IDLE: "because a connection was idle for too long",
    Cause.EXPIRED: "because a broker sent no heartbeat within its timeout",
    Cause.ADMIN: "by an administrator at {peer}",
    Cause.CONFLICT: "because two brokers claim one identity",
    Cause.REPLACED: "because another address took the id",
    Cause.MOVED: "because an address came back under another name",
    Cause.REFUSED: "although the request was refused",
    Cause.STALE: "by a registration that was overtaken",
    Cause.RECOVERED: "as recovered from the journal",
    Cause.NOT_CONFIRMED: "because a broker was not heard of after the restart",
    Cause.START: "as the node started",
    Cause.STOP: "as the node stopped",
    Cause.WINDOW: "as a window of counting ended",
    Cause.GUARD: "by the guard against losing many brokers at once",
    Cause.STALL: "while the node was not awake",
    Cause.JOURNAL: "as restated after records were lost",
}


def why_left(cause: Cause) -> str:
    """``its connection was closed by the peer``."""
    return _LEFT[cause]


def why_changed(cause: Cause, peer: str) -> str:
    """``by an administrator at 10.0.0.9:51234``."""
    return _CHANGED[cause].format(peer=origin(peer))
