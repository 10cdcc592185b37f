"""What a watch promises, by the names etcd gave to such promises, and what it costs."""

import json
from collections.abc import Generator
from typing import Any

import pytest

from routebook.handlers.dispatch import dispatch
from routebook.handlers.services import Caller
from routebook.slices import finished
from routebook.state.account import Account, shared_out
from routebook.watch import hub
from routebook.watch.feed import MAX_EVENTS
from routebook.wire.codes import ResponseCode
from routebook.wire.command import Command
from support import raw
from support.builders import registration_body
from support.watch_model import UNWATCH, WATCH, Follower, WatchDesk

MIB = 1024 * 1024


@pytest.fixture
def clock() -> list[int]:
    return [1_700_000_000_000]


@pytest.fixture
def node(clock: list[int]) -> WatchDesk:
    return WatchDesk(clock)


def register(node: WatchDesk, *topics: str, queues: int = 8, counter: int = 1, id: int = 0) -> None:
    shapes = {topic: {"readQueueNums": queues, "writeQueueNums": queues} for topic in topics}
    body = registration_body(shapes, counter=counter)
    reply = node.register(f"broker-{id}", body=body, addr=f"10.0.0.{id}:10911", link=id + 1)
    assert reply.code == raw.SUCCESS, reply


def pump(node: WatchDesk, *followers: Follower) -> list[dict[str, Any]]:
    """Tell everything there is to tell now; the frames, as their fields and bodies."""
    told: list[dict[str, Any]] = []
    for frame in node.step():
        for follower in followers:
            if follower.node is node and follower.link == frame.link:
                follower.take(frame)
        answer = raw.answer_of(frame.data[4:])
        body = json.loads(answer.body) if answer.body else []
        told.append({**(answer.ext_fields or {}), "body": body})
    return told


def following(node: WatchDesk, *topics: str, link: int = 500) -> Follower:
    """Somebody who has been told everything, a while ago."""
    follower = Follower("f", topics)
    follower.connect(node, link)
    pump(node, follower)
    assert follower.synced
    follower.heard.clear()
    node.clock[0] += hub.PACE_MS
    return follower


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["kind"] for frame in frames]


def topics_of(frame: dict[str, Any]) -> list[str]:
    return [entry["topic"] for entry in frame["body"]]


# -- etcd's names


def test_ordered_revisions_never_go_back_and_each_frame_names_the_one_before(
    node: WatchDesk, clock: list[int]
) -> None:
    follower = following(node, "orders", "stock")
    for counter in range(1, 20):
        register(node, "orders", "stock", queues=counter, counter=counter)
        clock[0] += 60
        pump(node, follower)  # which checks the chain
    revisions = [int((frame.ext_fields or {})["rev"]) for frame in follower.heard]
    assert revisions == sorted(set(revisions))
    assert len(revisions) == 19


def test_unique_what_a_watcher_has_is_not_told_again(node: WatchDesk, clock: list[int]) -> None:
    register(node, "orders", "stock")
    follower = following(node, "orders")
    register(node, "orders", "stock", queues=4, counter=2)
    register(node, "orders", "stock", queues=8, counter=3)  # as it was
    clock[0] += 60
    assert pump(node, follower) == []


def test_unique_a_topic_that_changes_fifty_times_is_told_once(
    node: WatchDesk, clock: list[int]
) -> None:
    follower = following(node, "orders")
    for counter in range(1, 51):
        register(node, "orders", "stock", queues=counter, counter=counter)
    [frame] = pump(node, follower)
    assert topics_of(frame) == ["orders"]
    assert frame["body"][0]["route"]["queueDatas"][0]["readQueueNums"] == 50
    follower.check()


def test_reliable_nothing_is_missing_after_a_time_without_reading(
    node: WatchDesk, clock: list[int]
) -> None:
    follower = following(node, "orders", "stock", "ledger")
    follower.reads = False
    for counter in range(1, 30):
        register(node, "orders", "stock", queues=counter, counter=counter)
        clock[0] += 60
        pump(node, follower)
    register(node, "ledger", "stock", id=1)
    assert len(follower._unread) == 1, "nothing is written to who does not read"
    follower.read()
    clock[0] += 60
    pump(node, follower)
    follower.check()


