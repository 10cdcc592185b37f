"""The sections about brokers."""

from collections.abc import Sequence

from routebook_spark.report import plots, words
from routebook_spark.report.facts import (
    Availability,
    Flap,
    Incident,
    Incidents,
    NearMiss,
    Outage,
    Period,
)
from routebook_spark.report.html import Column, Html, element, joined, table
from routebook_spark.report.parts import Section, empty, figure, lead

# -- availability


def availability(facts: Availability, period: Period) -> Section:
    title = "Availability"
    if not facts.brokers or facts.slo is None:
        return Section("availability", title, empty("No broker was seen in this time."))
    total = facts.total
    summary = lead(
        f"{words.counted(facts.brokers, 'broker')} were there for"
        f" {words.percent(total.availability)} of the time in which it is known;"
        f" the target is {words.percent(facts.slo)}, which leaves"
        f" {words.span(total.budget_s)} of {words.span(total.up_s + total.down_s)} for being down."
        f" Brokers that said goodbye are not down ({words.span(total.planned_s)});"
        f" {words.span(total.unknown_s)} are unknown."
    )
    shown = [summary]
    if any(step.down_s or step.suspect_s or step.unknown_s for step in facts.spent):
        shown.append(figure(plots.down_time(facts.spent, period.step)))
    if not facts.worst:
        shown.append(empty("No broker was down."))
        return Section("availability", title, joined(shown))
    shown.append(figure(plots.budgets(facts.worst)))
    shown.append(
        table(
            "Brokers by time down",
            [
                "broker",
                "cluster",
                Column("available"),
                Column("down"),
                Column("suspect"),
                Column("unknown"),
                Column("failures"),
                Column("time to repair"),
                Column("budget left"),
            ],
            (
                (
                    words.member(each.broker, each.broker_id),
                    each.cluster,
                    words.percent(each.availability),
                    words.span(each.down_s),
                    words.span(each.suspect_s),
                    words.span(each.unknown_s),
                    words.number(each.failures),
                    words.span(each.down_s / each.repairs if each.repairs else None),
                    words.span(each.budget_s - each.down_s),
                )
                for each in facts.worst
            ),
        )
    )
    return Section("availability", title, joined(shown))


# -- incidents


def incidents(facts: Incidents, period: Period, *, nodes: int) -> Section:
    title = "Worst incidents"
    if not facts.worst:
        text = "No broker went without a goodbye."
        return Section("incidents", title, empty(text))
    intro = lead(
        f"{words.counted(facts.total, 'incident')}: brokers that went without a goodbye, on any"
        f" node, at most two minutes apart. The {len(facts.worst)} with the most time away:"
        if facts.total > 1
        else "Brokers that went without a goodbye, on any node, at most two minutes apart."
    )
    shown = [
        _incident(incident, number, nodes=nodes, period=period)
        for number, incident in enumerate(facts.worst, start=1)
    ]
    return Section("incidents", title, joined(intro, shown))


def _incident(incident: Incident, number: int, *, nodes: int, period: Period) -> Html:
    rows = (
        (
            words.member(each.broker, each.broker_id),
            words.instant(each.left_at),
            words.instant(each.back_at),
            words.span(((each.back_at or period.to_at) - each.left_at).total_seconds()),
            f"{each.nodes} of {nodes}",
            words.why_left(each.cause),
            words.number(each.topics),
            words.span(each.exposure_s),
        )
        for each in incident.outages
    )
    heads = [
        "broker",
        "went",
        "back",
        Column("away"),
        Column("nodes"),
        "cause",
        Column("topics"),
        Column("clients exposed"),
    ]
    return element(
        "article",
        element("h3", f"{number}. {_headline(incident)}"),
        element("p", _story(incident, nodes=nodes, period=period)),
        figure(plots.timeline(incident, number, period.to_at)),
        table("The brokers that were away longest", heads, rows),
        class_="incident" if incident.ended_at is None else "incident over",
    )


