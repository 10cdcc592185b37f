"""The sections about topics, and about what will not fit."""

from collections.abc import Iterable, Sequence

from routebook_spark.report import plots
from routebook_spark.report.facts import Balance, Demand, Outlook, Period, Storm, TopicSpread
from routebook_spark.report.figures import about, counted, told
from routebook_spark.report.html import Column, Html, element, joined, table
from routebook_spark.report.parts import Section, empty, figure, lead


def balance(facts: Balance, *, place: str = "") -> Section:
    title = "Balance"
    if not facts.topics:
        return Section("balance", title, empty("There was no topic at the end of this time."))
    shown: list[Html] = [
        lead(
            counted("topics", facts.topics, "topic"),
            " at the end of the time, without those of RocketMQ itself. ",
            told("topics_single", facts.single),
            " take messages on one broker only and stop with it; ",
            told("topics_unwritable", facts.unwritable),
            " take none. Skew is the largest share of write queues divided by the mean: 1 is even,"
            " 2 twice as much on one broker.",
        )
    ]
    if facts.buckets:
        shown.append(figure(plots.skews(facts.buckets, place=place)))
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
                    (each.topic, each.cluster, each.top_broker, _queues(each))
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
                told(about("writable", *each[:2]), each.writable_brokers),
                _queues(each),
                told(about("min_queues", *each[:2]), each.min_queues),
                told(about("max_queues", *each[:2]), each.max_queues),
                each.top_broker,
                told(about("skew", *each[:2]), each.skew, "hundredths"),
            )
            for each in topics
        ),
    )


def _queues(each: TopicSpread) -> Html:
    return told(about("write_queues", *each[:2]), each.write_queues)


def demand(facts: Demand, period: Period, *, place: str = "") -> Section:
    shown: list[Html] = []
    if facts.asked:
        shown += [
            lead(
                "How often clients asked where a topic is, at all nodes together, by whole hours: ",
                told("queries_known", facts.known),
                " were answered, ",
                told("queries_unknown", facts.unknown),
                " were for topics nobody knew, ",
                told("queries_not_ready", facts.not_ready),
                " came before a node was ready.",
            ),
            figure(plots.asked(facts, period, place=place)),
            table(
                "Topics most asked for",
                ["topic", Column("answered"), Column("not known"), Column("not ready"), "exists"],
                (
                    (
                        each.topic,
                        told(about("asked_known", each.topic), each.known),
                        told(about("asked_unknown", each.topic), each.unknown),
                        told(about("asked_not_ready", each.topic), each.not_ready),
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
                ["topic", Column("hour"), Column("queries"), Column("nodes"), "exists"],
                (
                    (
                        each.topic,
                        told(_storm("at", each), each.hour_at, "minute"),
                        told(_storm("queries", each), each.unknown),
                        told(_storm("nodes", each), each.nodes),
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


def _storm(what: str, each: Storm) -> str:
    return about("storm", what, each.topic, each.hour_at.isoformat())


def _zombies(facts: Demand) -> Html:
    if not facts.zombies:
        return empty("Every topic was asked for within the last week, or is not known for long.")
    return joined(
        element(
            "p",
            counted("zombies", facts.zombie_count, "topic"),
            f" {'was' if facts.zombie_count == 1 else 'were'} there and not asked for on any of the"
            " last seven days. What nobody looks for may be left over.",
        ),
        table(
            "Silent for the longest time",
            ["topic", Column("days"), Column("last asked for")],
            (
                (
                    each.topic,
                    told(about("unasked_days", each.topic), each.unasked_days),
                    told(about("last_asked_at", each.topic), each.last_asked_at, "minute"),
                )
                for each in facts.zombies
            ),
        ),
    )


def forecast(outlook: Sequence[Outlook], *, place: str = "") -> Section:
    title = "Forecast"
    if not outlook:
        return Section("forecast", title, empty("No broker had topics at the end of a day."))
    body = joined(
        lead(
            "A broker sends all its topics in one registration, and nodes take at most ",
            told("limit_bytes", outlook[0].limit_bytes, "size"),
            " of it. This is the size as estimated from the"
            " topics, and when it is full if it grows as in the last four weeks.",
        ),
        figure(plots.sizes(outlook, place=place)),
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
                Column("full on"),
            ],
            (
                (
                    each.broker,
                    each.cluster,
                    told(about("broker_topics", *_of(each)), each.topics),
                    told(about("bytes", *_of(each)), each.registration_bytes, "size"),
                    told(about("of_limit", *_of(each)), _share(each), "percent"),
                    told(about("bytes_per_day", *_of(each)), each.bytes_per_day, "size"),
                    told(about("days_left", *_of(each)), each.days_to_limit),
                    told(about("full_on", *_of(each)), each.limit_on, "day"),
                )
                for each in outlook
            ),
        ),
    )
    return Section("forecast", title, body)


def _of(each: Outlook) -> tuple[str, str]:
    return each.cluster, each.broker


def _share(each: Outlook) -> float:
    return each.registration_bytes / each.limit_bytes
