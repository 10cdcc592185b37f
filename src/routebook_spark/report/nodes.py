"""The sections about nodes: how much they know, and whether they agree."""

from routebook_spark.report import plots, words
from routebook_spark.report.facts import Convergence, Disagreement, Divergence, Period, Quality
from routebook_spark.report.html import Column, joined, table
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
    nodes = table(
        "What the journal of each node tells",
        [
            "node",
            Column("known"),
            Column("unknown"),
            Column("stops"),
            Column("kills"),
            Column("losses"),
            Column("missing records"),
            Column("clock ahead"),
        ],
        (
            (
                node.node,
                words.percent(min(node.known_s / period.seconds, 1)),
                words.span(max(period.seconds - node.known_s, 0)),
                words.number(node.stops),
                words.number(node.kills),
                words.number(node.losses),
                words.number(node.missing),
                _clock(node.offset_ms, node.uncertainty_ms),
            )
            for node in facts.nodes
        ),
    )
    if facts.quarantined:
        bad = table(
            "Records set aside, of all time",
            ["reason", Column("records")],
            ((each.reason, words.number(each.records)) for each in facts.quarantined),
        )
    else:
        bad = empty("No record had to be set aside: all that was read could be understood.")
    body = joined(
        lead(
            "A node that is down, or whose records are missing, knows nothing: such time is"
            " unknown, and is counted neither as up nor as down. Clocks are compared with that of"
            " the first node."
        ),
        nodes,
        bad,
    )
    return Section("quality", "Data quality", body)


def _clock(offset_ms: int | None, uncertainty_ms: int | None) -> str:
    if offset_ms is None or uncertainty_ms is None:
        return words.NOTHING
    return f"{words.number(offset_ms)} ± {words.number(uncertainty_ms)} ms"


# -- agreement


def convergence(facts: Convergence) -> Section:
    title = "How fast nodes agree"
    if not facts.lags:
        return Section(
            "convergence", title, empty("No change was seen by several nodes in this time.")
        )
    body = joined(
        lead(
            "A change reaches every node by itself. This is the time from the first node that"
            " showed it to the last, against the targets of 1 s and 30 s."
        ),
        figure(plots.lags(facts.buckets)),
        table(
            "Time to agree",
            [
                "change",
                Column("changes"),
                Column("median"),
                Column("95 %"),
                Column("99 %"),
                Column("longest"),
                Column("within 1 s"),
                Column("within 30 s"),
                Column("not on all nodes"),
            ],
            (
                (
                    _KINDS.get(lag.kind, lag.kind),
                    words.number(lag.changes),
                    words.span(lag.p50_ms / 1000),
                    words.span(lag.p95_ms / 1000),
                    words.span(lag.p99_ms / 1000),
                    words.span(lag.max_ms / 1000),
                    words.percent(lag.within_1s / lag.changes),
                    words.percent(lag.within_30s / lag.changes),
                    words.number(lag.incomplete),
                )
                for lag in facts.lags
            ),
        ),
    )
    return Section("convergence", title, body)


def divergence(facts: Divergence) -> Section:
    title = "Where nodes disagreed"
    if not facts.longest:
        return Section("divergence", title, empty("Nodes told clients the same all the time."))
    count = sum(facts.endings.values())
    ways = words.listed(
        [f"{_ENDINGS.get(name, name)} ({words.number(n)})" for name, n in facts.endings.items()],
        most=6,
    )
    body = joined(
        lead(
            f"{words.counted(count, 'time')} two nodes told clients something else, for longer than"
            f" their clocks leave in doubt. How it ended: {ways}."
        ),
        table(
            "The longest",
            ["about", "nodes", "from", Column("lasted"), "ended", "one said", "the other said"],
            (
                (
                    _about(each),
                    f"{each.node_a}, {each.node_b}",
                    words.instant(each.from_at),
                    words.span(each.lasted_s),
                    _ENDINGS.get(each.ending, each.ending),
                    each.view_a or words.NOTHING,
                    each.view_b or words.NOTHING,
                )
                for each in facts.longest
            ),
        ),
    )
    return Section("divergence", title, body)


def _about(each: Disagreement) -> str:
    if not each.topics:
        return each.broker
    if each.topics == 1:
        return f"{each.topic} on {each.broker}"
    return f"{words.number(each.topics)} topics on {each.broker}"
