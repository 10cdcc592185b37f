"""Events about brokers and nodes as sentences: a column over rows of ``events``.

Beside the columns of ``events`` a row has what is known around it, or null: ``away_ms`` since the
broker left, ``registered_topics`` of the registration that begins with it, ``timeout_ms`` of the
broker. The words are those of ``routebook history``.
"""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook.history.telling.words import MASTER, WRITE
from routebook_spark.answers.phrases import (
    counted,
    joined,
    listed,
    member,
    members,
    or_nothing,
    origin,
    queues,
    short_queues,
    span,
    to_second,
    why_changed,
    why_left,
)

NEAR_MISS = 0.75
"""A gap between heartbeats of this share of the timeout was nearly the end."""

_DETAILS = "map<string,string>"


def sentence() -> Column:
    """One sentence, or a few; null for events that are not told."""
    told = reduce(
        lambda found, each: found.when(F.col("type") == each[0], each[1]()),
        _SENTENCES.items(),
        F.when(F.lit(False), ""),
    )
    unknown = "%s was recorded, which only a newer Routebook can explain."
    return told.when(F.col("raw").isNotNull(), F.format_string(unknown, "type"))


# -- topics


def topic_change(before: Column, after: Column, topics: Column, *, away_ms: Column) -> Column:
    """What became of topics that changed alike on the broker of the row.

    ``away_ms`` is null for topics that are new there, and negative when no clock can tell.
    """
    why = why_changed(F.col("cause"), F.col("peer"))
    one, broker = F.size(topics) == 1, F.col("broker")
    names = F.when(one, topics[0]).otherwise(
        joined(counted(F.size(topics), "topic"), " (", listed(topics), ")")
    )
    were = F.when(one, "was").otherwise("were")
    back = (
        F.when(away_ms >= 0, joined("came back after ", span(away_ms)))
        .when(away_ms < 0, "came back")
        .otherwise("appeared")
    )
    given = before[2].bitwiseAND(WRITE) < after[2].bitwiseAND(WRITE)
    taken = before[2].bitwiseAND(WRITE) > after[2].bitwiseAND(WRITE)
    only_write = _without_write(before) == _without_write(after)
    written = "permission to write was %s %s %s on %s."
    return (
        F.when(
            before.isNull(),
            F.format_string("%s %s on %s with %s, %s.", names, back, broker, queues(after), why),
        )
        .when(
            after.isNull(), F.format_string("%s %s removed from %s %s.", names, were, broker, why)
        )
        .when(
            only_write & taken,
            F.format_string(written, F.lit("taken away"), why, joined("from ", names), broker),
        )
        .when(
            only_write & given,
            F.format_string(written, F.lit("given back"), why, joined("to ", names), broker),
        )
        .otherwise(
            F.format_string(
                "%s changed on %s from %s to %s, %s.",
                names,
                broker,
                short_queues(before),
                short_queues(after),
                why,
            )
        )
    )


def _without_write(shape: Column) -> Column:
    return F.array(shape[0], shape[1], shape[2].bitwiseAND(~WRITE), shape[3])


def _topics() -> Column:
    sentences = F.transform(
        F.filter("data.changes", lambda each: ~each["before"].eqNullSafe(each["after"])),
        lambda each: topic_change(
            each["before"], each["after"], each["topics"], away_ms=F.lit(None).cast("long")
        ),
    )
    return F.when(F.size(sentences) > 0, F.array_join(sentences, " "))


def _mappings() -> Column:
    names = F.array_sort(F.array_distinct(F.transform("data.mappings", lambda each: each["topic"])))
    told = F.format_string(
        "%s announced which logical queues it holds of %s, %s.",
        "broker",
        listed(names),
        why_changed(F.col("cause"), F.col("peer")),
    )
    return F.when(F.size(names) > 0, told)


# -- brokers


def _who() -> Column:
    return F.format_string("%s (%s, id %s, cluster %s)", "broker", "addr", "broker_id", "cluster")


