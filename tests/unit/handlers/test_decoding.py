"""What registrations take while they are worked on is known, and for whom."""

from collections.abc import Generator

import pytest

from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Caller
from routebook.slices import Slices
from routebook.wire.command import Command, Reply
from support.builders import broker_fields, compressed_body, registration_body
from support.desk import Desk

TOPICS = [f"topic-{number}" for number in range(10_000)]


def begun(desk: Desk, number: int, body: bytes) -> Slices[Reply]:
    fields = broker_fields(f"b{number}", addr=f"10.0.0.{number}:1")
    fields["compressed"] = str(body[:1] == b"x").lower()
    request = Command(103, 0, 1, 513, None, fields, body)
    answer = dispatch(request, desk.services, Caller(number, f"10.0.0.{number}:{number}"))
    assert isinstance(answer, Generator)
    return answer


@pytest.mark.parametrize("body", [registration_body(TOPICS), compressed_body(TOPICS)])
def test_registrations_at_work_are_charged_to_their_hosts_until_they_are_done(body: bytes) -> None:
    desk = Desk()
    first, second = begun(desk, 1, body), begun(desk, 2, body)
    most = 0
    for _ in first:
        most = max(most, desk.services.decoding.by_host.get("10.0.0.1", 0))
        next(second, None)
    assert most > 10_000 * 100
    assert set(desk.services.decoding.by_host) == {"10.0.0.2"}
    second.close()
    assert desk.services.decoding.by_host == {}


def test_a_registration_that_is_refused_leaves_nothing_in_it() -> None:
    desk = Desk(max_topics_per_broker=5000)
    assert desk.register(body=registration_body(TOPICS)).code != 0
    assert desk.services.decoding.by_host == {}
