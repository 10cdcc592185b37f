"""What is told of a window: the topology at its beginning, and what became of it."""

from collections.abc import Iterable
from typing import Any

from routebook.documents.events import small_document
from routebook.documents.history.routes import Origin, origins_document
from routebook.history.telling.silences import silence_sentence
from routebook.history.times import Moment
from routebook.history.window import GroupState, Step, TopicHeld, Window
from routebook.words import permission


def window_document(
    window: Window, origins: Iterable[Origin], *, with_groups: bool = True
) -> dict[str, Any]:
    return {
        "node": window.node,
        "sources": origins_document(origins),
        "from_ms": window.from_ms,
        "to_ms": window.to_ms,
        "from_seq": window.from_seq,
        "to_seq": window.to_seq,
        "known": window.known,
        "complete": window.complete,
        "doubts": list(window.doubts),
        "groups": [_group(group) for group in window.groups] if with_groups else None,
        "events": [_step(step) for step in window.steps],
        "silences": [
            {
                "from_ms": silence.since_ms,
                "to_ms": silence.until_ms,
                "reason": silence.reason.value,
                "text": silence_sentence(silence),
            }
            for silence in window.silences
        ],
    }


def _step(step: Step) -> dict[str, Any]:
    """``after`` is there for what changes a group, ``groups`` for what changes all of them."""
    document = small_document(step.record)
    if step.after is not None:
        document["after"] = _group(step.after) if step.after.members else None
    if step.all_groups is not None:
        document["groups"] = [_group(group) for group in step.all_groups]
    return document


def _group(group: GroupState) -> dict[str, Any]:
    return {
        "cluster": group.cluster,
        "broker": group.broker,
        "zone": group.zone,
        "acting_master": group.acting_master,
        "members": {str(broker_id): addr for broker_id, addr in group.members.items()},
        "unconfirmed": list(group.unconfirmed),
        "topics": group.topics,
    }


def topic_held_document(held: TopicHeld) -> dict[str, Any]:
    return {
        "cluster": held.cluster,
        "topic": held.topic,
        "queues": list(held.queues),
        "permission": permission(held.queues[2]),
        "registered": None if held.registered is None else list(held.registered),
    }


def topics_held_document(
    broker: str, moment: Moment, node: str, origins: Iterable[Origin], *, known: bool
) -> dict[str, Any]:
    """All but the topics, of which there is a page."""
    return {
        "broker": broker,
        "at": str(moment),
        "sources": origins_document(origins),
        "node": node,
        "known": known,
    }
