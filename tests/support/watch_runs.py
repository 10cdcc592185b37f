"""Facts gone through as triggers do it, in plain Python, and what came of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from routebook.journal.record import Record, encode
from routebook_spark.alerts.alert_rules import look_at
from routebook_spark.alerts.bucket_state import BucketState
from routebook_spark.alerts.facts import Fact, facts
from routebook_spark.alerts.ledger import Alert
from routebook_spark.alerts.limits import Limits
from routebook_spark.schemas import EVENTS
from routebook_spark.source.rows import batch_of
from support.watch_events import T0_MS
from support.watch_truth import Told

Named = tuple[str, str]  # id and state of an alert


@dataclass(frozen=True, slots=True)
class Ending:
    """One alert: when it was raised and resolved, in seconds from the beginning of the story."""

    kind: str
    subject: str
    began_s: float
    raised_s: float
    resolved_s: float | None
    nodes: tuple[str, ...]


Witness = tuple[str, str]  # fleet, and the life of the data folder


def facts_of(
    spark: SparkSession, records: Iterable[tuple[Witness, Record]], limits: Limits
) -> list[Fact]:
    """What the buckets are told of records, in one job."""
    by_witness: dict[Witness, list[bytes]] = {}
    for witness, record in records:
        by_witness.setdefault(witness, []).append(encode(record))
    batches = [
        batch_of(lines, fleet=fleet, incarnation=life)
        for (fleet, life), lines in by_witness.items()
    ]
    return facts_in(spark, batches, limits)


def facts_in(spark: SparkSession, batches: Sequence[pa.RecordBatch], limits: Limits) -> list[Fact]:
    """What the buckets are told of rows of ``events``, in one job."""
    events = spark.createDataFrame(pa.Table.from_batches(batches), EVENTS)
    rows = facts(events, unknown_per_minute=limits.unknown_per_minute).collect()
    return [Fact(**row.asDict()) for row in rows]


def expected_alerts(
    spark: SparkSession, by_node: Mapping[str, Sequence[Record]], limits: Limits
) -> Counter[Named]:
    """What plain Python finds in all records at once."""
    records = [(("default", ""), one) for some in by_node.values() for one in some]
    found = gone_through(facts_of(spark, records, limits), limits)
    return Counter((alert.id, alert.state) for alert in found)


def gone_through(told: Iterable[Fact], limits: Limits, *, triggers: int = 1) -> list[Alert]:
    """All alerts of a case, taken in as many triggers."""
    by_bucket: dict[tuple[str, int], list[Fact]] = {}
    for fact in told:
        by_bucket.setdefault((fact.fleet, fact.bucket), []).append(fact)
    return [
        alert
        for (fleet, _), mine in sorted(by_bucket.items())
        for alert in _watched(BucketState(limits, fleet=fleet), list(_parts(mine, triggers)))
    ]


def triggered(triggers: Sequence[Iterable[Fact]], limits: Limits) -> list[Alert]:
    """All alerts of a case that came in these triggers."""
    by_bucket: dict[tuple[str, int], list[list[Fact]]] = {}
    for place, told in enumerate(triggers):
        for fact in told:
            parts = by_bucket.setdefault((fact.fleet, fact.bucket), [[] for _ in triggers])
            parts[place].append(fact)
    return [
        alert
        for (fleet, _), parts in sorted(by_bucket.items())
        for alert in _watched(BucketState(limits, fleet=fleet), filter(None, parts))
    ]


def _watched(bucket: BucketState, triggers: Iterable[list[Fact]]) -> Iterator[Alert]:
    for some in triggers:
        yield from look_at(bucket, some)


def as_told(alerts: Sequence[Alert]) -> list[Told]:
    """Raised and resolved together, in the terms of ``watch_truth``."""
    resolved = {alert.id: alert.resolved_ms for alert in alerts if alert.state == "resolved"}
    last = {alert.id: alert.nodes for alert in alerts}
    return [
        Told(
            kind=alert.kind,
            fleet=alert.fleet,
            nodes=tuple(last[alert.id]),
            cluster=alert.cluster,
            broker=alert.broker,
            broker_id=alert.broker_id,
            began_ms=alert.began_ms,
            raised_ms=alert.raised_ms,
            resolved_ms=resolved.get(alert.id),
            sentence=alert.sentence,
        )
        for alert in alerts
        if alert.state == "raised"
    ]


def _parts(mine: list[Fact], parts: int) -> Iterator[list[Fact]]:
    """In the order in which records are written; what was written at once stays together."""
    latest: dict[str, int] = {}
    order = []
    for fact in sorted(mine, key=lambda fact: (fact.node, fact.incarnation, fact.seq)):
        place = fact.node + fact.incarnation
        latest[place] = max(latest.get(place, 0), fact.at_ms)
        order.append((latest[place], fact))
    order.sort(key=lambda pair: pair[0])
    cuts = [len(order) * part // parts for part in range(parts + 1)]
    for i, cut in enumerate(cuts):
        while 0 < cut < len(order) and order[cut][0] - order[cut - 1][0] < 2000:
            cut += 1
        cuts[i] = cut
    for first, last in pairwise(cuts):
        if first < last:
            yield [fact for _, fact in order[first:last]]


def endings(alerts: Iterable[Alert]) -> list[Ending]:
    """Raised and resolved together, oldest first; nothing is told twice."""
    raised: dict[str, Alert] = {}
    resolved: dict[str, Alert] = {}
    for alert in alerts:
        states = raised if alert.state == "raised" else resolved
        assert alert.id not in states
        assert alert.state == "raised" or alert.id in raised
        states[alert.id] = alert
    found = [_ending(alert, resolved.get(name)) for name, alert in raised.items()]
    return sorted(found, key=lambda ending: (ending.began_s, ending.subject))


def _ending(raised: Alert, resolved: Alert | None) -> Ending:
    last = resolved or raised
    nodes = tuple(last.nodes)
    parts = (raised.broker, raised.broker_id, raised.topic)
    subject = ":".join(str(part) for part in parts if part is not None)
    until_ms = None if resolved is None else resolved.resolved_ms
    return Ending(
        raised.kind,
        subject or nodes[0],
        (raised.began_ms - T0_MS) / 1000,
        (raised.raised_ms - T0_MS) / 1000,
        None if until_ms is None else (until_ms - T0_MS) / 1000,
        nodes,
    )
