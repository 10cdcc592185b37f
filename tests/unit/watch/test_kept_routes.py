"""What is encoded once for many watchers is told to each once, and never when it is outdated."""

import json

import pytest

from routebook.slices import Slices, finished
from routebook.watch.kept_routes import KeptRoutes, Route
from support import raw
from support.builders import registration_body
from support.watch_model import Follower, WatchDesk


def register(node: WatchDesk, queues: int, counter: int) -> None:
    numbers = {"readQueueNums": queues, "writeQueueNums": queues}
    body = registration_body({"orders": numbers, "stock": numbers}, counter=counter)
    assert node.register("broker-a", body=body, link=1).code == raw.SUCCESS


def told(node: WatchDesk) -> list[tuple[int, int]]:
    """Who is told of how many queues now, by link."""
    node.clock[0] += 60
    entries = [(frame.link, raw.answer_of(frame.data[4:])) for frame in node.step()]
    return [
        (int(str(link)), entry["route"]["queueDatas"][0]["readQueueNums"])
        for link, answer in entries
        if (answer.ext_fields or {})["kind"] == "routes"
        for entry in json.loads(answer.body)
    ]


@pytest.fixture
def node() -> WatchDesk:
    """Three watch one topic, and have been told of it."""
    node = WatchDesk([1_700_000_000_000])
    register(node, 8, counter=1)
    for link in (500, 501, 502):
        Follower("f", ["orders"]).connect(node, link)
    assert told(node) == [(500, 8), (501, 8), (502, 8)]
    return node


def test_each_of_many_is_told_of_a_change(node: WatchDesk) -> None:
    register(node, 4, counter=2)
    assert told(node) == [(500, 4), (501, 4), (502, 4)]


def test_and_not_again_when_it_is_as_each_was_told(node: WatchDesk) -> None:
    register(node, 4, counter=2)
    told(node)
    register(node, 2, counter=3)
    register(node, 4, counter=4)
    assert told(node) == []


def test_what_is_dropped_while_it_is_encoded_is_not_kept() -> None:
    """Of a topic that nobody watches no change is noted: later it would be an old one."""

    def route_of(topic: str) -> Slices[Route]:
        yield
        return Route("etag", b"entry")

    routes = KeptRoutes(route_of, 1000)
    encoding = routes.encoded("orders")
    next(encoding)
    routes.drop("orders")
    finished(encoding)
    assert routes.find("orders") is None
    assert finished(routes.encoded("orders")) == routes.find("orders")
