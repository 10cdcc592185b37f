import json
import logging

import pytest

from routebook.events import Cause, QueueChange, RequestRefused, TopicsChanged
from routebook.server.eventlog import line, log_event


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


def test_refusals_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(
        RequestRefused(
            revision=1,
            cause=Cause.REFUSED,
            peer="p:1",
            request="REGISTER_BROKER",
            subject="c b",
            reason="no",
            answered_success=False,
        )
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"]
