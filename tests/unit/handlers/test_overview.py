"""What a node tells at a glance (19009), and what it counts (19008)."""

import json
from typing import Any

import pytest

from routebook.handlers.counts import ERROR, REJECTED, SUCCESS
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.overview import decode_summary
from support.builders import registration_body
from support.desk import Desk

ROUTE, HEARTBEAT, UNREGISTER = 105, 904, 104


def summary(desk: Desk, **fields: str) -> dict[str, Any]:
    reply = desk.ask(RequestCode.ROUTEBOOK_SUMMARY, dict(fields))
    assert reply.code == ResponseCode.SUCCESS, reply
    decode_summary(reply.body)  # as a gateway reads it
    told: dict[str, Any] = json.loads(reply.body)
    return told


def test_a_group_is_told_with_its_members_and_its_digest() -> None:
    desk = Desk()
    desk.register("broker-a", body=registration_body())
    desk.register("broker-a", 1, body=registration_body())
    told = summary(desk)
    [group] = told["groups"]
    assert told["full"] is True
    assert (group["cluster"], group["broker"], group["topics"]) == ("c1", "broker-a", 2)
    assert [(m["id"], m["addr"], m["confirmed"], m["held"]) for m in group["members"]] == [
        (0, "10.0.0.1:10911", True, False),
        (1, "10.0.0.2:10911", True, False),
    ]
    assert len(group["digest"]) == 16


def test_since_has_only_what_changed_told() -> None:
    desk = Desk()
    desk.register("broker-a")
    first = summary(desk)
    again = summary(desk, since=f"{first['boot']}.{first['rev']}")
    assert (again["full"], again["groups"], again["gone"]) == (False, [], [])
    other_boot = summary(desk, since=f"0123.{first['rev']}")
    assert (other_boot["full"], len(other_boot["groups"])) == (True, 1)


def test_silences_are_told_to_who_asks_for_them() -> None:
    desk = Desk()
    desk.register("broker-a")
    desk.now_ms += 1234
    assert "silences" not in summary(desk)
    assert summary(desk, silences="true")["silences"] == [["c1", "broker-a", 0, 1234]]


def test_names_that_are_no_text_are_told_all_the_same() -> None:
    desk = Desk()
    desk.register("broker-\ud800", cluster="c\udfff")
    told = summary(desk, silences="true")
    assert (told["groups"][0]["broker"], told["groups"][0]["cluster"]) == ("broker-?", "c?")


@pytest.mark.parametrize("since", ["", "boot", "boot.", "boot.x", ".-1", "boot." + "9" * 30])
def test_a_since_that_no_node_gave_is_refused(since: str) -> None:
    reply = Desk().ask(RequestCode.ROUTEBOOK_SUMMARY, {"since": since})
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "boot.revision" in (reply.remark or "")


def test_requests_are_counted_by_how_they_ended() -> None:
    desk = Desk()
    desk.register("broker-a")
    desk.route("orders")
    desk.route("nothing")  # that there is none is an answer
    desk.ask(UNREGISTER, {})
    desk.ask(4711)
    counts = desk.services.counts
    assert counts[RequestCode.REGISTER_BROKER] == [1, 0, 0]
    assert counts[ROUTE][SUCCESS] == 2
    assert counts[UNREGISTER][REJECTED] == 1
    assert counts[4711] == [0, 1, 0]  # with all codes that nobody knows
    assert counts[4712] is counts[4711]


def test_a_mistake_of_ours_is_counted_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    monkeypatch.setattr(desk.services.routes, "heartbeat", None)
    desk.register("broker-a")
    fields = {"brokerName": "broker-a", "clusterName": "c1", "brokerAddr": "10.0.0.1:10911"}
    desk.ask(HEARTBEAT, {**fields, "brokerId": "0"})
    assert desk.services.counts[HEARTBEAT][ERROR] == 1


def test_all_questions_are_counted_also_those_of_windows_that_are_told() -> None:
    desk = Desk()
    desk.register("broker-a")
    desk.route("orders")
    desk.route("nothing")
    assert desk.tally.totals() == [1, 1, 0]
    desk.tally.take()
    desk.route("orders")
    assert desk.tally.totals() == [2, 1, 0]