def _registered() -> Column:
    ids = F.map_keys(F.map_filter("data.addrs_before", lambda _, addr: addr == F.col("addr")))
    was_id = F.get(ids, F.lit(0)).cast("long")
    slave = F.col("broker_id") != MASTER
    with_topics = F.when(slave, " as a slave").otherwise(
        or_nothing(joined(" with ", counted(F.col("registered_topics"), "topic")))
    )
    came = joined("from ", origin(F.col("peer")), with_topics, ".")
    return (
        F.when(
            was_id == F.col("broker_id"),
            joined(_who(), " registered again over a new connection, ", came),
        )
        .when(
            was_id.isNotNull(),
            F.format_string(
                "%s: %s changed its id from %s to %s and is a %s now, registered %s",
                "broker",
                "addr",
                was_id,
                "broker_id",
                F.when(slave, "slave").otherwise("master"),
                came,
            ),
        )
        .when(
            F.col("away_ms").isNotNull(),
            F.format_string(
                "%s came back after %s: %s, id %s, cluster %s, registered %s",
                "broker",
                span(F.col("away_ms")),
                "addr",
                "broker_id",
                "cluster",
                came,
            ),
        )
        .otherwise(joined(_who(), " registered ", came))
    )


def _updated() -> Column:
    before, after = (F.from_json(f"data.{name}", _DETAILS) for name in ("before", "after"))
    names = F.filter(F.map_keys(after), lambda name: ~before[name].eqNullSafe(after[name]))
    changes = F.transform(
        names,
        lambda name: joined(
            F.replace(name, F.lit("_"), F.lit(" ")),
            " from ",
            _detail(before[name]),
            " to ",
            _detail(after[name]),
        ),
    )
    return F.format_string(
        "%s changed its %s, registered from %s.", _who(), listed(changes), origin(F.col("peer"))
    )


def _detail(value: Column) -> Column:
    """A member of a header, which is JSON unless it is a text."""
    items = F.array_join(F.from_json(value, "array<string>"), ", ")
    return (
        F.when(value.isNull() | (value == "[]"), "none")
        .when(value == "true", "yes")
        .when(value == "false", "no")
        .when(value.startswith("["), items)
        .otherwise(value)
    )


def left(behind: Column) -> Column:
    """That the broker of the row left, and why; and what it left behind, if that is not null."""
    alone = (F.size("data.addrs_after") == 0) & (F.col("broker_id") == MASTER)
    whom = F.when(alone, F.col("broker")).otherwise(
        joined(F.col("broker"), " ", member(F.col("broker_id"), F.col("addr")))
    )
    within = F.when(F.col("cause") == "expired", joined(" of ", span(F.col("timeout_ms"))))
    return F.format_string(
        "%s left: %s%s%s.",
        whom,
        why_left(F.col("cause")),
        or_nothing(within),
        or_nothing(joined("; ", behind)),
    )


def still_there() -> Column:
    """Who of its group is left after the broker of the row; null for nobody."""
    others = joined("still there: ", members(F.col("data.addrs_after")))
    return F.when(F.size("data.addrs_after") > 0, others)


def _left() -> Column:
    topics = joined("it had ", counted(F.col("data.topics_lost"), "topic"))
    return left(F.coalesce(still_there(), F.when(F.col("cause") != "replaced", topics)))


def _confirmed() -> Column:
    return F.format_string(
        "%s, recovered from the journal, was heard of again %s after the start.",
        _who(),
        span(F.col("data.after_ms")),
    )


def _heartbeats() -> Column:
    longest = F.array_max("data.gaps_ms")
    near = F.format_string(
        "%s was silent for %s, and leaves after %s.",
        _who(),
        span(longest),
        span(F.col("timeout_ms")),
    )
    return F.when(longest >= NEAR_MISS * F.col("timeout_ms"), near)


def _conflict() -> Column:
    return F.format_string(
        "conflict: %s and %s both claim id %s of %s in cluster %s; %s is believed: %s.",
        "data.kept",
        "data.other",
        "broker_id",
        "broker",
        "cluster",
        "data.kept",
        "data.reason",
    )


def _refused() -> Column:
    about = F.when(F.col("data.subject") != "", joined(" for ", F.col("data.subject")))
    told = F.when(F.col("data.answered_success"), ", although it was told of success")
    return F.format_string(
        "%s%s was refused to %s%s: %s.",
        "data.request",
        or_nothing(about),
        origin(F.col("peer")),
        or_nothing(told),
        F.rtrim(F.col("data.reason"), F.lit(".")),
    )


