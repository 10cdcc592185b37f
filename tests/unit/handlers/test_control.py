"""Requests of Routebook's own."""

import json

from routebook.wire.codes import RequestCode, ResponseCode
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
