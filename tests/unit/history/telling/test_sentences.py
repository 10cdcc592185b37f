"""Every event as a sentence, word for word."""

import dataclasses
import inspect
import re
from typing import Any

import pytest

from routebook import events
from routebook.events import (
    BrokerConfirmed,
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    Cause,
    ConfigChanged,
    Event,
    GroupRestated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    JournalRecovered,
    KvChanged,
    MappingsChanged,
    MemberFact,
    MinBrokerChanged,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    NoiseCounted,
    PeerNoise,
    QueryCount,
    QueueChange,
    RecordsLost,
    RegistrationCompleted,
    RequestRefused,
    RouteQueries,
    StateRestated,
    StaticMapping,
    Suspect,
    TopicsChanged,
)
from routebook.history.finding.witness import Silence, Silent
from routebook.history.telling.sentences import Context, sentence
from routebook.history.telling.silences import silence_phrase, silence_sentence
from routebook.journal.record import UnknownEvent
from support.stories import ms

ADMIN = {"cause": Cause.ADMIN, "peer": "10.0.0.9:51234"}
BROKER_A = {"cluster": "c", "broker": "broker-a", "broker_id": 0, "addr": "10.0.0.1:10911"}
SLAVE = {"cluster": "c", "broker": "broker-a", "broker_id": 1, "addr": "10.0.0.2:10911"}
MAPPING = StaticMapping("orders", "broker-a", 4, 1, "__global__", False, ((0, 0),))
WAS, READ_ONLY, SMALLER = (8, 8, 6, 0), (8, 8, 4, 0), (4, 4, 6, 0)

DEFAULTS: dict[str, Any] = {
    "revision": 1,
    "cause": Cause.REGISTER,
    "peer": "10.0.0.1:40112",
    **BROKER_A,
    "generation": 1,
    "ha_addr": None,
    "heartbeat_timeout_ms": 120_000,
    "acting_master": False,
    "zone": None,
    "epoch": 0,
    "filter_servers": (),
    "addrs_before": {},
    "addrs_after": {},
    "before": {},
    "after": {},
    "topics_lost": 120,
    "changes": (QueueChange("orders", None, WAS),),
    "mappings": (MAPPING,),
    "topics": 120,
    "data_version": None,
    "request": "REGISTER_BROKER",
    "subject": "c/broker-a:0 10.0.0.1:10911",
    "reason": "crc32 not match",
    "answered_success": False,
    "kept": "10.0.0.1:10911",
    "other": "10.0.0.7:10911",
    "min_broker_id": 1,
    "min_broker_addr": "10.0.0.2:10911",
    "offline_addr": None,
    "recipients": (),
    "namespace": "n",
    "key": "k",
    "version": "1.0",
    "address": "10.0.1.1:9876",
    "brokers": 3,
    "last_seq": 17,
    "torn_bytes": 0,
    "count": 12,
    "from_ms": ms("03:00:00"),
    "to_ms": ms("03:02:15"),
    "longest_ms": 135_000,
    "clock_ms": 0,
    "since_ms": ms("03:00:00"),
    "members": (MemberFact(0, "10.0.0.1:10911", None, 120_000, 1, 0, None, ()),),
    "queues": (QueueChange("orders", None, WAS),),
    "continued": False,
    "groups": 3,
    "kv": {},
    "after_ms": 4000,
    "window_ms": 60_000,
    "gaps_ms": (30_000, 31_000),
    "others": 0,
    "suspects": (Suspect("c", "broker-a", 0, "10.0.0.1:10911", 121_000),),
    "silent": 12,
    "live": 20,
    "limit": 6,
    "hold_ms": 300_000,
    "returned": 9,
    "left": 1,
    "dropped": 2,
    "refused": 90_000,
    "conflicts": 1,
    "windows": 2,
    "peers": (PeerNoise("10.0.0.66", 89_000), PeerNoise("10.0.0.9", 1000)),
    "type": "BrokerSang",
    "data": {},
}
OF_TYPE: dict[type[Event], dict[str, Any]] = {
    KvChanged: {"before": None, "after": "v"},
    ConfigChanged: {"before": {"a": "1"}, "after": {"a": "2"}},
    RouteQueries: {"topics": (QueryCount("orders", 7, 2, 1),)},
    BrokerUpdated: {"before": {"zone": None}, "after": {"zone": "z"}},
    GuardReleased: {"reason": "deadline", "peer": ""},
}


