"""The plots of a report. ``place`` makes their names those of one part of the page."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from routebook_spark.gold.flaps import SUPPRESS
from routebook_spark.report import words
from routebook_spark.report.facts import (
    BrokerTime,
    Cover,
    Demand,
    Flap,
    Incident,
    LagBucket,
    Outage,
    Outlook,
    Period,
    Spent,
    instant,
)
from routebook_spark.report.figures import about, named, told
from routebook_spark.report.svg import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    QUIET,
    SECOND,
    WARN,
    Drawing,
    Note,
    Plot,
    bars_over_time,
    days,
    is_narrow,
    legend,
    limit,
    name_rows,
    over,
    rows,
)

MOST_BUDGETS = 5.0
NARROWEST = 2000  # gaps that could be drawn beside each other
SCALES = ((60.0, "seconds"), (3600.0, "minutes"), (float("inf"), "hours"))

# -- brokers


def down_time(spent: Sequence[Spent], period: Period, *, place: str = "") -> Plot:
    kinds = (
        ("down", "down_s", BAD),
        ("suspect", "suspect_s", WARN),
        ("unknown", "unknown_s", QUIET),
    )
    highest = max(each.down_s + each.suspect_s + each.unknown_s for each in spent)
    unit = next(name for limit_s, name in SCALES if highest < 3 * limit_s)
    unit_s = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
    drawing = Drawing(f"{place}down-time", 2.3)
    for axes in drawing:
        bottoms = [0.0] * len(spent)
        for label, field, colour in kinds:
            heights = [getattr(each, field) / unit_s for each in spent]
            instants = [each.at for each in spent]
            bars_over_time(axes, instants, heights, period.step_s, colour, label, bottoms)
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        over(axes, period.from_at, period.to_at)
        axes.set_ylabel(f"{unit} of all brokers")
        legend(axes)
    worst = max(spent, key=lambda each: each.down_s)
    most = (
        (
            " Most time down: ",
            told("most_down_s", worst.down_s, "span"),
            " from ",
            told("most_down_at", worst.at, "instant"),
            ".",
        )
        if worst.down_s
        else ()
    )
    return drawing.plot(
        "Time brokers were not there",
        f"{unit.capitalize()} of all brokers together in each {words.step(period.step_s)}.",
        *most,
    )


def budgets(worst: Sequence[BrokerTime], *, place: str = "") -> Plot:
    names = [words.member(each.broker, each.broker_id) for each in worst]
    used = [each.down_s / each.budget_s if each.budget_s else 0.0 for each in worst]
    shown = [min(share, MOST_BUDGETS) for share in used]
    notes = [
        Note(about("budget_used", *each[:3]), share, "percent")
        for each, share in zip(worst, used, strict=True)
    ]
    drawing = Drawing(f"{place}budgets", 0.8 + 0.24 * len(worst))
    for axes in drawing:
        colours = [BAD if share > 1 else WARN if share > 0.5 else GOOD for share in used]
        rows(axes, names, shown, colours, notes)
        limit(axes, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_xlabel(
            "of the error budget used; the line is all of it, bars end at five times it"
        )
    return drawing.plot(
        "Error budgets",
        "Of ",
        told("brokers_in_budgets", len(worst)),
        " brokers with time down, ",
        told("brokers_over_budget", sum(s > 1 for s in used)),
        " used more than the budget of the period.",
    )


def timeline(
    incident: Incident, shown: Sequence[Outage], number: int, end: datetime, *, place: str = ""
) -> Plot:
    """Who was away from when to when, and how long clients could be sent there all the same."""
    drawing = Drawing(f"{place}incident-{number}", 0.85 + 0.26 * len(shown))
    begins = min((each.last_alive_at or each.left_at) for each in shown)
    ends = max(max(each.back_at or end, each.exposed_until or begins) for each in shown)
    margin = max((ends - begins) * 0.03, timedelta(milliseconds=10))
    for axes in drawing:
        for row, outage in enumerate(shown):
            last_alive = outage.last_alive_at or outage.left_at
            _bar(axes, row, last_alive, outage.left_at, WARN)
            _bar(axes, row, outage.left_at, outage.back_at or end, BAD)
            for since, until in outage.unknown:
                _bar(axes, row, instant(since), instant(until), QUIET)
            if outage.exposed_until is not None:
                _bar(axes, row, last_alive, outage.exposed_until, INK, height=0.14)
        name_rows(axes, [words.member(each.broker, each.broker_id) for each in shown])
        kinds = {"dead, still listed": WARN, "down": BAD, "clients may still use it": INK}
        if any(each.unknown for each in shown):
            kinds["unknown"] = QUIET
        for label, colour in kinds.items():
            axes.barh(0, 0, left=days(begins), color=colour, label=label)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        over(axes, begins - margin, ends + margin)
        legend(axes)
    return drawing.plot(
        "Timeline",
        "From ",
        told(about("incident_from", number), incident.started_at, "instant"),
        "; each broker with its own times.",
    )


def _bar(
    axes: Axes, row: int, since: datetime, until: datetime, colour: str, *, height: float = 0.55
) -> None:
    axes.barh(row, days(until) - days(since), left=days(since), height=height, color=colour)


def flapping(flaps: Sequence[Flap], *, place: str = "") -> Plot:
    names = [words.member(each.broker, each.broker_id) for each in flaps]
    blame = {"broker": BAD, "node": ACCENT, "network": SECOND}
    notes = [Note(about("transitions", *each[:3]), each.transitions, "number") for each in flaps]
    drawing = Drawing(f"{place}flapping", 0.8 + 0.24 * len(flaps))
    for axes in drawing:
        rows(
            axes,
            names,
            [each.peak_penalty for each in flaps],
            [blame.get(each.culprit or "", QUIET) for each in flaps],
            notes,
        )
        axes.set_xlabel(
            "highest penalty, with how often it came and went; the line is where a broker counts"
            " as flapping"
        )
        limit(axes, SUPPRESS)
        for culprit in sorted({each.culprit or "unknown" for each in flaps}):
            axes.barh(0, 0, color=blame.get(culprit, QUIET), label=f"blamed: {culprit}")
        legend(axes)
    most = max(flaps, key=lambda each: each.transitions)
    return drawing.plot(
        "Who flaps",
        named(words.shortened(words.member(most.broker, most.broker_id))),
        " came and went most: ",
        told(about("transitions", *most[:3]), most.transitions),
        " times.",
    )


# -- nodes


def witnesses(
    covers: Sequence[Cover], nodes: Sequence[str], period: Period, *, place: str = ""
) -> Plot:
    """When each node was a witness."""
    drawing = Drawing(f"{place}witnesses", 0.8 + 0.24 * len(nodes))
    for axes in drawing:
        for row, node in enumerate(nodes):
            _bar(axes, row, period.from_at, period.to_at, QUIET)
            for since, until in _stretches(covers, node, period):
                _bar(axes, row, instant(since), instant(until), GOOD)
        name_rows(axes, nodes)
        for label, colour in (("known", GOOD), ("unknown", QUIET)):
            axes.barh(0, 0, left=days(period.from_at), color=colour, label=label)
        axes.grid(visible=False, axis="y")
        over(axes, period.from_at, period.to_at)
        legend(axes)
    return drawing.plot(
        "When nodes were witnesses", "What is not known is counted neither as up nor as down."
    )


def _stretches(covers: Sequence[Cover], node: str, period: Period) -> list[tuple[int, int]]:
    """What a node knew, without gaps that are too short to be drawn."""
    unseen_ms = (period.to_ms - period.from_ms) // NARROWEST
    drawn: list[tuple[int, int]] = []
    for cover in covers:
        since, until = max(cover.from_ms, period.from_ms), min(cover.to_ms + 1, period.to_ms)
        if cover.node != node or since >= until:
            continue
        if drawn and since - drawn[-1][1] <= unseen_ms:
            drawn[-1] = drawn[-1][0], max(drawn[-1][1], until)
        else:
            drawn.append((since, until))
    return drawn


def lags(buckets: Sequence[LagBucket], *, place: str = "") -> Plot:
    bounds = sorted({bucket.from_ms for bucket in buckets})
    highest = max(15, *(bound.bit_length() for bound in bounds))
    places = [0, *(2**power for power in range(highest))]
    colours = {"broker_joined": GOOD, "broker_left": BAD, "topic_changed": ACCENT}
    drawing = Drawing(f"{place}lags", 2.4)
    for axes in drawing:
        bottoms = [0.0] * len(places)
        for kind in sorted({bucket.kind for bucket in buckets}):
            counts = {bucket.from_ms: bucket.changes for bucket in buckets if bucket.kind == kind}
            heights = [counts.get(place_ms, 0) for place_ms in places]
            axes.bar(
                range(len(places)),
                heights,
                bottom=bottoms,
                width=0.86,
                color=colours.get(kind, QUIET),
                label=kind.replace("_", " "),
            )
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        for target_ms, label in ((1000, "1 s"), (30_000, "30 s")):
            target = _place_of(target_ms)
            limit(axes, target)
            axes.annotate(
                label,
                (target, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -8),
                textcoords="offset points",
            )
        ticks = range(1, len(places), 4 if is_narrow(axes) else 2)
        axes.set_xticks(
            [tick - 0.5 for tick in ticks], [words.span(places[t] / 1000) for t in ticks]
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.set_xlabel("from the first node that showed a change to the last")
        axes.set_ylabel("changes")
        legend(axes)
    total = sum(bucket.changes for bucket in buckets)
    return drawing.plot(
        "How long nodes took to agree",
        told("changes_measured", total),
        " changes by the time they took.",
    )


def _place_of(ms: int) -> float:
    """Where a time is among bars that stand for times twice as long each."""
    power = ms.bit_length() - 1
    return power + 0.5 + (ms / (1 << power) - 1)


# -- topics


def skews(buckets: Sequence[tuple[float, int]], *, place: str = "") -> Plot:
    bounds = [bound for bound, _ in buckets]
    labels = [f"{low:g} to {high:g}" for low, high in pairwise(bounds)]
    labels.append(f"{bounds[-1]:g} and more")
    counts = [count for _, count in buckets]
    notes = [Note(about("topics_skewed", bound), count, "number") for bound, count in buckets]
    drawing = Drawing(f"{place}skews", 0.8 + 0.26 * len(buckets))
    for axes in drawing:
        colours = [GOOD if b < 1.2 else WARN if b < 2 else BAD for b in bounds]
        rows(axes, labels, counts, colours, notes)
        axes.set_xlabel("topics")
        axes.set_ylabel("skew")
    return drawing.plot(
        "How evenly queues are spread",
        told("topics_on_several", sum(counts)),
        " topics on several brokers, by their largest share of write queues in means; 1 is even.",
    )


def asked(facts: Demand, period: Period, *, place: str = "") -> Plot:
    kinds = (
        ("answered", "known", ACCENT),
        ("not known", "unknown", BAD),
        ("node not ready", "not_ready", WARN),
    )
    step = timedelta(seconds=facts.step_s)
    drawing = Drawing(f"{place}asked", 2.3)
    for axes in drawing:
        bottoms = [0.0] * len(facts.asked)
        for label, field, colour in kinds:
            heights = [float(getattr(each, field)) for each in facts.asked]
            instants = [each.at for each in facts.asked]
            bars_over_time(axes, instants, heights, facts.step_s, colour, label, bottoms)
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        first, last = facts.asked[0].at, facts.asked[-1].at + step
        over(axes, min(first, period.from_at), max(last, period.to_at))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: words.number(count)))
        axes.set_ylabel("route queries")
        legend(axes)
    return drawing.plot(
        "Route queries",
        f"Queries of clients in each {words.step(facts.step_s)}, of all nodes; ",
        told("queries_unknown", facts.unknown),
        " were for topics nobody knew.",
    )


def sizes(outlook: Sequence[Outlook], *, place: str = "") -> Plot:
    names = [each.broker for each in outlook]
    shares = [each.registration_bytes / each.limit_bytes for each in outlook]
    notes = [
        Note(about("bytes", each.cluster, each.broker), each.registration_bytes, "size")
        for each in outlook
    ]
    drawing = Drawing(f"{place}sizes", 0.8 + 0.24 * len(outlook))
    for axes in drawing:
        colours = [BAD if share > 0.8 else WARN if share > 0.5 else ACCENT for share in shares]
        rows(axes, names, shares, colours, notes)
        axes.set_xlim(0, max(1.0, *shares) * 1.3)
        limit(axes, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_xlabel("of what fits in one registration; the line is all of it")
    largest = outlook[shares.index(max(shares))]
    return drawing.plot(
        "Size of registrations",
        "The largest is that of ",
        named(words.shortened(largest.broker)),
        ", ",
        told(about("of_limit", largest.cluster, largest.broker), max(shares), "percent"),
        " of the limit.",
    )
