"""What is told of demand for topics, and of signs of life of brokers."""

from collections.abc import Iterable
from typing import Any

from routebook.documents.history.routes import Origin, origins_document
from routebook.history.counts import GAP_LIMITS_MS, Demand, MemberSigns
from routebook.words import exact


def demand_document(
    topic: str, answers: Iterable[Demand], origins: Iterable[Origin]
) -> dict[str, Any]:
    return {
        "topic": topic,
        "sources": origins_document(origins),
        "nodes": [_demand(answer) for answer in answers],
    }


def _demand(demand: Demand) -> dict[str, Any]:
    counts = [point.count for point in demand.points]
    return {
        "node": demand.node,
        "known": sum(count.known for count in counts),
        "unknown": sum(count.unknown for count in counts),
        "not_ready": sum(count.not_ready for count in counts),
        "unlisted": demand.unlisted,
        "points": [
            {
                "at": exact(point.wall_ms),
                "window_ms": point.window_ms,
                "known": point.count.known,
                "unknown": point.count.unknown,
                "not_ready": point.count.not_ready,
            }
            for point in demand.points
        ],
    }


def signs_document(
    broker: str,
    answers: Iterable[tuple[str, Iterable[MemberSigns]]],
    origins: Iterable[Origin],
) -> dict[str, Any]:
    return {
        "broker": broker,
        "sources": origins_document(origins),
        "histogram_ms": list(GAP_LIMITS_MS),
        "nodes": [
            {"node": node, "members": [_member(member) for member in members]}
            for node, members in answers
        ],
    }


def _member(member: MemberSigns) -> dict[str, Any]:
    return {
        "cluster": member.cluster,
        "broker_id": member.broker_id,
        "address": member.addr,
        "timeout_ms": member.timeout_ms,
        "histogram": member.histogram,
        "points": [
            {
                "at": exact(point.wall_ms),
                "window_ms": point.window_ms,
                "gaps_ms": list(point.gaps_ms),
            }
            for point in member.points
        ],
    }