def event(kind: type[Event], **given: Any) -> Event:
    values = {**DEFAULTS, **OF_TYPE.get(kind, {}), **given}
    names = (field.name for field in dataclasses.fields(kind))
    return kind(**{name: values[name] for name in names if name in values})


def concrete_events() -> list[type[Event]]:
    kinds = [k for _, k in inspect.getmembers(events, inspect.isclass) if issubclass(k, Event)]
    return [kind for kind in (*kinds, UnknownEvent) if not kind.__subclasses__()]


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("kind", concrete_events())
@pytest.mark.parametrize("context", [Context(), Context(topic="orders", timeout_ms=120_000)])
def test_every_event_of_every_cause_has_a_sentence(
    kind: type[Event], cause: Cause, context: Context
) -> None:
    for peer in ("10.0.0.1:40112", ""):
        said = sentence(event(kind, cause=cause, peer=peer), context)
        assert re.fullmatch(r"\S.*[^.\s]\.", said)
        assert not re.search(r"None|[{}\[\]]|  | \.|Cause|\bcause", said)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause.UNREGISTER, "it unregistered"),
        (Cause.CONNECTION_CLOSED, "its connection was closed by the peer"),
        (Cause.IDLE, "nothing came over its connection for too long, so the node closed it"),
        (Cause.EXPIRED, "no heartbeat came within its timeout"),
        (Cause.MOVED, "its address came back under another name"),
        (
            Cause.NOT_CONFIRMED,
            "it was known from before the restart and not heard of since",
        ),
        (Cause.GUARD, "the guard no longer held it"),
    ],
)
def test_a_broker_that_left_says_why(cause: Cause, said: str) -> None:
    assert sentence(event(BrokerLeft, cause=cause)) == f"broker-a left: {said}; it had 120 topics."


