"""Bounds that are constants: at them a request is taken, one beyond it is refused or forgotten."""

import pytest

from routebook.events import Cause, QueueChange, TopicsChanged
from routebook.handlers import absence, brokers, pieces
from routebook.handlers.absence import Absences
from routebook.state.members import MAX_GAPS
from routebook.wire import fastjson, registration
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.errors import DialectError, WireError
from routebook.wire.headers import MAX_ECHOED
from routebook.wire.proxy import MAX_LINE, parse
from support.builders import compressed_body, mapping_info, registration_body
from support.desk import Desk

TAKEN, REFUSED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("beyond", "code"), [(0, TAKEN), (1, REFUSED)])
def test_a_broker_tells_of_a_thousand_brokers_of_a_static_topic_at_most(
    beyond: int, code: int
) -> None:
    number = brokers.MAX_BROKERS_OF_A_MAPPING + beyond
    told = {str(n): mapping_info("static", bname=f"b{n}") for n in range(number)}
    desk = Desk()
    reply = desk.register(body=registration_body(["static", "t"], mappings=told))
    assert reply.code == code
    known = desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert ("static" in known) == (code == TAKEN), "a refusal leaves no trace"


@pytest.mark.parametrize(("beyond", "code"), [(0, TAKEN), (1, REFUSED)])
def test_a_broker_has_a_thousand_filter_servers_at_most(beyond: int, code: int) -> None:
    servers = [f"f{n}:1" for n in range(brokers.MAX_FILTER_SERVERS + beyond)]
    desk = Desk()
    assert (
        desk.register(body=registration_body(["orders", "t"], filter_servers=servers)).code == code
    )
    assert (desk.route() is not None) == (code == TAKEN)


def test_a_packed_list_of_filter_servers_is_read_up_to_a_size() -> None:
    long = b"f" * 380
    few, many = (registration.MAX_FILTER_LIST // (len(long) + 3) + beyond for beyond in (-1, 1))
    lists = [b"[" + b",".join([b'"' + long + b'"'] * count) + b"]" for count in (few, many)]
    assert Desk().register(body=compressed_body(filter_servers=lists[0])).code == TAKEN
    reply = Desk().register(body=compressed_body(filter_servers=lists[1]))
    assert "the list of filter servers" in (reply.remark or "")


def test_a_text_is_as_deep_as_anybody_writes_one() -> None:
    assert fastjson.loads(b"[" * 60 + b"]" * 60)
    with pytest.raises(DialectError):
        fastjson.loads(b"[" * 5000 + b"]" * 5000)


@pytest.mark.parametrize("code", [RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_KV_CONFIG])
def test_of_a_name_nobody_knows_an_answer_repeats_the_beginning(code: int) -> None:
    name = "n" * (2 * MAX_ECHOED)
    reply = Desk().ask(code, {"topic": name, "namespace": name, "key": name})
    assert len(reply.remark or "") < 2 * MAX_ECHOED + 200


def test_a_proxy_line_without_an_end_is_waited_for_no_longer_than_the_longest() -> None:
    endless = b"PROXY TCP4 " + b"1" * MAX_LINE
    assert parse(endless[: MAX_LINE - 1]) is None
    with pytest.raises(WireError):
        parse(endless[:MAX_LINE])


def test_of_deleted_topics_the_latest_are_remembered() -> None:
    absences = Absences(started_wall_ms=0)
    for number in range(absence.MAX_DELETED + 1):
        note = {"revision": 1, "cause": Cause.ADMIN, "peer": "10.0.0.1:1"}
        changes = (QueueChange(f"t{number}", (1, 1, 6, 0), None),)
        event = TopicsChanged(cluster="c", broker="b", changes=changes, **note)  # type: ignore[arg-type]
        absences.note(event, 1_000, ())
    assert absences.reason("t0") != absences.reason("t1")
    assert absences.reason("t1") == absences.reason(f"t{absence.MAX_DELETED}")


def test_of_odd_shapes_a_group_keeps_so_many_encoded() -> None:
    shapes = {
        f"t{n}": {"readQueueNums": 1 + n, "writeQueueNums": 1}
        for n in range(pieces.MAX_SHAPES + 10)
    }
    desk = Desk()
    desk.register(body=registration_body(shapes))
    for topic in shapes:
        assert desk.route(topic) is not None
    assert 0 < len(desk.services.renderer.pieces) <= pieces.MAX_SHAPES


def test_of_one_broker_so_many_gaps_between_heartbeats_are_kept() -> None:
    desk = Desk()
    desk.register()
    [member] = desk.routes.members.live()
    for _ in range(MAX_GAPS + 50):
        desk.now_ms += 1
        desk.ask(
            RequestCode.BROKER_HEARTBEAT,
            {"clusterName": member.group.cluster, "brokerAddr": member.known.addr},
        )
    assert len(member.gaps_ms) == MAX_GAPS
