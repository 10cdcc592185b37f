"""The plots of a report."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from matplotlib.ticker import FuncFormatter, MaxNLocator

from routebook_spark.gold.flaps import SUPPRESS
from routebook_spark.report import words
from routebook_spark.report.facts import (
    Asked,
    BrokerTime,
    Flap,
    Incident,
    LagBucket,
    Outlook,
    Spent,
)
from routebook_spark.report.svg import (
    ACCENT,
    BAD,
    GOOD,
    INK,
    QUIET,
    SECOND,
    WARN,
    Plot,
    bars_over_time,
    dates,
    days,
    drawing,
    legend,
    limit,
    name_rows,
    rows,
)

MOST_BUDGETS = 5.0

# -- brokers


def down_time(spent: Sequence[Spent], step: str) -> Plot:
    kinds = (
        ("down", "down_s", BAD),
        ("suspect", "suspect_s", WARN),
        ("unknown", "unknown_s", QUIET),
    )
    with drawing("down-time", 2.3) as (drawn, axes):
        bottoms = [0.0] * len(spent)
        for label, field, colour in kinds:
            heights = [getattr(each, field) / 60 for each in spent]
            bars_over_time(axes, [each.at for each in spent], heights, step, colour, label, bottoms)
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        axes.set_ylabel("minutes of all brokers")
        legend(axes)
    worst = max(spent, key=lambda each: each.down_s)
    return drawn(
        "Time brokers were not there",
        f"Minutes of all brokers together in each {step}. Most time down:"
        f" {words.span(worst.down_s)} from {words.minute(worst.at)}.",
    )


def budgets(worst: Sequence[BrokerTime]) -> Plot:
    names = [words.member(each.broker, each.broker_id) for each in worst]
    used = [each.down_s / each.budget_s if each.budget_s else 0.0 for each in worst]
    shown = [min(share, MOST_BUDGETS) for share in used]
    with drawing("budgets", 0.7 + 0.24 * len(worst)) as (drawn, axes):
        colours = [BAD if share > 1 else WARN if share > 0.5 else GOOD for share in used]
        rows(axes, names, shown, colours, [words.percent(share) for share in used])
        limit(axes, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_xlabel(
            "of the error budget used; the line is all of it, bars end at five times it"
        )
    return drawn(
        "Error budgets",
        f"Of {words.counted(len(worst), 'broker')} with time down, {sum(s > 1 for s in used)} used"
        " more than the budget of the period.",
    )


def timeline(incident: Incident, number: int, end: datetime) -> Plot:
    """Who was away from when to when, and how long clients could be sent there all the same."""
    outages = incident.outages
    with drawing(f"incident-{number}", 0.75 + 0.26 * len(outages)) as (drawn, axes):
        for row, outage in enumerate(outages):
            away = days(outage.back_at or end) - days(outage.left_at)
            last_alive = outage.last_alive_at or outage.left_at
            unnoticed = days(outage.left_at) - days(last_alive)
            labels = ("dead, still listed", "away", "clients may still use it")
            first = [label if row == 0 else "" for label in labels]
            axes.barh(
                row, unnoticed, left=days(last_alive), height=0.55, color=WARN, label=first[0]
            )
            axes.barh(row, away, left=days(outage.left_at), height=0.55, color=BAD, label=first[1])
            if outage.exposed_until is not None:
                felt = days(outage.exposed_until) - days(last_alive)
                axes.barh(
                    row,
                    felt,
                    left=days(last_alive),
                    height=0.14,
                    color=INK,
                    label=first[2],
                )
        names = [words.member(each.broker, each.broker_id) for each in outages]
        name_rows(axes, names)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        dates(axes)
        legend(axes)
    return drawn(
        "Timeline",
        f"From {words.instant(incident.started_at)}; the brokers that were away longest.",
    )


def flapping(flaps: Sequence[Flap]) -> Plot:
    names = [words.member(each.broker, each.broker_id) for each in flaps]
    blame = {"broker": BAD, "node": ACCENT, "network": SECOND}
    with drawing("flapping", 0.7 + 0.24 * len(flaps)) as (drawn, axes):
        rows(
            axes,
            names,
            [each.peak_penalty for each in flaps],
            [blame.get(each.culprit, QUIET) for each in flaps],
            [words.counted(each.transitions, "change") for each in flaps],
        )
        axes.set_xlabel("highest penalty; the line is where a broker counts as flapping")
        limit(axes, SUPPRESS)
        for culprit in sorted({each.culprit for each in flaps}):
            axes.barh(0, 0, color=blame.get(culprit, QUIET), label=f"blamed: {culprit}")
        legend(axes)
    return drawn("Who flaps", f"{names[0]} came and went most: {flaps[0].transitions} times.")


# -- nodes


def lags(buckets: Sequence[LagBucket]) -> Plot:
    bounds = sorted({bucket.from_ms for bucket in buckets})
    highest = max(15, *(bound.bit_length() for bound in bounds))
    places = [0, *(2**power for power in range(highest))]
    colours = {"broker_joined": GOOD, "broker_left": BAD, "topic_changed": ACCENT}
    with drawing("lags", 2.4) as (drawn, axes):
        bottoms = [0.0] * len(places)
        for kind in sorted({bucket.kind for bucket in buckets}):
            counts = {bucket.from_ms: bucket.changes for bucket in buckets if bucket.kind == kind}
            heights = [counts.get(place, 0) for place in places]
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
            place = _place_of(target_ms)
            limit(axes, place)
            axes.annotate(
                label,
                (place, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -8),
                textcoords="offset points",
            )
        ticks = range(1, len(places), 2)
        axes.set_xticks(
            [tick - 0.5 for tick in ticks], [words.span(places[t] / 1000) for t in ticks]
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.set_xlabel("from the first node that showed a change to the last")
        axes.set_ylabel("changes")
        legend(axes)
    late = sum(bucket.changes for bucket in buckets if bucket.from_ms >= 32_768)
    total = sum(bucket.changes for bucket in buckets)
    return drawn(
        "How long nodes took to agree",
        f"{words.number(total)} changes by the time they took; {words.number(late)} took more than"
        " half a minute.",
    )


def _place_of(ms: int) -> float:
    """Where a time is among bars that stand for times twice as long each."""
    power = ms.bit_length() - 1
    return power + 0.5 + (ms / (1 << power) - 1)


# -- topics


def skews(buckets: Sequence[tuple[float, int]]) -> Plot:
    bounds = [bound for bound, _ in buckets]
    labels = [f"{low:g} to {high:g}" for low, high in pairwise(bounds)]
    labels.append(f"{bounds[-1]:g} and more")
    counts = [count for _, count in buckets]
    with drawing("skews", 0.7 + 0.26 * len(buckets)) as (drawn, axes):
        colours = [GOOD if b < 1.2 else WARN if b < 2 else BAD for b in bounds]
        rows(axes, labels, counts, colours, [words.number(count) for count in counts])
        axes.set_xlabel("topics")
        axes.set_ylabel("skew")
    return drawn(
        "How evenly queues are spread",
        f"{words.number(sum(counts))} topics on several brokers, by their largest share of write"
        " queues in means; 1 is even.",
    )


def asked(steps: Sequence[Asked], step: str) -> Plot:
    kinds = (
        ("answered", "known", ACCENT),
        ("not known", "unknown", BAD),
        ("node not ready", "not_ready", WARN),
    )
    with drawing("asked", 2.3) as (drawn, axes):
        bottoms = [0.0] * len(steps)
        for label, field, colour in kinds:
            heights = [float(getattr(each, field)) for each in steps]
            bars_over_time(axes, [each.at for each in steps], heights, step, colour, label, bottoms)
            bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
        axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: words.number(count)))
        axes.set_ylabel("route queries")
        legend(axes)
    unknown = sum(each.unknown for each in steps)
    return drawn(
        "Route queries",
        f"Queries of clients in each {step}, of all nodes; {words.number(unknown)} were for topics"
        " nobody knew.",
    )


def sizes(outlook: Sequence[Outlook]) -> Plot:
    names = [each.broker for each in outlook]
    shares = [each.registration_bytes / each.limit_bytes for each in outlook]
    with drawing("sizes", 0.7 + 0.24 * len(outlook)) as (drawn, axes):
        colours = [BAD if share > 0.8 else WARN if share > 0.5 else ACCENT for share in shares]
        notes = [
            words.size(each.registration_bytes)
            + ("" if each.limit_on is None else f", full on {each.limit_on}")
            for each in outlook
        ]
        rows(axes, names, shares, colours, notes)
        axes.set_xlim(0, max(1.0, *shares) * 1.3)
        limit(axes, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
        axes.set_xlabel("of what fits in one registration; the line is all of it")
    return drawn(
        "Size of registrations",
        f"The largest is that of {names[shares.index(max(shares))]},"
        f" {words.percent(max(shares))} of the limit.",
    )