@pytest.mark.parametrize(
    ("told", "context", "said"),
    [
        pytest.param(
            event(BrokerRegistered),
            Context(topics=120),
            "broker-a (10.0.0.1:10911, id 0, cluster c) registered from 10.0.0.1:40112 with 120"
            " topics.",
            id="registered",
        ),
        pytest.param(
            event(BrokerRegistered),
            Context(topics=1, away_ms=30_000),
            "broker-a came back after 30 s: 10.0.0.1:10911, id 0, cluster c, registered from"
            " 10.0.0.1:40112 with 1 topic.",
            id="came-back",
        ),
        pytest.param(
            event(BrokerRegistered, addrs_before={0: "10.0.0.1:10911"}),
            Context(topics=120),
            "broker-a (10.0.0.1:10911, id 0, cluster c) registered again over a new connection,"
            " from 10.0.0.1:40112 with 120 topics.",
            id="new-connection",
        ),
        pytest.param(
            event(BrokerRegistered, **SLAVE, peer="10.0.0.2:40112"),
            Context(topics=120),
            "broker-a (10.0.0.2:10911, id 1, cluster c) registered from 10.0.0.2:40112 as a slave.",
            id="slave",
        ),
        pytest.param(
            event(BrokerRegistered, addrs_before={1: "10.0.0.1:10911"}),
            Context(topics=120),
            "broker-a: 10.0.0.1:10911 changed its id from 1 to 0 and is a master now, registered"
            " from 10.0.0.1:40112 with 120 topics.",
            id="promoted",
        ),
        pytest.param(
            event(BrokerLeft, cause=Cause.EXPIRED, peer=""),
            Context(timeout_ms=120_000),
            "broker-a left: no heartbeat came within its timeout of 2 min; it had 120 topics.",
            id="expired",
        ),
        pytest.param(
            event(
                BrokerLeft,
                cause=Cause.CONNECTION_CLOSED,
                addrs_after={1: "10.0.0.2:10911"},
                topics_lost=0,
            ),
            Context(),
            "broker-a id 0 (10.0.0.1:10911) left: its connection was closed by the peer; still"
            " there: id 1 (10.0.0.2:10911).",
            id="master-left",
        ),
        pytest.param(
            event(BrokerLeft, cause=Cause.REPLACED, topics_lost=0),
            Context(),
            "broker-a left: another address took its id.",
            id="replaced",
        ),
        pytest.param(
            event(BrokerLeft, cause=Cause.UNREGISTER),
            Context(topic="orders", holders=("broker-b",)),
            "broker-a left: it unregistered; orders is still on broker-b.",
            id="topic-is-elsewhere",
        ),
        pytest.param(
            event(BrokerLeft, cause=Cause.UNREGISTER),
            Context(topic="orders"),
            "broker-a left: it unregistered; orders is on no other broker, so there is no route.",
            id="topic-is-gone",
        ),
        pytest.param(
            event(
                BrokerUpdated,
                before={"zone": None, "acting_master": False, "filter_servers": ()},
                after={"zone": "z1", "acting_master": True, "filter_servers": ()},
            ),
            Context(),
            "broker-a (10.0.0.1:10911, id 0, cluster c) changed its zone from none to z1 and acting"
            " master from no to yes, registered from 10.0.0.1:40112.",
            id="updated",
        ),
        pytest.param(
            event(RegistrationCompleted),
            Context(),
            "the registration of broker-a (10.0.0.1:10911, id 0, cluster c) from 10.0.0.1:40112"
            " with 120 topics is complete.",
            id="completed",
        ),
        pytest.param(
            event(BrokerConfirmed),
            Context(),
            "broker-a (10.0.0.1:10911, id 0, cluster c), recovered from the journal, was heard of"
            " again 4 s after the start.",
            id="confirmed",
        ),
        pytest.param(
            event(HeartbeatGaps),
            Context(),
            "broker-a (10.0.0.1:10911, id 0, cluster c) gave 2 signs of life in 1 min, at most 31 s"
            " apart.",
            id="heartbeats",
        ),
        pytest.param(
            event(HeartbeatGaps, gaps_ms=(95_000,)),
            Context(timeout_ms=120_000),
            "broker-a (10.0.0.1:10911, id 0, cluster c) was silent for 1 min 35 s, and leaves after"
            " 2 min.",
            id="near-miss",
        ),
        pytest.param(
            event(BrokerConflict, reason="the last one counts"),
            Context(),
            "conflict: 10.0.0.1:10911 and 10.0.0.7:10911 both claim id 0 of broker-a in cluster c;"
            " 10.0.0.1:10911 is believed: the last one counts.",
            id="conflict",
        ),
        pytest.param(
            event(RequestRefused),
            Context(),
            "REGISTER_BROKER for c/broker-a:0 10.0.0.1:10911 was refused to 10.0.0.1:40112: crc32"
            " not match.",
            id="refused",
        ),
        pytest.param(
            event(RequestRefused, subject="", answered_success=True),
            Context(),
            "REGISTER_BROKER was refused to 10.0.0.1:40112, although it was told of success: crc32"
            " not match.",
            id="refused-untold",
        ),
        pytest.param(
            event(MinBrokerChanged, offline_addr="10.0.0.1:10911"),
            Context(),
            "slave id 1 (10.0.0.2:10911) now has the smallest id of broker-a, since 10.0.0.1:10911"
            " is gone.",
            id="smallest-id",
        ),
        pytest.param(
            event(MappingsChanged),
            Context(),
            "broker-a announced which logical queues it holds of orders, by a registration from"
            " 10.0.0.1:40112.",
            id="mappings",
        ),
        pytest.param(
            event(RouteQueries),
            Context(topic="orders"),
            "within 1 min orders was asked for 10 times: 7 were answered, 2 told that there is no"
            " route, 1 that the node is not ready.",
            id="queries",
        ),
        pytest.param(
            event(RouteQueries, others=5),
            Context(),
            "within 1 min a route was asked for 15 times: 7 were answered, 2 told that there is no"
            " route, 1 that the node is not ready, 5 were about other topics.",
            id="queries-of-all",
        ),
        pytest.param(
            event(KvChanged, **ADMIN),
            Context(),
            'key k of namespace n was set to "v" by an administrator at 10.0.0.9:51234.',
            id="kv-set",
        ),
        pytest.param(
            event(KvChanged, **ADMIN, before="u"),
            Context(),
            'key k of namespace n was changed from "u" to "v" by an administrator at'
            " 10.0.0.9:51234.",
            id="kv-changed",
        ),
        pytest.param(
            event(KvChanged, **ADMIN, before="u", after=None),
            Context(),
            "key k of namespace n was deleted by an administrator at 10.0.0.9:51234.",
            id="kv-deleted",
        ),
        pytest.param(
            event(ConfigChanged, **ADMIN, before={"a": "1", "b": "x"}, after={"a": "2", "b": "x"}),
            Context(),
            "settings were changed by an administrator at 10.0.0.9:51234: a from 1 to 2.",
            id="config",
        ),
        pytest.param(
            event(NodeStarted, brokers=0),
            Context(),
            "node started (Routebook 1.0 at 10.0.1.1:9876), with no brokers recovered.",
            id="start-with-nothing",
        ),
        pytest.param(
            event(NodeStarted),
            Context(confirmed=(("broker-a", 4000),)),
            "node restarted, 3 brokers recovered from the journal, broker-a confirmed 4 s later.",
            id="restart",
        ),
        pytest.param(
            event(NodeStopped, topics=120),
            Context(),
            "node stopped in order, with 3 brokers and 120 topics.",
            id="stop",
        ),
        pytest.param(
            event(JournalRecovered, torn_bytes=31),
            Context(),
            "the journal had not been closed in order: its last record is number 17, and what came"
            " after it is lost. A record of 31 bytes was cut short and dropped.",
            id="journal-recovered",
        ),
        pytest.param(
            event(RecordsLost),
            Context(),
            "12 records were lost since 2026-11-15T03:00:00Z: the disk did not take them in time.",
            id="records-lost",
        ),
        pytest.param(
            event(RecordsLost, flooded=12),
            Context(),
            "12 records were lost since 2026-11-15T03:00:00Z: all came from peers that changed"
            " more than a journal takes of them.",
            id="records-lost-to-a-flood",
        ),
        pytest.param(
            event(RecordsLost, flooded=7),
            Context(),
            "12 records were lost since 2026-11-15T03:00:00Z: 7 of them came from peers that"
            " changed more than a journal takes of them.",
            id="records-lost-to-both",
        ),
        pytest.param(
            event(NoiseCounted),
            Context(),
            "too many to write each of them down since 2026-11-15T03:00:00Z: 90000 refusals, 1"
            " conflict, 2 records of heartbeats and queries; 89000 from 10.0.0.66 and 1000 from"
            " 10.0.0.9.",
            id="noise-counted",
        ),
        pytest.param(
            event(GroupRestated),
            Context(),
            "broker-a of cluster c as it stood after records were lost: id 0 (10.0.0.1:10911),"
            " 1 topic.",
            id="group-restated",
        ),
        pytest.param(
            event(StateRestated),
            Context(gone=("broker-b",)),
            "the tables were written down anew: 3 broker groups; broker-b left unseen while records"
            " were lost.",
            id="state-restated",
        ),
        pytest.param(
            event(GuardEngaged),
            Context(),
            "guard: 12 of 20 brokers fell silent within 1 min, more than the 6 that may be let go;"
            " believed for 5 min more although their time is up: broker-a.",
            id="guard-engaged",
        ),
        pytest.param(
            event(GuardReleased, reason="admin", peer="10.0.0.9:51234"),
            Context(),
            "guard released because an administrator said so at 10.0.0.9:51234: 9 brokers came"
            " back, 1 left, 2 dropped.",
            id="guard-released",
        ),
        pytest.param(
            event(UnknownEvent),
            Context(),
            "BrokerSang was recorded, which only a newer Routebook can explain.",
            id="unknown",
        ),
    ],
)
def test_the_wording_is_exactly_this(told: Event, context: Context, said: str) -> None:
    assert sentence(told, context) == said


