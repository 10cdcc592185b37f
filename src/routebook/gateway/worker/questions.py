"""The questions a worker answers, by name: each makes a document of a job."""

from collections.abc import Callable, Mapping
from typing import Any

from routebook.gateway.worker import history, surveys
from routebook.gateway.worker.frames import Job
from routebook.gateway.worker.workplace import Told, Workplace

__all__ = ["QUESTIONS", "Told", "Workplace"]

QUESTIONS: Mapping[str, Callable[[Job, Workplace, Told], dict[str, Any]]] = {
    "span": history.span,
    "route": history.route,
    "diff": history.diff,
    "topic": history.topic,
    "demand": history.demand,
    "broker": history.broker,
    "heartbeats": history.heartbeats,
    "explain": history.explain,
    "compare": history.compare,
    "topics": history.topics,
    "window": history.window,
    "differences": surveys.differences,
    "doctor": surveys.doctor,
}
