from routebook.events import BrokerLeft, Cause, MappingsChanged, QueueChange
from routebook.state.kv import KvChange
from support.builders import mapping_info, registration_body
from support.telling import READ_ONLY, SHAPE, registered, started, view_of, wipe


def test_a_view_does_not_differ_from_itself() -> None:
    view = view_of(registered("broker-a").events)
    assert not view.diff(view.copy())


def test_what_only_the_node_knows_is_no_difference() -> None:
    desk = registered("broker-a")
    before = view_of(desk.events)
    desk.register("broker-a", link=77, body=registration_body(counter=5))
    assert not before.diff(view_of([*desk.events, started(brokers=1)]))


def test_all_that_differs_is_listed() -> None:
    desk = registered("broker-a")
    before = view_of(desk.events)
    wipe(desk)
    body = registration_body(["static", "other"], mappings={"static": mapping_info("static")})
    desk.register("broker-b", addr="10.0.0.2:10911", body=body)
    desk.events += desk.kv.apply([KvChange("space", "a", "1")])
    mapping = desk.last(MappingsChanged).mappings[0]
    found = before.diff(view_of(desk.events))
    assert [(g.broker, g.before is None, g.after is None) for g in found.groups] == [
        ("broker-b", True, False)
    ]
    assert [(m.broker, m.after.addr) for m in found.members if m.after] == [
        ("broker-b", "10.0.0.2:10911")
    ]
    assert [(q.broker, q.change) for q in found.queues] == [
        ("broker-a", QueueChange("orders", SHAPE, READ_ONLY, SHAPE)),
        ("broker-a", QueueChange("payments", SHAPE, READ_ONLY, SHAPE)),
        ("broker-b", QueueChange("other", None, SHAPE)),
        ("broker-b", QueueChange("static", None, SHAPE)),
    ]
    assert [(m.topic, m.before, m.after) for m in found.mappings] == [("static", None, mapping)]
    assert found.kv == (("space", "a", None, "1"),)


def test_a_group_that_left_is_a_difference() -> None:
    desk = registered("broker-a")
    before = view_of(desk.events)
    desk.expire(200_000)
    assert desk.last(BrokerLeft).cause is Cause.EXPIRED
    found = before.diff(view_of(desk.events))
    assert [(m.broker_id, m.after) for m in found.members] == [(0, None)]
    assert [q.change.after for q in found.queues] == [None, None]