def changed(*changes: QueueChange, **given: Any) -> Event:
    return event(TopicsChanged, changes=changes, **given)


@pytest.mark.parametrize(
    ("told", "context", "said"),
    [
        pytest.param(
            changed(QueueChange("orders", WAS, READ_ONLY), **ADMIN),
            Context(),
            "permission to write was taken away by an administrator at 10.0.0.9:51234 from orders"
            " on broker-a.",
            id="write-taken",
        ),
        pytest.param(
            changed(QueueChange("orders", READ_ONLY, WAS), **ADMIN),
            Context(),
            "permission to write was given back by an administrator at 10.0.0.9:51234 to orders on"
            " broker-a.",
            id="write-given",
        ),
        pytest.param(
            changed(
                QueueChange("orders", WAS, READ_ONLY),
                QueueChange("payments", WAS, READ_ONLY),
                cause=Cause.EXPIRED,
            ),
            Context(stand_in=(1, "10.0.0.2:10911")),
            "slave id 1 (10.0.0.2:10911) now serves reads only: 2 topics (orders and payments) on"
            " broker-a cannot be written, because a broker sent no heartbeat within its timeout.",
            id="slave-stands-in",
        ),
        pytest.param(
            changed(*(QueueChange(f"t{n}", None, WAS) for n in range(120))),
            Context(),
            "120 topics (t0, t1, t2 and 117 more) appeared on broker-a with 8 read and 8 write"
            " queues, permission RW-, by a registration from 10.0.0.1:40112.",
            id="appeared",
        ),
        pytest.param(
            changed(QueueChange("orders", None, WAS), QueueChange("payments", None, WAS)),
            Context(topic="orders", away_ms=30_000),
            "orders came back after 30 s on broker-a with 8 read and 8 write queues, permission"
            " RW-, by a registration from 10.0.0.1:40112.",
            id="came-back",
        ),
        pytest.param(
            changed(QueueChange("orders", WAS, None), **ADMIN),
            Context(),
            "orders was removed from broker-a by an administrator at 10.0.0.9:51234.",
            id="removed",
        ),
        pytest.param(
            changed(QueueChange("orders", WAS, SMALLER), QueueChange("a", None, WAS)),
            Context(),
            "a appeared on broker-a with 8 read and 8 write queues, permission RW-, by a"
            " registration from 10.0.0.1:40112. orders changed on broker-a from 8/8 RW- to 4/4 RW-,"
            " by a registration from 10.0.0.1:40112.",
            id="several-ways",
        ),
        pytest.param(
            changed(QueueChange("orders", WAS, WAS)),
            Context(),
            "orders changed on broker-a from 8/8 RW- to 8/8 RW-, by a registration from"
            " 10.0.0.1:40112.",
            id="nothing-changed",
        ),
    ],
)
def test_changes_of_topics_are_told_by_kind(told: Event, context: Context, said: str) -> None:
    assert sentence(told, context) == said


