"""What ``routebook.history`` says of rows: functions for Spark to call on a few of them."""

from collections.abc import Sequence

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from routebook.events import (
    BrokerLeft,
    BrokerRegistered,
    Event,
    GroupRestated,
    Shape,
    TopicsChanged,
)
from routebook.history.finding.witness import Silence, Silent
from routebook.history.telling import queue_words, words
from routebook.history.telling.sentences import Context, sentence
from routebook.history.telling.silences import silence_sentence
from routebook.history.telling.timeline import is_worth_telling
from routebook.journal.record import event_of
from routebook_spark.answers.events import event_in

_text = F.udf(returnType=StringType(), useArrow=False)


@_text
def told(
    row: Row,
    broker: str | None,
    away_ms: int | None,
    registered_topics: int | None,
    timeout_ms: int | None,
) -> str | None:
    """One sentence, or a few; None for an event that says nothing, or not of ``broker``.

    Around it are known, or None: how long ago the broker left, the topics of the registration that
    begins with it, the timeout of the broker.
    """
    event = event_in(row)
    if broker is not None and not event.is_about_broker(broker):
        return None
    if not is_worth_telling(event, timeout_ms):
        return None
    if isinstance(event, TopicsChanged):
        event = event.for_clients()
    if isinstance(event, BrokerRegistered):
        return sentence(event, Context(away_ms=away_ms, topics=registered_topics))
    return sentence(event, Context(timeout_ms=timeout_ms))


@_text
def turn_told(topic: str, turn: Row, row: Row | None, holders: Sequence[str] | None) -> str:
    """What became of the queues of ``topic`` on one broker.

    ``row`` is the event that says so, ``holders`` are the brokers that have the topic after it.
    """
    event = event_in(row) if row is not None and row["broker"] == turn["broker"] else None
    gone = turn["after"] is None
    context = Context(topic=topic, holders=tuple(holders or ()), away_ms=turn["away_ms"])
    if event is not None and isinstance(event, BrokerLeft if gone else GroupRestated):
        return sentence(event, context)
    if not gone or isinstance(event, TopicsChanged):
        return sentence(_changed(topic, turn, row), context)
    why = _UNSEEN.get(turn["cause"], turn["cause"]) or "nobody knows why"
    return f"{topic} is no longer on {turn['broker']}: {why}."


_UNSEEN = {
    "node_restarted": "the node started without it",
    "lost_track": "it was not among what was restated after records were lost",
}


def _changed(topic: str, turn: Row, row: Row | None) -> Event:
    """That alone, whatever else happened with it."""
    return event_of(
        TopicsChanged.__name__,
        {
            "revision": 0,
            "cause": turn["cause"] or "",
            "peer": (row and row["peer"]) or "",
            "cluster": turn["cluster"],
            "broker": turn["broker"],
            "changes": [{"before": turn["before"], "after": turn["after"], "topics": [topic]}],
        },
    )


@_text
def silence_told(ends: str, since_ms: int, until_ms: int) -> str:
    """What the end of a time in ``node_coverage`` means, and the next beginning."""
    return silence_sentence(Silence(since_ms, until_ms, SILENT[ends]))


SILENT = {
    "stopped": Silent.STOPPED,
    "killed": Silent.KILLED,
    "records_lost": Silent.LOST,
    "records_missing": Silent.MISSING,
    "stalled": Silent.STALLED,
    "silent": Silent.SILENT,
    "clock": Silent.CLOCK,
}
"""By their names in ``node_coverage``."""


@_text
def what_changed(before: Sequence[int] | None, after: Sequence[int] | None) -> str:
    """``permission RW- to R--, read queues 8 to 4``."""
    return queue_words.what_changed(_shape(before), _shape(after))


@_text
def member_changed(broker_id: int, before: str | None, after: str | None) -> str:
    """``id 0 (10.0.0.1:10911) came``."""
    if before is None:
        return f"{words.member(broker_id, after or '')} came"
    went = words.member(broker_id, before)
    return f"{went} went" if after is None else f"{went} is at {after} now"


def _shape(queues: Sequence[int] | None) -> Shape | None:
    if queues is None:
        return None
    read, write, perm, flags = queues
    return read, write, perm, flags
