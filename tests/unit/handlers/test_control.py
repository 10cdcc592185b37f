"""Requests of Routebook's own."""

import json

from routebook.wire.codes import RequestCode, ResponseCode
from support.builders import registration_body
from support.desk import Desk


def test_health_is_a_json_object() -> None:
    reply = Desk().ask(RequestCode.ROUTEBOOK_HEALTH)
    assert reply.code == ResponseCode.SUCCESS
    assert json.loads(reply.body) == {"revision": 0}


def test_recent_records_come_as_lines() -> None:
    reply = Desk().ask(RequestCode.ROUTEBOOK_RECENT, {"topic": "orders"})
    assert reply.ext_fields == {"dropped": "0", "from_seq": "1", "state": "yes"}
    assert reply.body == b"one\ntwo\n"


def test_the_guard_is_released_from_the_same_machine_only() -> None:
    desk = Desk()
    refused = desk.ask(RequestCode.ROUTEBOOK_RELEASE_GUARD)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "allowRemoteConfig" in (refused.remark or "")
    for peer in ("127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5"):
        done = desk.ask(RequestCode.ROUTEBOOK_RELEASE_GUARD, peer=peer)
        assert done.ext_fields == {"dropped": "3"}


def restore(desk: Desk, **fields: str) -> dict[str, object]:
    asked: dict[str, str | None] = {"brokerName": "broker-a", **fields}
    reply = desk.ask(RequestCode.ROUTEBOOK_RESTORE_WRITE_PERM, asked)
    assert reply.code == ResponseCode.SUCCESS, reply
    state: dict[str, object] = json.loads(reply.body)
    return state


PERMS = {"orders": 6, "TBW102": 7, "archive": 4, "template": 1, "inbox": 2, "closed": 0}


def with_all_permissions() -> Desk:
    desk = Desk()
    desk.register(body=registration_body({topic: {"perm": p} for topic, p in PERMS.items()}))
    return desk


def perms(desk: Desk) -> dict[str, int]:
    return {topic: desk.perms(topic)["broker-a"] for topic in PERMS}


def test_what_was_taken_is_given_back_and_nothing_else() -> None:
    desk = with_all_permissions()
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    assert restore(desk, lookOnly="true") == {
        "topics": 6,
        "restored": 0,
        "taken": ["TBW102", "inbox", "orders"],
        "kept": ["archive", "closed", "template"],
    }
    assert perms(desk) == {topic: perm & ~2 for topic, perm in PERMS.items()}

    kept = ["archive", "closed", "template"]
    assert restore(desk) == {"topics": 6, "restored": 3, "taken": [], "kept": kept}
    assert perms(desk) == PERMS
    recorded = len(desk.events)
    assert restore(desk)["restored"] == 0
    assert len(desk.events) == recorded


def test_a_registration_in_between_changes_nothing_of_it() -> None:
    desk = with_all_permissions()
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"})
    desk.register(body=registration_body({topic: {"perm": p} for topic, p in PERMS.items()}))
    assert desk.perms()["broker-a"] == 4
    restore(desk)
    assert perms(desk) == PERMS


def test_what_has_no_master_is_not_called_writable() -> None:
    desk = Desk()
    desk.register(enableActingMaster="true", link=5)
    desk.register(broker_id=1, enableActingMaster="true", link=6)
    desk.close(5)
    assert desk.perms()["broker-a"] == 4

    state = restore(desk)

    assert (state["restored"], state["taken"]) == (0, ["orders", "payments"])
    assert desk.perms()["broker-a"] == 4


def test_an_unknown_broker_has_nothing_to_be_given_back() -> None:
    assert restore(Desk()) == {"topics": 0, "restored": 0, "taken": [], "kept": []}
