"""The sections about nodes: how much they know, and whether they agree."""

from routebook_spark.report import plots, words
from routebook_spark.report.facts import (
    Convergence,
    Disagreement,
    Divergence,
    NodeQuality,
    Period,
    Quality,
)
from routebook_spark.report.figures import about, counted, named, told
from routebook_spark.report.html import Column, Html, element, joined, table
from routebook_spark.report.parts import Section, empty, figure, lead

_KINDS = {
    "broker_joined": "a broker came",
    "broker_left": "a broker went",
    "topic_changed": "a topic changed",
}
_ENDINGS = {
    "converged": "one followed the other",
    "both_changed": "both changed",
    "widened": "grew",
    "unknown": "nobody knows",
    "open": "not yet",
}


# -- data quality


def quality(facts: Quality, period: Period) -> Section:
    if not facts.nodes:
        body = empty("No node of this fleet was a witness at any moment of this time.")
        return Section("quality", "Data quality", body)
    nodes = table(
        "What the journal of each node tells",
        [
            "node",
            Column("known"),
            Column("unknown"),
            Column("stops"),
            Column("kills"),
            Column("stalls"),
            Column("losses"),
            Column("missing records"),
            Column("clock ahead"),
        ],
        (
            (
                node.node,
                told(about("known", node.node), node.known_s / period.seconds, "percent"),
                told(about("node_unknown_s", node.node), node.unknown_s, "span"),
                told(about("stops", node.node), node.stops),
                told(about("kills", node.node), node.kills),
                told(about("stalls", node.node), node.stalls),
                told(about("losses", node.node), node.losses),
                told(about("missing", node.node), node.missing),
                _clock(node),
            )
            for node in facts.nodes
        ),
    )
    if facts.quarantined:
        bad = table(
            "Records set aside, of all time",
            ["reason", Column("records")],
            (
                (each.reason, told(about("set_aside", each.reason), each.records))
                for each in facts.quarantined
            ),
        )
    else:
        bad = empty("No record had to be set aside: all that was read could be understood.")
    body = joined(
        lead(
            "A node that slept, was down or lost its records knows nothing of that time: it is"
            " unknown, and is counted neither as up nor as down. Clocks are compared by what"
            " several nodes saw; where that is too little, nothing is said."
        ),
        nodes,
        bad,
    )
    return Section("quality", "Data quality", body)


def _clock(node: NodeQuality) -> Html:
    if node.offset_ms is None or node.uncertainty_ms is None:
        return joined(element("span", "not known"))
    return joined(
        told(about("offset_ms", node.node), node.offset_ms),
        " ± ",
        told(about("uncertainty_ms", node.node), node.uncertainty_ms),
        " ms, assumed" if node.clock_assumed else " ms",
    )


def witnesses(facts: Quality, period: Period, *, place: str = "") -> Section:
    """When nodes were none, and why."""
    title = "When nodes were no witnesses"
    if not facts.nodes:
        return Section("witnesses", title, empty("No node was one at any moment of this time."))
    if not facts.unwitnessed:
        return Section("witnesses", title, empty("Every node was awake all the time."))
    names = [node.node for node in facts.nodes]
    body = joined(
        lead(
            counted("times_unwitnessed", facts.times_unwitnessed, "time"),
            " in which a node says nothing about brokers, neither good nor bad, by its own clock.",
            " The longest:" if facts.times_unwitnessed > len(facts.unwitnessed) else "",
        ),
        figure(plots.witnesses(facts.covers, names, period, place=place)),
        table(
            "Unknown time",
            ["node", Column("from"), Column("to"), Column("lasted"), "why"],
            (
                (
                    each.node,
                    told(about("unwitnessed_from", n), each.from_at, "instant"),
                    told(about("unwitnessed_to", n), each.to_at, "instant"),
                    told(about("unwitnessed_s", n), each.lasted_s, "span"),
                    words.why_unknown(each.why),
                )
                for n, each in enumerate(facts.unwitnessed)
            ),
        ),
    )
    return Section("witnesses", title, body)


