import logging
from pathlib import Path

import pytest

from routebook import recovery
from routebook.events import (
    BrokerConfirmed,
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    Cause,
    Event,
    GroupRestated,
    RegistrationCompleted,
    StateRestated,
    TopicsChanged,
)
from routebook.journal.errors import JournalError
from routebook.journal.snapshot import make_snapshot
from routebook.journal.view import View
from routebook.recovery import catch_up_kv, recover, restate, restore
from routebook.state.kv import KvChange
from routebook.state.revision import Revision
from routebook.wire.codes import RequestCode, ResponseCode
from support.accounts import check_account
from support.builders import broker_fields, mapping_info, registration_body
from support.desk import Desk
from support.journals import chained, lay
from support.telling import (
    full_day,
    lost,
    played,
    records_of,
    refuse,
    registered,
    thirds,
    view_of,
    wipe,
)

VERSION = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
LEASE_MS = 120_000


def restarted(desk: Desk) -> Desk:
    """A desk that goes on, on another clock, with what the events of ``desk`` tell."""
    view = view_of(desk.events)
    assert not view.contradictions
    view.restart(wall_ms=view.wall_ms)
    after = Desk()
    after.now_ms = 77
    restore(view, after.routes, now_ms=after.now_ms)
    return after


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


# -- what is served


def test_what_is_answered_is_what_was_answered_before() -> None:
    desk = Desk()
    body = registration_body(
        ["static", "orders"], mappings={"static": mapping_info("static")}, filter_servers=["f:1"]
    )
    desk.register(body=body, __ZONE_NAME="east")
    desk.register("broker-a", 1)
    after = restarted(desk)
    for topic in ("static", "orders"):
        assert after.route(topic) == desk.route(topic)
    assert after.cluster_info() == desk.cluster_info()
    assert after.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == ["orders", "static"]


def test_permission_taken_away_stays_away() -> None:
    desk = registered("broker-a")
    wipe(desk)
    after = restarted(desk)
    assert after.perms() == {"broker-a": 4}
    after.register()
    assert after.perms() == {"broker-a": 4}
    after.register(body=registration_body(counter=2))
    assert after.perms() == {"broker-a": 6}


def test_the_data_version_is_known() -> None:
    after = restarted(registered("broker-a"))
    reply = after.ask(RequestCode.QUERY_DATA_VERSION, broker_fields(), VERSION)
    assert (reply.ext_fields, reply.body) == ({"changed": "false"}, VERSION)


def test_a_single_topic_of_a_recovered_broker_is_taken() -> None:
    after = restarted(registered("broker-a"))
    body = registration_body(["new"], counter=2)
    assert after.register(body=body).code == ResponseCode.SUCCESS
    assert after.addrs("new") == {"broker-a": {"0": "10.0.0.1:10911"}}


def test_limits_count_what_was_recovered() -> None:
    desk = registered("broker-a", "broker-b")
    assert restarted(desk).routes.topics.entries == desk.routes.topics.entries == 4


def test_a_recovered_broker_is_paid_for_by_its_address_and_then_by_whom_it_registers_from() -> None:
    after = restarted(registered("broker-a"))
    account = after.routes.account
    assert account.held_by("10.0.0.1") == account.tables > 0
    check_account(after.routes)
    after.register(body=registration_body(["new"], counter=2), link=5)
    assert account.by_peer == {"peer-5": account.tables}
    check_account(after.routes)


def test_a_group_without_members_is_not_recovered() -> None:
    desk = registered("broker-a")
    desk.register(addr="10.0.0.9:10911")
    left = next(n for n, event in enumerate(desk.events) if isinstance(event, BrokerLeft))
    after = Desk()
    assert restore(view_of(desk.events[: left + 1]), after.routes, now_ms=0) == 0
    assert list(after.routes.topics) == []


# -- being heard of again


@pytest.mark.parametrize("code", [RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION])
def test_the_first_sign_of_life_confirms_a_broker(code: RequestCode) -> None:
    after = restarted(registered("broker-a"))
    after.now_ms += 1_500
    after.ask(code, broker_fields(), VERSION, link=5)
    after.ask(code, broker_fields(), VERSION, link=6)
    assert kinds(after.events) == [BrokerConfirmed]
    confirmed = after.last(BrokerConfirmed)
    assert (confirmed.addr, confirmed.after_ms) == ("10.0.0.1:10911", 1_500)
    assert (confirmed.peer, confirmed.cause) == ("peer-5", Cause.RECOVERED)


def test_a_registration_with_nothing_new_confirms_and_changes_nothing() -> None:
    desk = registered("broker-a")
    after = restarted(desk)
    after.register()
    assert kinds(after.events) == [BrokerConfirmed, RegistrationCompleted]
    after.register()
    assert len(after.events) == 2


def test_a_registration_with_news_changes_only_those() -> None:
    after = restarted(registered("broker-a"))
    after.register(body=registration_body(["orders", "payments", "new"], counter=2))
    assert [c.topic for c in after.last(TopicsChanged).changes] == ["new"]


