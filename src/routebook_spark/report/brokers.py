"""The sections about brokers."""

from collections.abc import Sequence

from routebook.words import listed
from routebook_spark.report import plots, words
from routebook_spark.report.facts import (
    Availability,
    BrokerTime,
    Flap,
    HeartbeatHealth,
    Heartbeats,
    Incident,
    Incidents,
    Outage,
    Period,
)
from routebook_spark.report.figures import about, counted, named, told
from routebook_spark.report.html import Column, Html, element, joined, table
from routebook_spark.report.parts import Section, empty, figure, lead

SHOWN = 12  # outages of an incident

# -- availability


def availability(facts: Availability, period: Period, *, place: str = "") -> Section:
    title = "Availability"
    total = facts.total
    if not facts.brokers:
        return Section("availability", title, empty("No broker was seen in this time."))
    shown = [_summary(facts)]
    if any(step.down_s or step.suspect_s or step.unknown_s for step in facts.spent):
        shown.append(figure(plots.down_time(facts.spent, period, place=place)))
    if facts.worst:
        shown.append(figure(plots.budgets(facts.worst, place=place)))
        shown.append(_by_time_down(facts.worst))
    elif total.known_s:
        shown.append(empty("No broker was down in the time in which it is known."))
    else:
        shown.append(empty("Nothing is known of any broker in this time."))
    return Section("availability", title, joined(shown))


def _summary(facts: Availability) -> Html:
    total = facts.total
    return lead(
        counted("brokers", facts.brokers, "broker"),
        f" {'was' if facts.brokers == 1 else 'were'} there for ",
        told("availability", total.availability, "percent"),
        " of the time in which it is known; the target is ",
        told("slo", facts.slo, "percent"),
        ", which leaves ",
        told("budget_s", total.budget_s, "span"),
        " of ",
        told("known_s", total.known_s, "span"),
        " for being down. Down were ",
        told("down_s", total.down_s, "span"),
        ". Brokers that said goodbye are not down (",
        told("planned_s", total.planned_s, "span"),
        "). Of ",
        told("unknown_s", total.unknown_s, "span"),
        " nobody knows: no node that could tell was awake. That is neither up nor down.",
    )


def _by_time_down(worst: Sequence[BrokerTime]) -> Html:
    return table(
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
                told(about("availability", *each[:3]), each.availability, "percent"),
                told(about("down_s", *each[:3]), each.down_s, "span"),
                told(about("suspect_s", *each[:3]), each.suspect_s, "span"),
                told(about("unknown_s", *each[:3]), each.unknown_s, "span"),
                told(about("failures", *each[:3]), each.failures),
                told(about("repair_s", *each[:3]), _repair_s(each), "span"),
                told(about("budget_left_s", *each[:3]), each.budget_s - each.down_s, "span"),
            )
            for each in worst
        ),
    )


def _repair_s(each: BrokerTime) -> float | None:
    return each.down_s / each.repairs if each.repairs else None


# -- incidents


def incidents(facts: Incidents, period: Period, *, place: str = "") -> Section:
    title = "Worst incidents"
    if not facts.worst:
        text = "No broker was down: none went without a goodbye and was missing on every node."
        return Section("incidents", title, empty(text))
    shown = [
        _incident(incident, number, period=period, place=place)
        for number, incident in enumerate(facts.worst, start=1)
    ]
    return Section("incidents", title, joined(_intro(facts), shown))


def _intro(facts: Incidents) -> Html:
    earlier = (
        joined(" (", told("ongoing", facts.ongoing), " of them began before this time)")
        if facts.ongoing
        else Html("")
    )
    most = (
        joined(" The ", told("incidents_shown", len(facts.worst)), " with the most time down:")
        if facts.total > 1
        else Html("")
    )
    return lead(
        counted("outages", facts.outages, "outage"),
        earlier,
        " in ",
        counted("incidents", facts.total, "incident"),
        ". An outage is one time in which no node that was awake listed a broker that had not said"
        " goodbye. Brokers of a cluster that went within a minute, and were away at the same time,"
        " are one incident. A broker that only some nodes let go is not down: it is among what"
        " nodes disagreed about.",
        most,
    )