# -- agreement


def convergence(facts: Convergence, *, place: str = "") -> Section:
    title = "How fast nodes agree"
    if not facts.lags:
        return Section(
            "convergence", title, empty("No change was seen by several nodes in this time.")
        )
    unmeasured = sum(lag.unmeasured for lag in facts.lags)
    doubt = (
        (
            " Of ",
            counted("changes_unmeasured", unmeasured, "change"),
            " that all of them showed it cannot be said how fast: their clocks cannot be compared.",
        )
        if unmeasured
        else ()
    )
    shown = [
        lead(
            "A change reaches every node by itself. This is the time from the first node that"
            " showed it to the last, against the targets of 1 s and 30 s. A change that a node"
            " that was awake did not show within ten minutes was not in time.",
            *doubt,
        )
    ]
    if facts.buckets:
        shown.append(figure(plots.lags(facts.buckets, place=place)))
    shown.append(
        table(
            "Time to agree",
            [
                "change",
                Column("changes"),
                Column("not on all nodes"),
                Column("within 1 s"),
                Column("within 30 s"),
                Column("median"),
                Column("95 %"),
                Column("99 %"),
                Column("longest"),
            ],
            (
                (
                    _KINDS.get(lag.kind, lag.kind),
                    told(about("changes", lag.kind), lag.changes),
                    told(about("incomplete", lag.kind), lag.incomplete),
                    told(
                        about("within_1s", lag.kind), _share(lag.within_1s, lag.judged), "percent"
                    ),
                    told(
                        about("within_30s", lag.kind), _share(lag.within_30s, lag.judged), "percent"
                    ),
                    told(about("p50_s", lag.kind), _seconds(lag.p50_ms), "span"),
                    told(about("p95_s", lag.kind), _seconds(lag.p95_ms), "span"),
                    told(about("p99_s", lag.kind), _seconds(lag.p99_ms), "span"),
                    told(about("max_s", lag.kind), _seconds(lag.max_ms), "span"),
                )
                for lag in facts.lags
            ),
        )
    )
    return Section("convergence", title, joined(shown))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def divergence(facts: Divergence, *, nodes: int) -> Section:
    title = "Where nodes disagreed"
    if nodes < 2:
        return Section("divergence", title, empty("There is no second node to compare with."))
    if not facts.longest:
        text = "Nodes that were awake, and can be compared, told clients the same all the time."
        return Section("divergence", title, empty(text))
    ways: list[str] = []
    for name, times in facts.endings.items():
        ways += [
            ", " if ways else "",
            f"{_ENDINGS.get(name, name)} (",
            told(about("ended", name), times),
            ")",
        ]
    body = joined(
        lead(
            counted("disagreements", sum(facts.endings.values()), "time"),
            " two nodes told clients something else, for longer than their clocks leave in doubt."
            " How it ended: ",
            *ways,
            ".",
        ),
        table(
            "The longest",
            [
                "about",
                "nodes",
                Column("from"),
                Column("lasted"),
                "ended",
                "the first said",
                "the second said",
            ],
            (
                (
                    _about(each, n),
                    f"{each.node_a}, {each.node_b}",
                    told(about("disagreed_from", n), each.from_at, "instant"),
                    told(about("disagreed_s", n), each.lasted_s, "span"),
                    _ENDINGS.get(each.ending, each.ending),
                    words.view(each.view_a, of_topic=each.topics > 0),
                    words.view(each.view_b, of_topic=each.topics > 0),
                )
                for n, each in enumerate(facts.longest)
            ),
        ),
    )
    return Section("divergence", title, body)


def _about(each: Disagreement, n: int) -> str:
    if not each.topics:
        return each.broker
    if each.topics == 1:
        return f"{each.topic} on {each.broker}"
    topics = told(about("disagreed_topics", n), each.topics)
    return joined(topics, " topics on ", named(each.broker))
