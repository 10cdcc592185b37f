"""A window is summed up in slices: a few brokers, or one record of topics, each."""

from routebook.events import Event, HeartbeatGaps, RouteQueries
from routebook.server.windows import BROKERS_A_SLICE, TOPICS_A_RECORD, sum_up
from routebook.state.revision import Revision
from routebook.wire.codes import RequestCode
from support.builders import registration_body
from support.desk import Desk

MANY = 4 * BROKERS_A_SLICE
ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def heard_of() -> Desk:
    """Many brokers, each with one gap between two signs of life."""
    desk = Desk()
    for number in range(MANY):
        body = registration_body([])
        desk.register(f"b{number}", addr=f"a{number}:1", link=number + 1, body=body)
    desk.now_ms += 1000
    for number in range(MANY):
        beat(desk, number)
    return desk


def beat(desk: Desk, number: int) -> None:
    fields: dict[str, str | None] = {"clusterName": "c1", "brokerAddr": f"a{number}:1"}
    desk.ask(RequestCode.BROKER_HEARTBEAT, fields, link=number + 1)


def gaps(events: list[Event]) -> list[HeartbeatGaps]:
    return [event for event in events if isinstance(event, HeartbeatGaps)]


def test_many_brokers_are_told_of_a_few_a_slice() -> None:
    slices = list(sum_up(heard_of().services, revision=Revision(7), window_ms=1000))
    assert [len(events) for events in slices] == [BROKERS_A_SLICE] * 4
    assert len({event.addr for events in slices for event in gaps(events)}) == MANY


def test_many_topics_are_told_of_one_record_a_slice() -> None:
    desk = Desk()
    for number in range(2 * TOPICS_A_RECORD + 1):
        desk.ask(ROUTE, {"topic": f"t{number}"})
    slices = list(sum_up(desk.services, revision=Revision(7), window_ms=1000))
    told = [event for events in slices for event in events if isinstance(event, RouteQueries)]
    assert [len(event.topics) for event in told] == [TOPICS_A_RECORD, TOPICS_A_RECORD, 1]
    assert len(slices) == 3


def test_who_leaves_before_its_turn_is_not_told_of_and_later_signs_of_life_are_kept() -> None:
    desk, revision = heard_of(), Revision(7)
    slices = sum_up(desk.services, revision=revision, window_ms=1000)
    [*_, told] = gaps(next(slices))
    last = MANY - 1
    desk.close(last + 1)
    desk.now_ms += 500
    beat(desk, 0)  # told of already: for the next window
    revision.value = 9
    rest = [event for events in slices for event in gaps(events)]
    assert told.revision == 7
    assert {event.revision for event in rest} == {9}
    assert len(rest) == MANY - BROKERS_A_SLICE - 1
    assert f"a{last}:1" not in {event.addr for event in rest}
    [[again]] = sum_up(desk.services, revision=revision, window_ms=500)
    assert gaps([again])[0].gaps_ms == (500,)


def test_a_window_in_which_nothing_happened_is_one_empty_record_where_it_must_be_told() -> None:
    desk = Desk()
    assert list(sum_up(desk.services, revision=Revision(), window_ms=1000)) == []
    [[empty]] = sum_up(desk.services, revision=Revision(), window_ms=1000, silent=True)
    assert isinstance(empty, RouteQueries)
    assert empty.topics == ()