def _incident(incident: Incident, number: int, *, period: Period, place: str) -> Html:
    shown = incident.outages[:SHOWN]
    heads = [
        "broker",
        Column("went"),
        Column("back"),
        Column("down"),
        Column("unknown"),
        Column("nodes that let it go"),
        "cause",
        Column("topics"),
        Column("clients exposed"),
    ]
    return element(
        "article",
        element("h3", told(about("incident", number), number), ". ", _headline(incident, number)),
        element("p", _story(incident, number, period=period)),
        figure(plots.timeline(incident, shown, number, period.to_at, place=place)),
        table("The brokers that were down longest", heads, (_row(each, number) for each in shown)),
        class_="incident" if incident.ended_at is None else "incident over",
    )


def _row(each: Outage, number: int) -> tuple[str, ...]:
    def named_so(what: str) -> str:
        return about(what, *each[:3], each.left_at.isoformat())

    return (
        words.member(each.broker, each.broker_id),
        told(named_so("went_at"), each.left_at, "instant"),
        told(named_so("back_at"), each.back_at, "instant"),
        told(named_so("outage_s"), each.down_s, "span"),
        told(named_so("outage_unknown_s"), each.unknown_s, "span"),
        joined(told(named_so("nodes"), each.nodes), " of ", told(named_so("awake"), each.awake)),
        words.why_left(each.cause),
        told(named_so("topics"), each.topics),
        told(named_so("exposure_s"), each.exposure_s, "span"),
    )


def _headline(incident: Incident, number: int) -> Html:
    first = incident.outages[0]
    what = (
        named(words.shortened(words.member(first.broker, first.broker_id)))
        if len(incident.outages) == 1
        else counted(about("incident_brokers", number), len(incident.outages), "broker")
    )
    return joined(
        what,
        " of ",
        named(words.shortened(incident.cluster)),
        ", ",
        told(about("incident_from", number), incident.started_at, "minute"),
    )


def _story(incident: Incident, number: int, *, period: Period) -> Html:
    return joined(
        *_who_went(incident, number),
        " ",
        *_how_long(incident, number),
        *(_unknown(incident, number)),
        " ",
        *_felt(incident.outages),
    )


def _who_went(incident: Incident, number: int) -> Sequence[str]:
    first, last = incident.started_at, incident.last_left_at
    began = told(about("incident_from", number), first, "clock")
    if len(incident.outages) == 1:
        outage = incident.outages[0]
        key = (*outage[:3], outage.left_at.isoformat())
        seen = (
            (
                ", from ",
                told(about("nodes", *key), outage.nodes),
                " of ",
                told(about("awake", *key), outage.awake),
                " nodes that were awake: ",
                words.why_left(outage.cause),
                ".",
            )
            if outage.nodes
            else (f": {words.why_left(None)}.",)
        )
        return ("The broker went at ", began, *seen)
    when = (
        ("at ", began)
        if words.clock(first) == words.clock(last)
        else ("from ", began, " to ", told(about("incident_last", number), last, "clock"))
    )
    causes = sorted({words.why_left(each.cause) for each in incident.outages})
    brokers = counted(about("incident_brokers", number), len(incident.outages), "broker")
    return (brokers, " went ", *when, f": {listed(causes)}.")


def _how_long(incident: Incident, number: int) -> Sequence[str]:
    longest = incident.outages[0]
    key = (*longest[:3], longest.left_at.isoformat())
    down = told(about("outage_s", *key), longest.down_s, "span")
    if len(incident.outages) == 1:
        over = "It was down for " if longest.back_at else "It is still away, down for "
        return (over, down, ".")
    still = sum(each.back_at is None for each in incident.outages)
    away = (
        (" ", told(about("incident_away", number), still), " of them still away.")
        if still
        else (" All are back.",)
    )
    return (
        "Down were ",
        told(about("incident_down_s", number), incident.down_s, "span"),
        " of all together, ",
        named(words.shortened(words.member(longest.broker, longest.broker_id))),
        " longest, ",
        down,
        ".",
        *away,
    )