def test_a_recovered_broker_in_a_new_role_registers_anew() -> None:
    desk = registered("broker-a")
    desk.register("broker-a", 1)
    after = restarted(desk)
    after.register("broker-a", 0, addr="10.0.0.2:10911")
    assert BrokerConfirmed not in kinds(after.events)
    assert after.last(BrokerRegistered).addrs_after == {0: "10.0.0.2:10911"}


@pytest.mark.parametrize("code", [RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION])
def test_whoever_asks_about_a_recovered_broker_cannot_take_it_along(code: RequestCode) -> None:
    after = restarted(registered("broker-a"))
    after.ask(code, broker_fields(), VERSION, link=5)
    assert after.close(5) == []
    assert after.addrs()
    after.register(link=6)
    after.ask(code, broker_fields(), VERSION, link=7)
    assert after.close(7) == []
    assert after.addrs()


def test_a_recovered_broker_that_was_heard_of_lives_by_its_deadline() -> None:
    after = restarted(registered("broker-a"))
    after.now_ms += LEASE_MS
    after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=5)
    after.close(5)
    after.expire(LEASE_MS)
    assert after.addrs()
    after.expire(1)
    assert after.last(BrokerLeft).cause is Cause.EXPIRED


def test_a_recovered_broker_that_registers_lives_by_that_connection() -> None:
    after = restarted(registered("broker-a"))
    after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=5)
    after.register(link=6)
    assert kinds(after.events) == [BrokerConfirmed]
    after.close(5)
    assert after.addrs()
    after.close(6)
    assert after.last(BrokerLeft).cause is Cause.CONNECTION_CLOSED
    assert after.last(BrokerLeft).generation == 1


def test_an_unconfirmed_broker_does_not_leave_with_a_connection() -> None:
    after = restarted(registered("broker-a"))
    for link in range(3):
        after.close(link)
    assert after.addrs()


def test_a_confirmed_broker_that_moved_on_is_not_lost_with_its_old_connection() -> None:
    after = restarted(registered("broker-a"))
    after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=5)
    after.register(link=6)
    after.ask(RequestCode.UNREGISTER_BROKER, broker_fields(), link=5)
    after.close(5)
    assert after.addrs()


def test_generations_go_on() -> None:
    desk = registered("broker-a", "broker-b")
    desk.expire(LEASE_MS + 1)
    desk.register("broker-c", addr="10.0.0.3:10911")
    after = restarted(desk)
    after.register("broker-d", addr="10.0.0.4:10911")
    assert after.last(BrokerRegistered).generation == 4


def test_what_lies_before_the_restart_is_no_gap_between_heartbeats() -> None:
    after = restarted(registered("broker-a"))
    for _ in range(3):
        after.now_ms += 1_000
        after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=5)
    assert [gaps for _, gaps in after.routes.members.take_gaps()] == [(1_000, 1_000)]


# -- not being heard of


@pytest.mark.parametrize(
    ("silent_ms", "alive"),
    [
        pytest.param(LEASE_MS, True, id="at-the-deadline"),
        pytest.param(LEASE_MS + 1, False, id="one-ms-late"),
    ],
)
def test_a_recovered_broker_has_a_whole_lease(silent_ms: int, alive: bool) -> None:
    desk = registered("broker-a")
    desk.now_ms += LEASE_MS - 1
    after = restarted(desk)
    assert after.expire(silent_ms) == []
    assert bool(after.addrs()) is alive
    if not alive:
        assert after.last(BrokerLeft).cause is Cause.NOT_CONFIRMED


def test_a_broker_that_was_confirmed_expires() -> None:
    after = restarted(registered("broker-a"))
    after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields(), link=5)
    assert after.expire(LEASE_MS + 1) == []  # whose connection that was, nobody knows
    assert after.last(BrokerLeft).cause is Cause.EXPIRED


def test_a_master_that_is_not_confirmed_leaves_its_topics_read_only() -> None:
    desk = Desk()
    desk.register(enableActingMaster="true")
    desk.register("broker-a", 1, enableActingMaster="true")
    after = restarted(desk)
    after.now_ms += LEASE_MS
    after.ask(RequestCode.BROKER_HEARTBEAT, broker_fields("broker-a", 1))
    after.expire(1)
    assert after.last(TopicsChanged).cause is Cause.NOT_CONFIRMED
    assert after.perms() == {"broker-a": 4}


def test_an_unconfirmed_broker_can_unregister() -> None:
    after = restarted(registered("broker-a"))
    after.ask(RequestCode.UNREGISTER_BROKER, broker_fields())
    assert after.last(BrokerLeft).cause is Cause.UNREGISTER