def _headline(incident: Incident) -> str:
    what = (
        words.member(incident.outages[0].broker, incident.outages[0].broker_id)
        if incident.brokers == 1
        else words.counted(incident.brokers, "broker")
    )
    where = words.shortened(incident.cluster)
    return f"{words.shortened(what)} of {where}, {words.minute(incident.started_at)}"


def _story(incident: Incident, *, nodes: int, period: Period) -> str:
    one = incident.brokers == 1
    longest = incident.outages[0]
    who = "The broker" if one else f"{words.number(incident.brokers)} brokers"
    told = [
        f"{who} went at {words.clock(incident.started_at)}, from {incident.nodes} of"
        f" {words.counted(nodes, 'node')}: {words.why_left(incident.cause)}."
    ]
    if incident.ended_at is None:
        told.append(
            f"{'It is' if one else 'Some are'} still away, after"
            f" {words.span((period.to_at - incident.started_at).total_seconds())}."
        )
    else:
        lasted = (incident.ended_at - incident.started_at).total_seconds()
        told.append(
            f"{'It was' if one else 'The last was'} back after {words.span(lasted)}"
            + ("." if one else f", {words.span(incident.away_s)} of all together.")
        )
    if not one and longest.back_at is not None:
        away = (longest.back_at - longest.left_at).total_seconds()
        name = words.shortened(words.member(longest.broker, longest.broker_id))
        told.append(f"{name} was away longest, {words.span(away)}.")
    return " ".join([*told, _felt(incident.outages)])


def _felt(outages: Sequence[Outage]) -> str:
    exposed = [each for each in outages if each.exposure_s]
    if not exposed:
        return "Nothing is known of what clients felt."
    worst = max(exposed, key=lambda each: (each.exposure_s or 0, each.broker))
    until = "" if worst.exposed_until is None else f", until {words.clock(worst.exposed_until)}"
    return (
        "Clients that ask every 30 s could still be sent to a dead broker for up to"
        f" {words.span(worst.exposure_s)}{until}."
    )


# -- flaps


def flaps(flapping: Sequence[Flap], near_misses: Sequence[NearMiss]) -> Section:
    shown: list[Html] = [
        lead(
            "Each time a broker comes or goes on a node costs it 1000 points, which halve every 15"
            " minutes. Above 2000 it counts as flapping, until it is below 750."
        )
    ]
    if flapping:
        shown.append(figure(plots.flapping(flapping)))
        shown.append(
            table(
                "Brokers by penalty",
                [
                    "broker",
                    "cluster",
                    Column("came and went"),
                    Column("penalty"),
                    Column("flapping for"),
                    Column("nodes"),
                    "blamed",
                ],
                (
                    (
                        words.member(each.broker, each.broker_id),
                        each.cluster,
                        words.number(each.transitions),
                        words.number(each.peak_penalty),
                        words.span(each.suppressed_s),
                        words.number(each.nodes),
                        f"the {each.culprit}",
                    )
                    for each in flapping
                ),
            )
        )
    else:
        shown.append(empty("No broker came and went."))
    shown.append(element("h3", "Heartbeats that were nearly too late"))
    if near_misses:
        shown.append(_near_misses(near_misses))
    else:
        shown.append(empty("Every heartbeat came in good time."))
    return Section("flaps", "Who flaps", joined(shown))


def _near_misses(near_misses: Sequence[NearMiss]) -> Html:
    return table(
        "Brokers by heartbeats that came shortly before their time was up",
        [
            "broker",
            "cluster",
            Column("heartbeats"),
            Column("nearly late"),
            Column("too late"),
            Column("longest gap"),
            Column("time-out"),
        ],
        (
            (
                words.member(each.broker, each.broker_id),
                each.cluster,
                words.number(each.heartbeats),
                words.number(each.near_misses),
                words.number(each.over_timeout),
                words.span(each.gap_max_ms / 1000),
                words.span(each.heartbeat_timeout_ms / 1000),
            )
            for each in near_misses
        ),
    )
