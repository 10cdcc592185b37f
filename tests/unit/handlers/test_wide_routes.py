"""Routes that hundreds of groups are part of: the same bytes, encoded in slices, once for many."""

import asyncio

import pytest

from routebook.handlers.dispatch import dispatch
from routebook.handlers.rendering import GROUPS_A_SLICE, TOO_WIDE
from routebook.handlers.services import Caller
from routebook.handlers.wide_routes import Question, WideRoutes
from routebook.slices import Slices, finished
from routebook.state.topics import WIDE
from routebook.wire.codes import RequestCode, ResponseCode, Version
from routebook.wire.command import Command, Reply
from support.builders import mapping_info, registration_body
from support.desk import Desk

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MANY = WIDE + 100


def crowd(groups: int = MANY) -> Desk:
    """So many groups with a topic of their own kind each: zones, masters away, filter servers."""
    desk = Desk(support_acting_master=True)
    for number in range(groups):
        body = registration_body(
            ["wide", f"own-{number}"],
            filter_servers=[f"f{number}:1", f"f{number}:2"] if number % 7 == 0 else None,
            mappings={"wide": mapping_info("wide", bname=f"b{number}")} if number % 5 == 0 else {},
        )
        desk.register(
            f"b{number}",
            1 if number % 3 == 0 else 0,
            addr=f"a{number}:1",
            link=number + 1,
            body=body,
            __ZONE_NAME="z1" if number % 2 else None,
            enableActingMaster="true" if number % 3 == 0 else None,
        )
    return desk


async def asked(desk: Desk, fields: dict[str, str | None] | None = None) -> Reply:
    request = Command(ROUTE, 0, 7, Version.V5_5_0, None, fields or {"topic": "wide"}, b"")
    answer = dispatch(request, desk.services, Caller(1, "p:1"))
    if isinstance(answer, Reply):
        return answer
    assert asyncio.iscoroutine(answer)
    reply: Reply = await answer
    return reply


def is_kept(desk: Desk) -> bool:
    body = desk.services.renderer.body("wide", standard=True, live=desk.services.live)
    return body is not TOO_WIDE


@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("order_conf", [None, "b0:4;b1:4"])
@pytest.mark.parametrize("zone", [None, "z1"])
def test_the_bytes_are_those_of_a_route_encoded_at_once(
    standard: bool, order_conf: str | None, zone: str | None
) -> None:
    desk = crowd(12)
    queues = desk.routes.topics.queues("wide")
    wanted = {g: s for g, s in queues.items() if zone is None or g.zone == zone}
    renderer, live = desk.services.renderer, desk.services.live
    at_once = renderer.render("wide", wanted, standard=standard, live=live, order_conf=order_conf)
    in_slices = renderer.body_slices(
        "wide",
        standard=standard,
        live=live,
        order_conf=order_conf,
        wanted=wanted.__contains__,
    )
    assert finished(in_slices) == at_once
    assert b"filterServerTable" in at_once
    assert b"topicQueueMappingByBroker" in at_once


def test_a_few_groups_are_encoded_in_a_slice() -> None:
    desk = crowd()
    slices = desk.services.renderer.body_slices("wide", standard=True, live=desk.services.live)
    assert sum(1 for _ in slices) >= MANY // GROUPS_A_SLICE


def test_many_queues_of_one_mapping_are_encoded_in_slices_too() -> None:
    desk = Desk()
    info = mapping_info("static") | {"currIdMap": {str(n): n for n in range(15_000)}}
    desk.register("b", body=registration_body(["static", "other"], mappings={"static": info}))
    assert desk.routes.topics.is_wide("static")
    slices = desk.services.renderer.body_slices("static", standard=True, live=desk.services.live)
    assert sum(1 for _ in slices) >= 10


async def test_a_wide_route_is_kept_until_the_next_event() -> None:
    desk = crowd()
    body = (await asked(desk)).body
    again = (await asked(desk)).body
    assert body == again
    assert is_kept(desk)
    desk.close(1)
    assert not is_kept(desk)
    assert b'"brokerName":"b0"' in body
    assert b'"brokerName":"b0"' not in (await asked(desk)).body


async def test_what_changes_while_a_route_is_encoded_is_not_kept_but_seen_by_the_next_to_ask() -> (
    None
):
    desk = crowd()
    live = desk.services.live
    slices = desk.services.renderer.body_slices("wide", standard=True, live=live)
    next(slices)
    desk.close(1)  # told of already
    desk.close(MANY)  # not yet
    body = finished(slices)
    assert body is not None
    assert b'"brokerName":"b0"' in body
    assert b'"brokerName":"b%d"' % (MANY - 1) not in body
    assert not is_kept(desk)
    assert b'"brokerName":"b0"' not in (await asked(desk)).body


async def test_a_wide_topic_that_nobody_holds_any_more_is_not_found() -> None:
    desk = crowd()
    for link in range(1, MANY + 1):
        desk.close(link)
    assert desk.routes.topics.is_wide("wide"), "it is not cleared away yet"
    assert (await asked(desk)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_one_of_a_zone_is_told_its_zone_of_a_wide_route() -> None:
    fields: dict[str, str | None] = {"__ZONE_MODE": "true", "__ZONE_NAME": "z1", "topic": "wide"}
    reply = await asked(crowd(), fields)
    assert b'"brokerName":"b1"' in reply.body
    assert b'"brokerName":"b2"' not in reply.body


async def test_all_who_asked_before_a_route_is_begun_are_answered_by_it() -> None:
    begun: list[str] = []

    def encode(question: Question) -> Slices[bytes | None]:
        begun.append(question.topic)
        yield
        return f"{question.topic} {len(begun)}".encode()

    routes = WideRoutes()
    questions = [Question("a", True, None, None)] * 50 + [Question("b", True, None, None)] * 50
    answers = await asyncio.gather(*(routes.body(question, encode) for question in questions))
    assert begun == ["a", "b"]
    assert answers == [b"a 1"] * 50 + [b"b 2"] * 50
    assert await routes.body(questions[0], encode) == b"a 3", "who asks later is told anew"


async def test_a_route_that_cannot_be_encoded_fails_for_those_who_asked_only() -> None:
    def encode(question: Question) -> Slices[bytes | None]:
        yield
        if question.topic == "bad":
            raise ValueError("bad")
        return b"good"

    routes = WideRoutes()
    bad, good = await asyncio.gather(
        routes.body(Question("bad", True, None, None), encode),
        routes.body(Question("good", True, None, None), encode),
        return_exceptions=True,
    )
    assert isinstance(bad, ValueError)
    assert good == b"good"
