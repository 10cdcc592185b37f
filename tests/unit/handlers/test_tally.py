"""Route queries are counted, however they are answered."""

from routebook.events import QueryCount
from routebook.handlers.tally import MAX_NAME, MAX_TOPICS, QueryTally
from routebook.wire import header_json
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import Command
from support.desk import Desk

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def taken(tally: QueryTally) -> tuple[tuple[QueryCount, ...], int]:
    counts, others = tally.take()
    return tuple(counts), others


def test_known_unknown_and_early_questions_are_told_apart() -> None:
    desk = Desk()
    desk.register("broker-a")
    desk.ask(ROUTE, {"topic": "orders"})
    desk.ask(ROUTE, {"topic": "orders"})
    desk.ask(ROUTE, {"topic": "nowhere"})
    assert taken(desk.tally) == (
        (QueryCount("orders", 2, 0, 0), QueryCount("nowhere", 0, 1, 0)),
        0,
    )
    early = Desk(need_wait_for_service=True)
    early.ask(ROUTE, {"topic": "orders"})
    assert taken(early.tally) == ((QueryCount("orders", 0, 0, 1),), 0)


def test_answers_of_the_memo_are_counted_too() -> None:
    desk = Desk()
    desk.register("broker-a")
    request = Command(code=ROUTE, version=Version.V5_5_0, ext_fields={"topic": "orders"})
    reply = desk.ask(ROUTE, {"topic": "orders"})
    header = header_json.encode_request(request)
    desk.services.memo.keep(header, request, reply)
    assert desk.services.memo.find(header) is not None
    assert desk.services.memo.find(header) is not None
    assert taken(desk.tally) == ((QueryCount("orders", 3, 0, 0),), 0)


def test_names_nobody_could_register_take_no_room() -> None:
    tally = QueryTally()
    for number in range(MAX_TOPICS + 5):
        tally.cell(f"topic-{number}")[1] += 1
    tally.cell("x" * (MAX_NAME + 1))[1] += 1
    counts, others = taken(tally)
    assert len(counts) == MAX_TOPICS
    assert others == 6
    assert taken(tally) == ((), 0)