def _min_broker() -> Column:
    told = F.format_string(
        "slave %s now has the smallest id of %s%s.",
        member(F.col("data.min_broker_id"), F.col("data.min_broker_addr")),
        "broker",
        or_nothing(joined(", since ", F.col("data.offline_addr"), " is gone")),
    )
    return F.when(F.col("data.min_broker_id") != MASTER, told)  # else its registration says so


# -- the node


def _started() -> Column:
    cold = F.format_string(
        "node started (Routebook %s at %s), with no brokers recovered.",
        "data.version",
        "data.address",
    )
    brokers = counted(F.col("data.brokers"), "broker")
    warm = F.format_string("node restarted, %s recovered from the journal.", brokers)
    return F.when(F.col("data.brokers") == 0, cold).otherwise(warm)


def _stopped() -> Column:
    return F.format_string(
        "node stopped in order, with %s and %s.",
        counted(F.col("data.brokers"), "broker"),
        counted(F.col("data.topic_count"), "topic"),
    )


def _stalled() -> Column:
    way = F.when(F.col("data.clock_ms") > 0, "forward").otherwise("back")
    clock = F.format_string(
        " Its clock was set %s by %s meanwhile.", way, span(F.abs("data.clock_ms"))
    )
    return F.format_string(
        "the node listened to nobody from %s to %s, for %s at a time: it saw and answered"
        " nothing.%s",
        to_second(F.timestamp_millis(F.col("data.from_ms"))),
        to_second(F.timestamp_millis(F.col("data.to_ms"))),
        span(F.col("data.longest_ms")),
        or_nothing(F.when(F.col("data.clock_ms") != 0, clock)),
    )


def _recovered() -> Column:
    cut = counted(F.col("data.torn_bytes"), "byte")
    torn = F.format_string(" A record of %s was cut short and dropped.", cut)
    return F.format_string(
        "the journal had not been closed in order: its last record is number %s,"
        " and what came after it is lost.%s",
        "data.last_seq",
        or_nothing(F.when(F.col("data.torn_bytes") > 0, torn)),
    )


def _lost() -> Column:
    lost = F.format_string(
        "%s %s lost since %s: ",
        "data.count",
        F.when(F.col("data.count") == 1, "record was").otherwise("records were"),
        to_second(F.timestamp_millis(F.col("data.since_ms"))),
    )
    flooded = F.coalesce(F.col("data.flooded"), F.lit(0))
    many = F.when(flooded == F.col("data.count"), "all").otherwise(
        F.format_string("%s of them", flooded)
    )
    sent = F.concat(many, F.lit(" came from peers that changed more than a journal takes of them."))
    return F.concat(
        lost, F.when(flooded == 0, "the disk did not take them in time.").otherwise(sent)
    )


def _restated() -> Column:
    facts = F.transform("data.members", lambda fact: member(fact["broker_id"], fact["addr"]))
    topics = F.aggregate(
        "data.queues", F.lit(0), lambda total, each: total + F.size(each["topics"])
    )
    told = F.format_string(
        "%s of cluster %s as it stood after records were lost: %s, %s.",
        "broker",
        "cluster",
        listed(facts),
        counted(topics, "topic"),
    )
    return F.when(~F.coalesce(F.col("data.continued"), F.lit(False)), told)


def _guard_engaged() -> Column:
    names = F.array_distinct(F.transform("data.suspects", lambda suspect: suspect["broker"]))
    return F.format_string(
        "guard: %s of %s fell silent within %s, more than the %s that may be let go;"
        " believed for %s more although their time is up: %s.",
        "data.silent",
        counted(F.col("data.live"), "broker"),
        span(F.col("data.window_ms")),
        "data.limit",
        span(F.col("data.hold_ms")),
        listed(names),
    )


_SENTENCES: dict[str, Callable[[], Column]] = {
    "BrokerRegistered": _registered,
    "BrokerUpdated": _updated,
    "BrokerLeft": _left,
    "BrokerConfirmed": _confirmed,
    "HeartbeatGaps": _heartbeats,
    "BrokerConflict": _conflict,
    "RequestRefused": _refused,
    "MinBrokerChanged": _min_broker,
    "TopicsChanged": _topics,
    "MappingsChanged": _mappings,
    "NodeStarted": _started,
    "NodeStopped": _stopped,
    "NodeStalled": _stalled,
    "JournalRecovered": _recovered,
    "RecordsLost": _lost,
    "GroupRestated": _restated,
    "GuardEngaged": _guard_engaged,
}
