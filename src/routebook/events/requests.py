"""What peers asked for: pairs and settings that changed, and requests that were refused."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from routebook.events.event import Event, Kind


class Subject(NamedTuple):
    """What a request is about, as far as it said or is known."""

    cluster: str | None = None
    broker: str | None = None
    addr: str | None = None
    topic: str | None = None
    namespace: str | None = None
    key: str | None = None
    broker_id: int | None = None

    def __str__(self) -> str:
        """``cluster/broker:id addr`` of a broker that was understood, else what there is."""
        *said, broker_id = self
        if broker_id is None:
            return " ".join(filter(None, said))
        return f"{self.cluster}/{self.broker}:{broker_id} {self.addr}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """Something was asked and not done. ``answered_success`` where peers may not be told."""

    kind: ClassVar[Kind] = Kind.REFUSAL
    alarming: ClassVar[bool] = True

    request: str
    subject: str
    reason: str
    answered_success: bool

    def is_about_topic(self, topic: str) -> bool:
        if self.request in _OF_PAIRS:
            return self.subject.partition(" ")[2] == topic
        return self._names(topic, self.request in _OF_TOPICS)

    def is_about_broker(self, broker: str) -> bool:
        return self._names(broker, self.request in _OF_BROKERS)

    def _names(self, name: str, of_such: bool) -> bool:
        """Whether ``name``, which is not that of the cluster, is in the text of a ``Subject``.

        Older ones may be ``cluster/broker addr``.
        """
        if self.subject == name or not of_such:
            return self.subject == name
        found = re.search(rf"(?:^|[/ ]){re.escape(name)}(?::\d+)?(?= |$)", self.subject)
        if found is None:
            return False
        is_cluster = found.start() == 0 and self.subject.count(" ") > 1
        return not is_cluster or re.search(rf" {re.escape(name)} ", self.subject) is not None


_OF_PAIRS = frozenset({"PUT_KV_CONFIG", "GET_KV_CONFIG", "DELETE_KV_CONFIG"})
_OF_TOPICS = frozenset(
    {"GET_ROUTEINFO_BY_TOPIC", "DELETE_TOPIC_IN_NAMESRV", "REGISTER_TOPIC_IN_NAMESRV"}
)
_OF_BROKERS = frozenset(
    {
        "REGISTER_BROKER",
        "UNREGISTER_BROKER",
        "WIPE_WRITE_PERM_OF_BROKER",
        "ADD_WRITE_PERM_OF_BROKER",
        "ROUTEBOOK_RESTORE_WRITE_PERM",
        "QUERY_DATA_VERSION",
        "GET_BROKER_MEMBER_GROUP",
        "BROKER_HEARTBEAT",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvChanged(Event):
    namespace: str
    key: str
    before: str | None
    after: str | None

    def is_about_topic(self, topic: str) -> bool:
        return self.key == topic

    def with_values(self, told: Callable[[str], str]) -> Self:
        before, after = (
            None if value is None else told(value) for value in (self.before, self.after)
        )
        return replace(self, before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Event):
    before: dict[str, str]
    after: dict[str, str]