@pytest.mark.parametrize(
    ("silence", "said"),
    [
        (Silence(0, 60_000, Silent.STOPPED), "the node was down."),
        (
            Silence(0, 60_000, Silent.KILLED),
            "the node stopped at some moment after 00:00:00Z, and not in order.",
        ),
        (
            Silence(52_000, 60_000, Silent.KILLED, recorded_ms=0),
            "the node stopped at some moment after 00:00:52Z, its last sign of life, and not in"
            " order.",
        ),
        (Silence(0, 60_000, Silent.LOST, 12), "12 records were lost."),
        (Silence(0, 60_000, Silent.LOST, 1), "1 record was lost."),
        (Silence(0, 60_000, Silent.MISSING, 7), "7 records missing from the journal."),
    ],
)
def test_a_silence_says_from_when_to_when_and_why(silence: Silence, said: str) -> None:
    assert silence_sentence(silence) == f"no record between 00:00:00Z and 00:01:00Z: {said}"


@pytest.mark.parametrize(
    ("silence", "said", "phrase"),
    [
        (
            Silence(0, 135_000, Silent.STALLED),
            "the node listened to nobody from 1970-01-01T00:00:00Z to 1970-01-01T00:02:15Z.",
            "the node listened to nobody",
        ),
        (
            Silence(0, 135_000, Silent.STALLED, heard_ms=75_000),
            "the node listened to nobody from 1970-01-01T00:00:00Z to 1970-01-01T00:02:15Z but for"
            " moments.",
            "the node listened to nobody but for moments",
        ),
        (
            Silence(0, 135_000, Silent.SILENT),
            "no record between 00:00:00Z and 00:02:15Z, although brokers were listed: whether the"
            " node was awake is not known.",
            "nothing was recorded",
        ),
        (
            Silence(0, 7_200_000, Silent.CLOCK, clock_ms=7_190_000),
            "the clock of the node was set forward by 1 h 59 min, from 1970-01-01T00:00:00Z to"
            " 1970-01-01T02:00:00Z: nobody was awake in between.",
            "the clock of the node was set forward",
        ),
        (
            Silence(7_200_000, 0, Silent.CLOCK, clock_ms=-7_200_000),
            "the clock of the node was set back by 2 h, to 1970-01-01T00:00:00Z: times before and"
            " after it do not compare.",
            "the clock of the node was set back",
        ),
        (
            Silence(5_000, 60_000, Silent.ENDED, recorded_ms=0),
            "no record after 00:00:00Z: whether the node was awake after 00:00:05Z is not known.",
            "the journal ends",
        ),
        (
            Silence(52_000, 60_000, Silent.KILLED, recorded_ms=0),
            "no record between 00:00:00Z and 00:01:00Z: the node stopped at some moment after"
            " 00:00:52Z, its last sign of life, and not in order.",
            "the node stopped at some moment after 00:00:52Z",
        ),
    ],
    ids=lambda value: value.reason.value if isinstance(value, Silence) else "",
)
def test_what_is_not_known_is_not_claimed(silence: Silence, said: str, phrase: str) -> None:
    assert silence_sentence(silence) == said
    assert silence_phrase(silence) == phrase


@pytest.mark.parametrize(("by_ms", "way"), [(3_600_000, "forward"), (-3_600_000, "back")])
def test_a_node_whose_clock_was_set_did_not_sleep(by_ms: int, way: str) -> None:
    from_ms = ms("03:00:00")
    told = event(NodeStalled, from_ms=from_ms, to_ms=from_ms + by_ms, longest_ms=0, clock_ms=by_ms)
    until = "04:00:00" if by_ms > 0 else "02:00:00"
    assert sentence(told, Context()) == (
        f"the clock of the node was set {way} by 1 h, from 2026-11-15T03:00:00Z to"
        f" 2026-11-15T{until}Z; the node listened all the time."
    )


def test_a_clock_that_was_set_back_while_a_node_was_down_is_told() -> None:
    assert silence_sentence(Silence(7_200_000, 60_000, Silent.STOPPED)) == (
        "no record from 1970-01-01T02:00:00Z on, until the clock of the node had been set back, to"
        " 1970-01-01T00:01:00Z or earlier: the node was down."
    )