def _unknown(incident: Incident, number: int) -> Sequence[str]:
    unknown_s = sum(each.unknown_s for each in incident.outages)
    if not unknown_s:
        return ()
    return (
        " In between, ",
        told(about("incident_unknown_s", number), unknown_s, "span"),
        " are unknown and not counted.",
    )


def _felt(outages: Sequence[Outage]) -> Sequence[str]:
    exposed = [each for each in outages if each.exposure_s]
    if not exposed:
        return ("Nothing is known of what clients felt.",)
    worst = max(exposed, key=lambda each: (each.exposure_s or 0, each.broker))
    key = (*worst[:3], worst.left_at.isoformat())
    until = (
        (", until ", told(about("exposed_until", *key), worst.exposed_until, "clock"))
        if worst.exposed_until is not None
        else ()
    )
    return (
        "Clients that ask every 30 s could still be sent to a dead broker for up to ",
        told(about("exposure_s", *key), worst.exposure_s, "span"),
        *until,
        ".",
    )


# -- flaps


def flaps(
    flapping: Sequence[Flap], heartbeats: HeartbeatHealth, period: Period, *, place: str = ""
) -> Section:
    shown: list[Html] = [
        lead(
            "Each time a broker comes or goes on a node costs it 1000 points, which halve every 15"
            " minutes. Above 2000 it counts as flapping, until it is below 750. Only nodes that"
            " were awake and listed the broker are heard about who is to blame.",
            *_whole_hours(period),
        )
    ]
    if flapping:
        shown.append(figure(plots.flapping(flapping, place=place)))
        shown.append(_by_penalty(flapping))
    else:
        shown.append(empty("No broker came and went."))
    shown.append(element("h3", "Heartbeats that were late, or nearly so"))
    if heartbeats.late:
        shown.append(_late(heartbeats.late))
    elif heartbeats.heartbeats:
        shown.append(
            empty(
                "Every one of ",
                counted("heartbeats", heartbeats.heartbeats, "heartbeat"),
                " came in good time.",
            )
        )
    else:
        shown.append(empty("Nothing is known of heartbeats in this time."))
    return Section("flaps", "Who flaps", joined(shown))


def _whole_hours(period: Period) -> Sequence[str]:
    """Said where it makes a difference."""
    hour = period.from_at.replace(minute=0, second=0, microsecond=0)
    if hour == period.from_at:
        return ()
    return (
        " All of this is counted by whole hours, from ",
        told("hours_from", hour, "minute"),
        ".",
    )


def _by_penalty(flapping: Sequence[Flap]) -> Html:
    return table(
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
                told(about("transitions", *each[:3]), each.transitions),
                told(about("penalty", *each[:3]), each.peak_penalty),
                told(about("flapping_s", *each[:3]), each.suppressed_s, "span"),
                told(about("flap_nodes", *each[:3]), each.nodes),
                "not known" if each.culprit in (None, "unknown") else f"the {each.culprit}",
            )
            for each in flapping
        ),
    )


def _late(late: Sequence[Heartbeats]) -> Html:
    return table(
        "Brokers by how often a node gave them up for want of a heartbeat",
        [
            "broker",
            "cluster",
            Column("heartbeats"),
            Column("given up"),
            Column("too late"),
            Column("nearly late"),
            Column("longest gap"),
            Column("time-out"),
        ],
        (
            (
                words.member(each.broker, each.broker_id),
                each.cluster,
                told(about("heartbeats", *each[:3]), each.heartbeats),
                told(about("given_up", *each[:3]), each.given_up),
                told(about("over_timeout", *each[:3]), each.over_timeout),
                told(about("near_misses", *each[:3]), each.near_misses),
                told(about("gap_max_s", *each[:3]), _seconds(each.gap_max_ms), "span"),
                told(about("timeout_s", *each[:3]), _seconds(each.heartbeat_timeout_ms), "span"),
            )
            for each in late
        ),
    )


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
