import json
import logging

import pytest

from routebook.events import (
    BrokerLeft,
    Cause,
    Event,
    GuardEngaged,
    GuardReleased,
    KvChanged,
    QueueChange,
    RequestRefused,
    Suspect,
    TopicsChanged,
)
from routebook.server.event_log import line, log_event


def topics_changed(count: int) -> TopicsChanged:
    return TopicsChanged(
        revision=7,
        cause=Cause.REGISTER,
        peer="p:1",
        cluster="c",
        broker="b",
        changes=tuple(QueueChange(f"t{n}", None, (8, 8, 6, 0)) for n in range(count)),
    )


def test_an_event_is_one_json_object() -> None:
    assert json.loads(line(topics_changed(1))) == {
        "event": "TopicsChanged",
        "revision": 7,
        "cause": "register",
        "peer": "p:1",
        "cluster": "c",
        "broker": "b",
        "changes": [{"topic": "t0", "before": None, "after": [8, 8, 6, 0]}],
    }


def test_a_long_list_is_its_length_and_some_examples() -> None:
    members = json.loads(line(topics_changed(10_000)))
    assert (members["changes_count"], len(members["changes"])) == (10_000, 3)


def guard_engaged(count: int) -> GuardEngaged:
    return GuardEngaged(
        revision=7,
        cause=Cause.GUARD,
        peer="",
        suspects=tuple(Suspect("c", f"b{n}", 0, f"b{n}:1", 120_001) for n in range(count)),
        silent=count,
        live=count,
        limit=count // 2,
        window_ms=60_000,
        hold_ms=600_000,
    )


def test_brokers_that_are_held_are_counted_and_some_are_named() -> None:
    members = json.loads(line(guard_engaged(200)))
    assert members["suspects_count"] == 200
    assert members["suspects"][:1] == [
        {"cluster": "c", "broker": "b0", "broker_id": 0, "addr": "b0:1", "silent_ms": 120_001}
    ]
    assert len(members["suspects"]) == 3
    assert (members["silent"], members["limit"], members["hold_ms"]) == (200, 100, 600_000)


@pytest.mark.parametrize(
    "event",
    [
        RequestRefused(
            revision=1,
            cause=Cause.REFUSED,
            peer="p:1",
            request="REGISTER_BROKER",
            subject="c b",
            reason="no",
            answered_success=False,
        ),
        guard_engaged(1),
        GuardReleased(
            revision=1, cause=Cause.GUARD, peer="", reason="deadline", returned=0, left=0, dropped=1
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_needs_attention_is_a_warning(event: Event, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(event)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def kv_changed(value: str) -> KvChanged:
    return KvChanged(
        revision=1, cause=Cause.ADMIN, peer="p:1", namespace="n", key="k", before=None, after=value
    )


@pytest.mark.parametrize("odd", ["\x1b[2J", "\x7f", "\x9b2J", "\u2028", "\u202e"], ids=ascii)
def test_no_control_character_reaches_the_log_and_it_is_still_json(odd: str) -> None:
    text = line(kv_changed(f"a{odd}b"))
    assert text.isprintable()
    assert json.loads(text)["after"] == f"a{odd}b"


def test_a_long_value_is_cut() -> None:
    assert len(line(kv_changed("x" * 1_000_000))) < 1000


def test_a_group_of_many_is_counted_and_some_are_named() -> None:
    addrs = {number: f"10.0.0.1:{number}" for number in range(3000)}
    event = BrokerLeft(
        revision=1,
        cause=Cause.EXPIRED,
        peer="",
        cluster="c",
        broker="b",
        broker_id=1,
        addr="10.0.0.1:1",
        generation=1,
        addrs_before=addrs,
        addrs_after={},
        topics_lost=0,
    )
    members = json.loads(line(event))
    assert members["addrs_before_count"] == 3000
    assert len(members["addrs_before"]) == 16
