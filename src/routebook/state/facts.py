"""Facts: events made of what the state holds, each stamped with the next revision."""

from collections.abc import Generator
from typing import TypedDict, TypeVar

from routebook.events import (
    BrokerConflict,
    Cause,
    Event,
    MinBrokerChanged,
    QueueChange,
    RequestRefused,
    Subject,
    TopicsChanged,
)
from routebook.slices import Slices
from routebook.state.model import Group, Member, Registration
from routebook.state.revision import Revision

T = TypeVar("T")

Changes = Generator[list[Event], None, T]
"""A change of the tables, in slices. What each yields is recorded before the next one."""


def quietly(work: Slices[T]) -> Changes[T]:
    """Slices of a change of the tables that tell nothing."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        yield []


class Fact(TypedDict):
    revision: int
    cause: Cause
    peer: str


class MemberFact(Fact):
    cluster: str
    broker: str
    broker_id: int
    addr: str
    generation: int


class Facts:
    def __init__(self, revision: Revision) -> None:
        self._revision = revision

    def topics_changed(
        self,
        group: Group,
        changes: list[QueueChange],
        registration: Registration | None,
        cause: Cause,
        peer: str = "",
    ) -> list[Event]:
        if not changes:
            return []
        return [
            TopicsChanged(
                **self.fact(cause, registration.peer if registration else peer),
                cluster=group.cluster,
                broker=group.name,
                changes=tuple(changes),
            )
        ]

    def not_registered(
        self, registration: Registration, cause: Cause, reason: str, *, told: bool
    ) -> Event:
        subject = Subject(
            registration.cluster,
            registration.name,
            registration.addr,
            broker_id=registration.broker_id,
        )
        return self.refused(
            "REGISTER_BROKER",
            str(subject),
            reason,
            cause=cause,
            peer=registration.peer,
            told=told,
        )

    def refused(
        self, request: str, subject: str, reason: str, *, cause: Cause, peer: str, told: bool
    ) -> Event:
        """``told``: the peer was, that it was refused."""
        return RequestRefused(
            **self.fact(cause, peer),
            request=request,
            subject=subject,
            reason=reason,
            answered_success=not told,
        )

    def fact(self, cause: Cause, peer: str) -> Fact:
        return {"revision": self._revision.next(), "cause": cause, "peer": peer}

    def about(self, member: Member, cause: Cause, peer: str) -> MemberFact:
        return {
            "revision": self._revision.next(),
            "cause": cause,
            "peer": peer,
            "cluster": member.group.cluster,
            "broker": member.group.name,
            "broker_id": member.broker_id,
            "addr": member.addr,
            "generation": member.generation,
        }

    def conflict(self, registration: Registration, *, kept: str, other: str, reason: str) -> Event:
        return BrokerConflict(
            **self.fact(Cause.CONFLICT, registration.peer),
            cluster=registration.cluster,
            broker=registration.name,
            broker_id=registration.broker_id,
            kept=kept,
            other=other,
            reason=reason,
        )

    def min_changed(
        self,
        group: Group,
        peer: str,
        cause: Cause,
        *,
        ha_addr: str | None = None,
        offline_addr: str | None = None,
    ) -> Event:
        lowest = group.lowest
        members = list(group.addrs.values())
        if offline_addr is None and len(members) > 1:
            members.remove(lowest.addr)
        return MinBrokerChanged(
            **self.fact(cause, peer),
            cluster=group.cluster,
            broker=group.name,
            min_broker_id=lowest.broker_id,
            min_broker_addr=lowest.addr,
            offline_addr=offline_addr,
            ha_addr=ha_addr,
            recipients=tuple(members),
        )


def details(member: Member) -> dict[str, object]:
    return {
        "ha_addr": member.ha_addr,
        "heartbeat_timeout_ms": member.heartbeat_timeout_ms,
        "acting_master": member.group.acting_master,
        "zone": member.group.zone,
        "filter_servers": member.filter_servers,
        "epoch": member.state_version,
    }
