"""Sequences kept by name: situations that are rare among generated ones, and past findings."""

from dataclasses import replace

from differential.steps import (
    Close,
    DeleteKv,
    DeleteTopic,
    Form,
    GetRoute,
    Mapping,
    Profile,
    PutKv,
    Queues,
    Register,
    RegisterTopic,
    Sequence,
    SetWritable,
    Stamp,
    Step,
    Unregister,
    Via,
)

_VERSION = Stamp(1, 0, 1_700_000_000_000)
_TOPICS = (("@t0", Queues()), ("@t1", Queues()))
_OTHER_TOPICS = (("@t2", Queues()), ("@t3", Queues()))
MASTER = Register(Via(0), "@A", "@b0", 0, "10.0.0.1:10911", _TOPICS, _VERSION)
SLAVE = Register(Via(1), "@A", "@b0", 1, "10.0.0.2:10911", _TOPICS, _VERSION, acting_master=True)
OTHER = Register(Via(2), "@A", "@b1", 0, "10.0.0.3:10911", _TOPICS, _VERSION)
ACTING_MASTER = replace(MASTER, acting_master=True)
ASK = Via(3)


def _mapped(broker: Register, queue: int) -> Register:
    return replace(broker, mappings=(Mapping("@t0", "@b0", ((queue, queue),)),))


def _with_queues(broker: Register, queues: Queues) -> Register:
    return replace(broker, topics=tuple((topic, queues) for topic, _ in broker.topics))


def _of(*steps: Step, profile: Profile | None = None) -> Sequence:
    return Sequence(steps, profile or Profile())


CASES: dict[str, Sequence] = {
    "nothing": _of(),
    "topic-deleted-and-announced-again": _of(MASTER, DeleteTopic(ASK, "@t0", None), MASTER),
    "parts-of-a-split-registration": _of(
        MASTER,
        replace(MASTER, topics=_OTHER_TOPICS),
        replace(MASTER, topics=(("@t2", Queues(4, 4)), ("@t3", Queues()))),
    ),
    "roles-switched": _of(
        MASTER, SLAVE, Close(0), replace(SLAVE, broker_id=0), replace(MASTER, broker_id=1)
    ),
    "wiped-then-master-gone-and-back": _of(
        ACTING_MASTER, SLAVE, SetWritable(ASK, "@b0", False), Close(0), ACTING_MASTER, SLAVE
    ),
    "slave-acts-as-master": _of(
        ACTING_MASTER,
        SLAVE,
        Close(0),
        GetRoute(ASK, "@t0"),
        SetWritable(ASK, "@b0", True),
        GetRoute(ASK, "@t0"),
        SLAVE,
        GetRoute(ASK, "@t0"),
        profile=Profile(support_acting_master=True),
    ),
    "zone-and-acting-overwritten-by-a-slave": _of(
        replace(ACTING_MASTER, zone="z1"),
        replace(SLAVE, acting_master=None),
        replace(ACTING_MASTER, zone="z1"),
    ),
    "order-configuration-in-routes": _of(
        PutKv(ASK, "ORDER_TOPIC_CONFIG", "@t0", "@b0:4"),
        MASTER,
        GetRoute(ASK, "@t0"),
        GetRoute(Via(3, 399), "@t0", zone_mode="true", zone="z1"),
        DeleteKv(ASK, "ORDER_TOPIC_CONFIG", "@t0"),
        GetRoute(ASK, "@t0"),
        profile=Profile(order_message_enable=True),
    ),
    "queues-set-by-217-survive-a-repeat": _of(
        MASTER, RegisterTopic(ASK, "@t0", (("@b0", Queues(1, 1, 4)),)), MASTER
    ),
    "mapping-goes-with-its-owner": _of(
        _mapped(MASTER, 0),
        _mapped(OTHER, 5),
        Unregister(Via(0), "@A", "@b0", 0, "10.0.0.1:10911"),
    ),
    "empty-zone-and-ha-address": _of(
        replace(MASTER, zone="", ha=""), SLAVE, GetRoute(ASK, "@t0", zone_mode="true", zone="z1")
    ),
    "blank-zone": _of(replace(MASTER, zone="z1"), GetRoute(ASK, "@t0", zone_mode="true", zone=" ")),
    "other-topics-of-a-prime-slave-with-deletion": _of(
        MASTER,
        replace(SLAVE, topics=_OTHER_TOPICS),
        Close(0),
        replace(SLAVE, topics=_OTHER_TOPICS),
        profile=Profile(delete_topic_with_broker_registration=True),
    ),
    "mappings-keep-topics-from-deletion": _of(
        MASTER,
        replace(_mapped(MASTER, 0), topics=_OTHER_TOPICS),
        MASTER,
        profile=Profile(delete_topic_with_broker_registration=True),
    ),
    "mapped-topic-deleted-and-announced-again": _of(
        _mapped(MASTER, 0), DeleteTopic(ASK, "@t0", None), _mapped(MASTER, 0)
    ),
    "filters-left-alone-by-null": _of(
        replace(MASTER, filters=("f",)), replace(MASTER, filters=None), MASTER
    ),
    # Found here, mended since.
    "empty-topic-name": _of(GetRoute(ASK, "")),
    "spaces-around-a-zone": _of(
        replace(MASTER, zone="z1"), GetRoute(ASK, "@t0", zone_mode="true", zone=" z1 ")
    ),
    "no-body-from-an-old-broker-keeps-filters": _of(
        replace(MASTER, filters=("f1",)), replace(MASTER, via=Via(0, 36), form=Form.NOTHING)
    ),
    "repeat-drops-a-topic-added-by-217": _of(
        MASTER,
        RegisterTopic(ASK, "@t3", (("@b0", Queues()),)),
        MASTER,
        profile=Profile(delete_topic_with_broker_registration=True),
    ),
    "repeat-restores-an-overwritten-mapping": _of(
        _mapped(MASTER, 0), _mapped(OTHER, 5), _mapped(MASTER, 0)
    ),
    "repeat-after-another-member-spoke": _of(
        SLAVE, _with_queues(ACTING_MASTER, Queues(4, 4)), Close(0), SLAVE
    ),
}
