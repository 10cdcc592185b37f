"""Forms of a route made by a relay, compared with a node's own to the byte."""

from collections.abc import Callable

import pytest

from routebook.handlers.routes import zone_of
from routebook.relay.rendering import RouteForms, standard_form
from routebook.state.kv import KvChange
from routebook.wire.answers import decode_route
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command
from support.builders import mapping_info, registration_body
from support.desk import Desk

OLD, NEW = 399, 513


def plain(desk: Desk) -> None:
    desk.register()


def with_slaves(desk: Desk) -> None:
    for broker_id in range(3):
        desk.register(broker_id=broker_id)


def acting_master(desk: Desk) -> None:
    desk.use(support_acting_master=True)
    for broker_id in (1, 2):
        desk.register(broker_id=broker_id, enableActingMaster="true")


def two_zones(desk: Desk) -> None:
    filters = ["10.9.9.9:1"]
    body = registration_body(filter_servers=filters)
    desk.register("broker-a", addr="10.0.0.1:10911", __ZONE_NAME="East", body=body)
    desk.register("broker-b", addr="10.0.1.1:10911", __ZONE_NAME="west", body=body)
    desk.register("broker-c", 1, addr="10.0.2.1:10911", __ZONE_NAME="west")  # has no master


def odd_names(desk: Desk) -> None:
    desk.register('brö"ker/1', addr="[fe80::1%eth0]:10911", cluster="群\u2028集")


def static_topic(desk: Desk) -> None:
    info = mapping_info("orders")
    info["epoch"] = 2**60  # written as a text in standard form
    desk.register(body=registration_body(mappings={"orders": info}))


def ordered(desk: Desk) -> None:
    desk.use(order_message_enable=True)
    desk.register()
    desk.kv.apply([KvChange("ORDER_TOPIC_CONFIG", "orders", "brö:4;b/c:2")])


stories = pytest.mark.parametrize(
    "story", [plain, with_slaves, acting_master, two_zones, odd_names, static_topic, ordered]
)


def body_of(desk: Desk, version: int, **fields: str) -> bytes:
    reply = desk.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders", **fields}, version=version
    )
    assert reply.code == 0, reply
    return reply.body


def standard(body: bytes) -> bytes:
    return standard_form(body, decode_route(body))


def desk_after(story: Callable[[Desk], None]) -> Desk:
    desk = Desk()
    story(desk)
    return desk


@stories
def test_old_clients_get_what_the_node_would_have_given_them(
    story: Callable[[Desk], None],
) -> None:
    desk = desk_after(story)
    given = standard(body_of(desk, NEW))
    assert RouteForms().body(given, standard=True, zone=None) == body_of(desk, NEW)
    assert RouteForms().body(given, standard=False, zone=None) == body_of(desk, OLD)


@stories
def test_a_name_server_before_4_9_4_is_understood_and_its_answer_made_standard(
    story: Callable[[Desk], None],
) -> None:
    desk = desk_after(story)
    assert standard(body_of(desk, OLD)) == body_of(desk, NEW)


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize("zone", ["east", "WEST", "nowhere"])
def test_a_zone_gets_the_brokers_the_node_would_have_given_it(zone: str, version: int) -> None:
    desk = desk_after(two_zones)
    expected = body_of(desk, version, __ZONE_MODE="true", __ZONE_NAME=zone)
    forms = RouteForms()
    for _ in range(2):
        made = forms.body(body_of(desk, NEW), standard=version == NEW, zone=zone)
        assert made == expected


@pytest.mark.parametrize(
    ("fields", "zone"),
    [
        pytest.param({}, None, id="no-fields"),
        pytest.param({"__ZONE_NAME": "east"}, None, id="no-mode"),
        pytest.param({"__ZONE_MODE": "false", "__ZONE_NAME": "east"}, None, id="mode-off"),
        pytest.param({"__ZONE_MODE": "True", "__ZONE_NAME": "east"}, "east", id="mode-on"),
        pytest.param({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, None, id="blank-name"),
        pytest.param({"__ZONE_MODE": "true"}, None, id="no-name"),
    ],
)
def test_a_zone_counts_only_with_its_mode(fields: dict[str, str | None], zone: str | None) -> None:
    assert zone_of(Command(ext_fields=fields)) == zone


def test_forms_that_do_not_fit_are_made_anew_and_right() -> None:
    desk = desk_after(with_slaves)
    forms = RouteForms(max_bytes=10)
    for _ in range(2):
        assert forms.body(body_of(desk, NEW), standard=False, zone=None) == body_of(desk, OLD)
