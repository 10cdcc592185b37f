"""How the report writes numbers, spans of time, instants and causes."""

import json
from datetime import datetime

from routebook import words
from routebook.history.telling.words import members, queues

NOTHING = "–"
MAX_NAME = 60

_WHY_LEFT = {
    "connection_closed": "the connection was closed by the peer",
    "idle": "nothing came over the connection for too long",
    "expired": "no heartbeat came in time",
    "conflict": "another broker claimed the same identity",
    "refused": "what it sent was refused",
    "stale": "it was overtaken by a newer registration",
    "not_confirmed": "it was not heard of after the node had restarted",
    "guard": "the guard no longer held it",
}


_WHY_UNKNOWN = {
    "not_yet": "nothing is known of it before",
    "no_later": "none of its later records have been taken in",
    "unsure": "its first records are missing: those that are there do not tell what it knew before",
    "replaced": "its data folder was replaced by another",
    "stopped": "it had been stopped",
    "killed": "it had ended without a word, at some moment after its last sign of life",
    "stalled": "it slept: it was stopped, suspended or too busy to listen, but for moments",
    "silent": "it wrote nothing at all, although brokers were listed",
    "clock": "its clock was set",
    "records_lost": "it could not write records down, and lost them",
    "lost": "it could not write records down, and lost them",
    "records_missing": "records of it are missing",
    "missing": "records of it are missing",
}


def why_left(cause: str | None) -> str:
    """Why a broker left; None: no node that was awake let it go."""
    if cause is None:
        return "no node saw it go"
    return _WHY_LEFT.get(cause, cause.replace("_", " "))


def why_unknown(why: str) -> str:
    """Why a node is no witness."""
    return _WHY_UNKNOWN.get(why, why.replace("_", " "))


def view(said: str | None, *, of_topic: bool) -> str:
    """What a node said of a topic or a broker, as the table has it: a list, an object or null."""
    try:
        told = None if said is None else json.loads(said)
    except ValueError:
        return said or NOTHING
    if told is None:
        return "no such topic on it" if of_topic else "not listed"
    if isinstance(told, dict):
        return "listed with " + members({int(key): str(addr) for key, addr in told.items()})
    if isinstance(told, list) and len(told) == 4:
        return queues(tuple(told))
    return str(said)


_UNITS_OF_TIME = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def step(seconds: int) -> str:
    """What comes after ``each``: ``second``, ``5 minutes``, ``day``."""
    size, noun = next(each for each in _UNITS_OF_TIME if seconds % each[0] == 0)
    return noun if seconds == size else words.counted(seconds // size, noun)


def number(value: float | None, digits: int = 0) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}".replace("-", "−")


def counted(count: int, noun: str) -> str:
    return f"{number(count)} {words.plural(count, noun)}"


def percent(share: float | None) -> str:
    """As many digits as it takes to tell 99.99 from 100."""
    if share is None:
        return NOTHING
    if share >= 1 or share == 0:
        return f"{share:,.0%}"
    for digits in (1, 2, 3):
        text = f"{share:.{digits}%}"
        if text not in (f"{1:.{digits}%}", f"{0:.{digits}%}"):
            return text
    return f"{share:.4%}"


def span(seconds: float | None) -> str:
    """``850 ms``, ``4.2 s``, ``30 s``, ``4 min 10 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if seconds is None:
        return NOTHING
    told = words.span(round(1000 * seconds))
    return "0 s" if told == "0 ms" else told.replace("-", "−")


def size(count: float | None) -> str:
    """``812 B``, ``3.4 KiB``, ``12 MiB``."""
    return NOTHING if count is None else words.size(count).replace("-", "−")


def instant(at: datetime | None) -> str:
    """``2026-11-15 03:12:04``."""
    return NOTHING if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def minute(at: datetime | None) -> str:
    return NOTHING if at is None else f"{at:%Y-%m-%d %H:%M}"


def clock(at: datetime | None) -> str:
    return NOTHING if at is None else f"{at:%H:%M:%S}"


def shortened(name: str, length: int = MAX_NAME) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def member(broker: str, broker_id: int) -> str:
    """A master by its name alone."""
    return broker if broker_id == 0 else f"{broker} (id {broker_id})"