def test_reliable_a_topic_that_does_not_exist_is_told_when_it_does(node: WatchDesk) -> None:
    follower = following(node, "orders")
    register(node, "orders", "stock")
    assert kinds(pump(node, follower)) == ["routes"]
    follower.check()


def test_atomic_a_registration_in_slices_is_told_as_a_whole(
    node: WatchDesk, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routebook.state.registrar.TOPICS_A_SLICE", 2)
    names = [f"t{n}" for n in range(6)]
    follower = following(node, *names)
    seen: list[list[str]] = []
    record = node.services.record

    def recorded(events: Any) -> None:
        record(events)
        seen.extend(map(topics_of, pump(node, follower)))

    node.services.record = recorded
    register(node, *names)
    assert [sorted(topics) for topics in seen] == [names]


def test_atomic_but_no_registration_is_waited_for_longer_than_200_ms(
    node: WatchDesk, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = following(node, "orders", "stock")
    monkeypatch.setattr(node.watchers._touched, "_release", lambda group: None)
    register(node, "orders", "stock")  # whose end nobody hears of
    monkeypatch.undo()
    assert pump(node, follower) == []
    clock[0] += 199
    assert pump(node, follower) == []
    clock[0] += 1
    assert node.watchers.next_ms() is not None
    assert [sorted(topics_of(frame)) for frame in pump(node, follower)] == [["orders", "stock"]]


def test_resumable_on_the_same_node_only_what_changed_is_told(
    node: WatchDesk, clock: list[int]
) -> None:
    register(node, "orders", "stock")
    follower = following(node, "orders", "stock")
    follower.cut()
    register(node, "orders", "stock", "ledger", queues=8, counter=2)
    register(node, "stock", "ledger", id=1)
    answer = follower.connect(node, 501)
    assert answer["kind"] == "resumed"
    told = pump(node, follower)
    assert kinds(told) == ["routes", "synced"]
    assert topics_of(told[0]) == ["stock"]
    follower.check()


@pytest.mark.parametrize("killed", [False, True])
def test_resumable_after_a_restart_nothing_is_told_that_is_as_it_was(
    node: WatchDesk, killed: bool
) -> None:
    register(node, "orders", "stock")
    node.journal()
    follower = following(node, "orders", "stock")
    follower.node = None
    again = node.after_kill("b2") if killed else node.after_stop("b2")
    answer = follower.connect(again, 501)
    assert (answer["kind"], answer["reason"]) == ("reset", "restarted")
    assert kinds(pump(again, follower)) == ["synced"]
    follower.check()


def test_resumable_on_another_node_that_knows_the_same_in_another_order(
    node: WatchDesk, clock: list[int]
) -> None:
    other = WatchDesk(clock, node="n2", boot="b9")
    register(node, "orders", "stock", id=0)
    register(node, "orders", "stock", id=1)
    register(other, "orders", "stock", id=1)
    register(other, "stock", "orders", id=0)
    follower = following(node, "orders", "stock")
    follower.cut()
    answer = follower.connect(other, 7)
    assert (answer["kind"], answer["reason"]) == ("reset", "other_node")
    assert kinds(pump(other, follower)) == ["synced"]
    follower.check()


def test_bookmarkable_everything_up_to_a_bookmark_is_told(
    node: WatchDesk, clock: list[int]
) -> None:
    follower = following(node, "orders")
    register(node, "ledger", "stock")  # which it does not watch
    clock[0] += hub.BOOKMARK_MS
    [bookmark] = pump(node, follower)
    assert (bookmark["kind"], int(bookmark["rev"])) == ("bookmark", node.revision.value)
    clock[0] += hub.BOOKMARK_MS - 1
    assert pump(node, follower) == []
    clock[0] += 1
    assert kinds(pump(node, follower)) == ["bookmark"]


def test_bookmarkable_but_not_beyond_what_is_still_to_be_marked(
    node: WatchDesk, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = following(node, "orders", "stock")
    before = node.revision.value
    monkeypatch.setattr(node.watchers._touched, "_release", lambda group: None)
    register(node, "orders", "stock")
    monkeypatch.undo()
    late = Follower("late", ["mail"])
    late.connect(node, 501)
    told = pump(node, follower, late)  # while the registration is not known to be complete
    assert kinds(told) == ["synced"]
    assert before <= int(told[0]["rev"]) < node.revision.value


# -- order, pace, and those who do not read


def test_losses_are_told_first(node: WatchDesk, clock: list[int]) -> None:
    register(node, "ledger", "mail", id=0)
    register(node, "orders", "stock", id=1)
    follower = following(node, "orders", "stock", "ledger", "mail")
    register(node, "ledger", "mail", queues=4, counter=2)
    node.leave(2)  # the link of broker 1
    [lost] = pump(node, follower)
    assert set(topics_of(lost)) == {"orders", "stock"}
    assert "its connection was closed" in lost["body"][0]["gone"]
    clock[0] += hub.PACE_MS
    [changed] = pump(node, follower)
    assert set(topics_of(changed)) == {"ledger", "mail"}


def test_losses_are_told_first_also_where_changes_were_marked_before_them(
    node: WatchDesk, clock: list[int]
) -> None:
    register(node, "ledger", "mail", id=0)
    register(node, "orders", "stock", id=1)
    follower = following(node, "orders", "stock", "ledger", "mail")
    node.watchers.park(follower.link)
    register(node, "ledger", "mail", queues=4, counter=2)
    pump(node)
    node.leave(2)
    pump(node)
    node.watchers.unpark(follower.link)
    [frame] = pump(node, follower)
    assert set(topics_of(frame)[:2]) == {"orders", "stock"}
    assert set(topics_of(frame)[2:]) == {"ledger", "mail"}


def test_the_first_change_is_told_at_once_and_further_ones_after_50_ms(
    node: WatchDesk, clock: list[int]
) -> None:
    follower = following(node, "orders")
    for counter, wait_ms in ((1, 0), (2, hub.PACE_MS), (3, hub.PACE_MS)):
        register(node, "orders", "stock", queues=counter, counter=counter)
        if wait_ms:
            assert pump(node, follower) == []
            clock[0] += wait_ms
        assert kinds(pump(node, follower)) == ["routes"]


def test_many_topics_are_told_in_frames_that_others_have_turns_between(
    node: WatchDesk, clock: list[int]
) -> None:
    names = [f"topic-{n}" for n in range(1200)]
    register(node, *names)
    one, two = Follower("one", names), Follower("two", names)
    one.connect(node, 501)
    two.connect(node, 502)
    links = [frame.link for frame in node.step() if b'"routes"' in frame.data]
    assert len(links) > 4
    assert links[:4] == [501, 502, 501, 502]


def test_who_does_not_read_for_30_s_is_told_goodbye(node: WatchDesk, clock: list[int]) -> None:
    follower = following(node, "orders")
    node.watchers.park(follower.link)
    clock[0] += hub.SLOW_MS - 1
    assert pump(node) == []
    clock[0] += 1
    [frame] = node.step()
    assert frame.last
    fields = raw.answer_of(frame.data[4:]).ext_fields or {}
    assert (fields["kind"], fields["reason"]) == ("bye", "slow")


def test_a_node_that_stops_gives_everybody_another_time_to_come_back(node: WatchDesk) -> None:
    for link in range(500, 520):
        following(node, "orders", link=link)
    goodbyes = [
        raw.answer_of(frame.data[4:]).ext_fields or {} for frame in node.watchers.goodbyes()
    ]
    assert {fields["reason"] for fields in goodbyes} == {"draining"}
    assert len({fields["retry_ms"] for fields in goodbyes}) > 10
    assert node.watch(521, {"topics": {"orders": ""}}).code == ResponseCode.SYSTEM_ERROR


def test_a_route_that_thousands_of_groups_hold_is_told_by_its_etag(
    node: WatchDesk, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routebook.state.topics.WIDE", 2)
    for id in range(3):
        register(node, "orders", "stock", id=id)
    told = [f for f in _told_of(node, "orders", link=501) if f["kind"] == "routes"]
    [entry] = told[0]["body"]
    assert entry.keys() == {"topic", "etag"}
    assert entry["etag"]


def _told_of(node: WatchDesk, topic: str, *, link: int) -> list[dict[str, Any]]:
    node.watch(link, {"topics": {topic: ""}})
    return pump(node)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda node: register(node, "orders", "x", queues=4, counter=2), id="queues"),
        pytest.param(lambda node: register(node, "orders", "x", id=1), id="group"),
        pytest.param(lambda node: node.order("orders", "broker-0:4"), id="order"),
        pytest.param(lambda node: node.ask(205, {"brokerName": "broker-0"}), id="permission"),
        pytest.param(
            lambda node: node.register("broker-0", 1, addr="10.0.0.77:10911", link=77), id="slave"
        ),
        pytest.param(
            lambda node: node.register(
                "broker-0",
                addr="10.0.0.0:10911",
                link=1,
                body=registration_body(["orders", "x"], counter=9, filter_servers=["f:1"]),
            ),
            id="filter-server",
        ),
    ],
)
def test_whatever_changes_a_route_changes_its_etag(node: WatchDesk, change: Any) -> None:
    register(node, "orders", "x")
    follower = following(node, "orders")
    before = follower.etags["orders"]
    change(node)
    pump(node, follower)
    assert follower.etags["orders"] != before
    follower.check()


# -- what it may cost


def test_a_million_topics_are_refused_before_they_are_decoded(node: WatchDesk) -> None:
    body = b'{"topics":{' + b",".join(b'"t%d":""' % n for n in range(1_000_000)) + b"}}"
    reply = node.ask(WATCH, body=body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "one connection watches at most 10000 topics"
    assert len(node.watchers) == 0


def test_topics_beyond_the_limit_are_refused_and_leave_no_trace(node: WatchDesk) -> None:
    first = {f"a{n}": "" for n in range(9_000)}
    assert node.watch(1, {"topics": first}).code == raw.SUCCESS
    before = dict(node.watchers._account.used)
    reply = node.watch(1, {"topics": {f"b{n}": "" for n in range(1_001)}})
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert node.watchers._account.used == before
    assert node.watch(1, {"topics": {f"b{n}": "" for n in range(1_000)}}).code == raw.SUCCESS


def test_watches_are_paid_for_by_their_host_and_given_back(clock: list[int]) -> None:
    account = Account(shared_out(192 * MIB, peer_percent=1))
    node = WatchDesk(clock, account=account)
    topics = {f"topic-{n}": "" for n in range(500)}
    refused = None
    for link in range(1, 10):
        reply = node.ask(WATCH, body=json.dumps({"topics": topics}).encode(), link=link, peer="h:1")
        if reply.code != raw.SUCCESS:
            refused = reply.remark
            break
    assert refused is not None
    assert "memoryPeerPercent" in refused
    assert account.held_by("h") <= account.peer_limit
    assert node.watch(77, {"topics": topics}).code == raw.SUCCESS, "others have room"
    for link in [*range(1, 10), 77]:
        finished(node.watchers.end(link))
    assert account.tables == 0


def test_unwatching_ends_what_is_told_and_what_is_paid(node: WatchDesk) -> None:
    follower = following(node, "orders", "stock")
    assert node.unwatch(follower.link, ["stock", "never"]).ext_fields == {"topics": "1"}
    register(node, "orders", "stock")
    assert [topics_of(frame) for frame in pump(node)] == [["orders"]]
    node.ask(UNWATCH, link=follower.link)
    assert len(node.watchers) == 0
    assert node.watchers._account.tables == 0


def test_who_watches_anew_is_not_ended_by_what_is_left_of_before(node: WatchDesk) -> None:
    following(node, "orders", "stock")
    clearing = node.watchers.end(500)
    node.watch(500, {"topics": {"orders": ""}})
    finished(clearing)
    watcher = node.watchers.find(500)
    assert watcher is not None
    register(node, "orders", "stock")
    assert "routes" in kinds(pump(node))


def test_an_event_costs_nothing_while_nobody_watches(node: WatchDesk) -> None:
    woken: list[bool] = []
    node.watchers.wake = lambda: woken.append(True)
    register(node, "orders", "stock")
    node.leave(1)
    assert not woken
    assert not node.watchers._touched
    assert not node.watchers.feed.begun


@pytest.mark.parametrize("code", [WATCH, UNWATCH])
def test_a_watch_that_ends_while_topics_are_told_leaves_nothing_behind(
    node: WatchDesk, code: int
) -> None:
    names = [f"t{number}" for number in range(3000)]
    following(node, *names[:1500])
    topics = names if code == UNWATCH else dict.fromkeys(names, "")
    request = Command(code, body=json.dumps({"topics": topics}).encode())
    slices = dispatch(request, node.services, Caller(500, "127.0.0.1:1"))
    assert isinstance(slices, Generator)
    while node.watchers.status()["topics"] == 1500:
        next(slices)
    node.hang_up(500)
    assert finished(slices).code == ResponseCode.SYSTEM_ERROR
    assert (node.watchers.status()["topics"], node.watchers.find(500)) == (0, None)


# -- the feed


def follow(node: WatchDesk, link: int = 500, **body: str) -> dict[str, str]:
    reply = node.watch(link, {"feed": True, **body})
    assert reply.code == raw.SUCCESS, reply
    return dict(reply.ext_fields or {})


def test_the_feed_has_every_event_and_cuts_long_lists(node: WatchDesk) -> None:
    follow(node)
    register(node, *[f"t{n}" for n in range(100)])
    events = [frame for frame in pump(node) if frame["kind"] == "events"]
    told = [entry for frame in events for entry in frame["body"]]
    assert [entry["record"]["type"] for entry in told] == [
        "BrokerRegistered",
        "TopicsChanged",
        "RegistrationCompleted",
    ]
    [changed] = [entry for entry in told if entry["record"]["type"] == "TopicsChanged"]
    assert changed["left_out"] == 80
    assert events[-1]["token"] == f"n1.b1.{told[-1]['record']['seq']}"


def test_the_feed_goes_on_after_its_token(node: WatchDesk, clock: list[int]) -> None:
    follow(node)
    register(node, "orders", "stock")
    token = [frame for frame in pump(node) if frame["kind"] == "events"][-1]["token"]
    node.hang_up(500)
    node.leave(1)
    follow(node, 501, feedSince=token)
    [frame] = [frame for frame in pump(node) if frame["kind"] == "events"]
    assert [entry["record"]["type"] for entry in frame["body"]] == ["BrokerLeft"]


def test_who_falls_behind_the_feed_is_told_what_is_lost(node: WatchDesk, clock: list[int]) -> None:
    follow(node)
    pump(node)
    node.watchers.park(500)
    for _ in range(MAX_EVENTS + 10):
        node.services.record(node.routes.refuse("X", "y", "z", peer="p"))
    node.watchers.unpark(500)
    clock[0] += 60
    told = pump(node)
    [lost] = [frame for frame in told if frame["kind"] == "lost"]
    assert (lost["from"], lost["to"]) == ("1", "10")
    first = next(frame for frame in told if frame["kind"] == "events")
    assert first["body"][0]["record"]["seq"] == 11


def test_an_event_costs_the_same_however_many_follow(
    node: WatchDesk, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routebook.watch.hub.MARKED_A_SLICE", 2)
    for link in range(500, 520):
        follow(node, link)
    pump(node)
    asked: list[int] = []

    def now_ms() -> int:
        asked.append(1)
        return clock[0]

    node.watchers.now_ms = now_ms
    node.services.record(node.routes.refuse("X", "y", "z", peer="p"))
    assert not asked, "nobody is given a turn by whoever makes an event"
    for _ in range(3):
        before = len(asked)
        node.step(1)
        assert len(asked) - before < 10, "a few are, in each slice"
    clock[0] += 60
    assert kinds(pump(node)).count("events") == 20


def test_a_token_of_another_boot_begins_now(node: WatchDesk) -> None:
    follow(node)
    register(node, "orders", "stock")
    assert int(follow(node, 501, feedSince="n1.another.1")["seq"]) == node._seq


def test_values_of_pairs_are_told_by_their_length(node: WatchDesk) -> None:
    follow(node)
    node.order("orders", "secret-value")
    body = json.dumps([frame["body"] for frame in pump(node) if frame["kind"] == "events"])
    assert "secret" not in body
    assert "(12 characters)" in body