@pytest.mark.parametrize(
    ("epoch", "taken"), [pytest.param(2, False, id="older"), pytest.param(4, True, id="newer")]
)
def test_an_unconfirmed_broker_is_fenced_by_its_epoch(epoch: int, taken: bool) -> None:
    desk = Desk()
    desk.register(body=registration_body(state_version=3))
    after = restarted(desk)
    after.register(addr="10.0.0.9:10911", body=registration_body(state_version=epoch))
    assert after.last(BrokerConflict).kept == ("10.0.0.9:10911" if taken else "10.0.0.1:10911")
    assert after.addrs() == {"broker-a": {"0": after.last(BrokerConflict).kept}}


# -- from a folder


def test_a_node_without_a_journal_recovers_nothing(tmp_path: Path) -> None:
    assert recover(tmp_path / "nowhere", wall_ms=1) is None
    assert recover(tmp_path, wall_ms=1) is None


def test_a_view_is_recovered_from_a_snapshot_and_what_follows(tmp_path: Path) -> None:
    first, second, third = thirds()
    lay(tmp_path, first, closed=second, active=third)
    make_snapshot(tmp_path, told=refuse)
    for path in tmp_path.glob(f"{first[0].seq:012d}-*"):
        path.unlink()
    expected = played([*first, *second, *third])
    expected.restart(wall_ms=9)
    assert recover(tmp_path, wall_ms=9) == expected


def test_a_line_that_was_being_written_is_no_damage(tmp_path: Path) -> None:
    lines = chained(records_of(full_day()))
    (tmp_path / "active.jsonl").write_bytes(b"".join(lines)[:-20])
    view = recover(tmp_path, wall_ms=9)
    assert view is not None
    assert (view.seq, view.unsure) == (len(lines) - 1, False)


def test_damage_is_logged_and_lets_brokers_say_all_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = chained(records_of(full_day()))
    damaged = [line[:9] + b"\n" if 3 <= n < 12 else line for n, line in enumerate(lines)]
    (tmp_path / "active.jsonl").write_bytes(b"".join(damaged))
    with caplog.at_level(logging.WARNING):
        view = recover(tmp_path, wall_ms=9)
    assert view is not None
    assert view.unsure
    assert {b.member.known.data_version for b in view.brokers()} == {None}
    assert len(caplog.records) == recovery.LOGGED + 1
    assert caplog.records[-1].getMessage().endswith("more like these")


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(JournalError, match="cannot read the journal"):
        recover(path, wall_ms=1)


# -- stating the tables anew


def test_what_is_restated_is_what_was_there() -> None:
    desk = Desk()
    body = registration_body(["static", "orders"], mappings={"static": mapping_info("static")})
    desk.register(body=body)
    wipe(desk)
    whole = view_of(desk.events)
    events = list(restate(desk.routes, {"space": {"a": "1"}}, Revision(whole.revision)))
    assert kinds(events) == [GroupRestated, StateRestated]
    view = view_of([lost(), *events])
    known, told = (each.groups.by_key["c1", "broker-a"].members for each in (whole, view))
    told[0].since_ms = known[0].since_ms
    assert view.groups == whole.groups
    assert (view.revision, view.generation) == (whole.revision, whole.generation)
    assert view.kv == {"space": {"a": "1"}}


def test_an_unconfirmed_broker_is_restated_as_such() -> None:
    after = restarted(registered("broker-a"))
    view = view_of([lost(), *restate(after.routes, {}, Revision())])
    assert [broker.member.known.confirmed for broker in view.brokers()] == [False]


def test_many_topics_are_restated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RESTATED_A_SLICE", 3)
    desk = Desk()
    desk.register(body=registration_body([f"t{number}" for number in range(8)]))
    events = list(restate(desk.routes, {}, Revision()))
    parts = [event for event in events if isinstance(event, GroupRestated)]
    assert [(len(part.queues), part.continued) for part in parts] == [
        (3, False),
        (3, True),
        (2, True),
    ]
    assert len(view_of([lost(), *events]).topics()) == 8


def test_a_group_that_leaves_meanwhile_is_not_restated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "RESTATED_A_SLICE", 1)
    desk = registered("broker-a", "broker-b")
    view = view_of([*desk.events, lost()])
    desk.events.clear()
    restating = restate(desk.routes, {}, Revision())
    view_of([next(restating)], view)
    desk.expire(LEASE_MS + 1)
    view_of(desk.events, view)
    view_of(restating, view)
    assert (len(view.groups), view.unsure) == (0, False)


# -- pairs


def test_pairs_the_journal_does_not_know_are_told() -> None:
    desk = Desk()
    desk.events += desk.kv.apply([KvChange("a", "1", "x"), KvChange("a", "2", "y")])
    view = view_of(desk.events)
    held = {"a": {"1": "x", "2": "other"}, "b": {"3": "z"}}
    revision = Revision(view.revision)
    view_of(catch_up_kv(view.kv, held, revision), view)
    assert view.kv == held
    assert (view.contradictions, view.revision) == ([], revision.value)


def test_pairs_the_journal_knows_are_not_told_again() -> None:
    assert list(catch_up_kv({"a": {"1": "x"}}, {"a": {"1": "x"}}, Revision())) == []
    assert list(catch_up_kv(View().kv, {}, Revision())) == []
