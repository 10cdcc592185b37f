"""The sections about topics, and about what will not fit."""

from collections.abc import Iterable, Sequence

from routebook_spark.report import plots, words
from routebook_spark.report.facts import Balance, Demand, Outlook, Period, TopicSpread
from routebook_spark.report.html import Column, Html, element, joined, table
from routebook_spark.report.parts import Section, empty, figure, lead


def balance(facts: Balance) -> Section:
    title = "Balance"
    if not facts.topics:
        return Section("balance", title, empty("There was no topic at the end of this time."))
    shown: list[Html] = [
        lead(
            f"{words.counted(facts.topics, 'topic')} at the end of the time, without those of"
            f" RocketMQ itself. {words.number(facts.single)} take messages on one broker only and"
            f" stop with it; {words.number(facts.unwritable)} take none. Skew is the largest share"
            " of write queues divided by the mean: 1 is even, 2 twice as much on one broker."
        )
    ]
    if facts.buckets:
        shown.append(figure(plots.skews(facts.buckets)))
    if facts.skewed:
        shown.append(_spread("The most uneven topics", facts.skewed))
    else:
        shown.append(empty("No topic on several brokers is uneven."))
    shown.append(element("h3", "Topics on one broker only"))
    if facts.alone:
        shown.append(
            table(
                "By write queues",
                ["topic", "cluster", "broker", Column("write queues")],
                (
                    (each.topic, each.cluster, each.top_broker, words.number(each.write_queues))
                    for each in facts.alone
                ),
            )
        )
    else:
        shown.append(empty("Every topic that takes messages does so on several brokers."))
    return Section("balance", title, joined(shown))


def _spread(caption: str, topics: Iterable[TopicSpread]) -> Html:
    return table(
        caption,
        [
            "topic",
            "cluster",
            Column("brokers"),
            Column("write queues"),
            Column("fewest"),
            Column("most"),
            "most on",
            Column("skew"),
        ],
        (
            (
                each.topic,
                each.cluster,
                words.number(each.writable_brokers),
                words.number(each.write_queues),
                words.number(each.min_queues),
                words.number(each.max_queues),
                each.top_broker,
                words.number(each.skew, 2),
            )
            for each in topics
        ),
    )


def demand(facts: Demand, period: Period) -> Section:
    shown: list[Html] = []
    if facts.asked:
        shown += [
            lead("How often clients asked where a topic is, at all nodes together."),
            figure(plots.asked(facts.asked, period.step)),
            table(
                "Topics most asked for",
                ["topic", Column("answered"), Column("not known"), Column("not ready"), "exists"],
                (
                    (
                        each.topic,
                        words.number(each.known),
                        words.number(each.unknown),
                        words.number(each.not_ready),
                        "yes" if each.exists else "no",
                    )
                    for each in facts.top
                ),
            ),
        ]
    else:
        shown.append(empty("No client asked for a topic."))
    shown.append(element("h3", "Topics nobody knew"))
    if facts.storms:
        shown.append(
            table(
                "Hours with the most queries for a topic that was not known",
                ["topic", "hour", Column("queries"), Column("nodes"), "exists"],
                (
                    (
                        each.topic,
                        words.minute(each.hour_at),
                        words.number(each.unknown),
                        words.number(each.nodes),
                        "yes" if each.exists else "no",
                    )
                    for each in facts.storms
                ),
            )
        )
    else:
        shown.append(empty("Every topic that was asked for was known."))
    shown += [element("h3", "Topics nobody asks for"), _zombies(facts)]
    return Section("demand", "Demand", joined(shown))


def _zombies(facts: Demand) -> Html:
    if not facts.zombies:
        return empty("Every topic was asked for within the last week, or is not known for long.")
    return joined(
        element(
            "p",
            f"{words.counted(facts.zombie_count, 'topic')}"
            f" {'was' if facts.zombie_count == 1 else 'were'} there and not asked for on any of the"
            " last seven days. What nobody looks for may be left over.",
        ),
        table(
            "Silent for the longest time",
            ["topic", Column("days"), "last asked for"],
            (
                (
                    each.topic,
                    words.number(each.unasked_days),
                    "not as far as is known"
                    if each.last_asked_at is None
                    else words.minute(each.last_asked_at),
                )
                for each in facts.zombies
            ),
        ),
    )


def forecast(outlook: Sequence[Outlook]) -> Section:
    title = "Forecast"
    if not outlook:
        return Section("forecast", title, empty("No broker had topics at the end of a day."))
    body = joined(
        lead(
            "A broker sends all its topics in one registration, and nodes take at most"
            f" {words.size(outlook[0].limit_bytes)} of it. This is the size as estimated from the"
            " topics, and when it is full if it grows as in the last four weeks."
        ),
        figure(plots.sizes(outlook)),
        table(
            "Brokers by the day they are full, then by size",
            [
                "broker",
                "cluster",
                Column("topics"),
                Column("size"),
                Column("of the limit"),
                Column("a day"),
                Column("days left"),
                "full on",
            ],
            (
                (
                    each.broker,
                    each.cluster,
                    words.number(each.topics),
                    words.size(each.registration_bytes),
                    words.percent(each.registration_bytes / each.limit_bytes),
                    words.size(each.bytes_per_day),
                    words.number(each.days_to_limit),
                    words.NOTHING if each.limit_on is None else str(each.limit_on),
                )
                for each in outlook
            ),
        ),
    )
    return Section("forecast", title, body)
