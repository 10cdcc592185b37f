"""The table of all metrics: what is measured, in which unit, by which labels.

    python -m routebook.gateway.metric_table > docs/metrics.md

Names and labels that RocketMQ's Rust NameServer has as well are the same for counts and bytes;
times are in seconds. A gateway that stands alone puts ``node`` before the labels.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "rocketmq_namesrv_"


class Type(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """``name`` is without the prefix; of a counter without ``_total`` too."""

    name: str
    type: Type
    labels: tuple[str, ...]
    help: str

    @property
    def full_name(self) -> str:
        return PREFIX + self.name + ("_total" if self.type is Type.COUNTER else "")


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, Type.COUNTER, labels, help)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, Type.GAUGE, labels, help)


def _histogram(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, Type.HISTOGRAM, labels, help)


METRICS = (
    # Requests
    _counter(
        "requests",
        "Requests: request_type is route-read, broker-control or admin; result is success,"
        " rejected or error. That there is no such topic is a success",
        "request_type",
        "result",
    ),
    _counter("route_request", "Route queries that were answered"),
    _counter(
        "route_errors",
        "Route queries without a route: result is not_found, not_ready, rejected or internal",
        "result",
    ),
    _counter(
        "overload_refusals",
        "Requests that found no room and were told to come back, by the kind of work",
        "work",
    ),
    _counter(
        "route_cache_events",
        "Route queries answered from memory (event hit) and worked out (event miss)",
        "event",
    ),
    _gauge("route_cache_bytes", "Bytes of answers kept in memory"),
    _histogram(
        "request_duration_seconds",
        "Time to work out an answer that was not in memory; one request in 64 is measured",
    ),
    _histogram("loop_lag_seconds", "How late the node's event loop was, ten times a second"),
    # Brokers and topics
    _counter("broker_registrations", "Registrations that brokers sent, by result", "result"),
    _counter("registration_events", "Brokers that joined, or came back", "result"),
    _counter("unregistration_events", "Goodbyes that brokers sent, by result", "result"),
    _counter("broker_left", "Brokers that left, by cause", "cause"),
    _gauge("active_brokers", "Broker processes that are believed alive"),
    _gauge("active_connections", "Open connections to the node"),
    _gauge(
        "brokers",
        "Broker processes by state: confirmed, unconfirmed since a restart, held by the guard",
        "state",
    ),
    _gauge("topics", "Topics that somebody holds"),
    _gauge("route_entries", "Pairs of a topic and a broker name"),
    _gauge(
        "broker_last_heard_seconds",
        "Time since the last sign of life of a broker; left out above 2,000 brokers",
        "cluster",
        "broker",
        "broker_id",
    ),
    _gauge("guard_held", "Silent brokers that the guard has stay"),
    # Watch
    _gauge("watchers", "Connections that are told of changes (kind routes, kind feed)", "kind"),
    _gauge("watch_dirty_topics", "Topics that watchers have not been told of yet"),
    _counter("watch_frames", "Frames sent to watchers"),
    _counter(
        "watch_dropped", "Watches ended (reason slow) or turned away (reason refused)", "reason"
    ),
    _histogram(
        "watch_delivery_seconds",
        "Time from the first change until all who watch and read were told; to the millisecond",
    ),
    # Journal, memory, node
    _gauge("journal_queued", "Records that wait to be written"),
    _counter("journal_lost", "Records that could not be written"),
    _gauge("journal_written_seq", "Number of the last record on disk"),
    _gauge("journal_failing", "1 while the journal cannot be written"),
    _gauge("memory_resident_bytes", "Memory the node takes"),
    _gauge("memory_limit_bytes", "Memory the node stays under (memoryLimit)"),
    _counter("stalls", "Times in which the node stood still"),
    _counter("stalled_seconds", "Time in which the node stood still"),
    _counter("internal_errors", "Mistakes of the node's own; the log says more"),
    _gauge("uptime_seconds", "Time since the node started"),
    _gauge("info", "1; who the node is", "node_id", "version"),
    # What the gateway sees
    _gauge("up", "1 while the node answers its gateway"),
    _histogram("ping_seconds", "Time until the node answered a request of its gateway"),
    _gauge(
        "divergent_groups",
        "Broker names of which two nodes tell something else; for a gateway of several nodes",
        "other",
    ),
    _counter("gateway_requests", "HTTP requests by path and status", "path", "status"),
)
BY_NAME = {metric.name: metric for metric in METRICS}
OF_THE_GATEWAY = frozenset({"gateway_requests"})
"""Of the gateway itself, not of one of its nodes."""

_HEAD = """\
# Metrics

What `/metrics` of a [gateway](gateway.md) tells Prometheus. The gateway asks the node for its
counts when it is scraped; nothing is kept of brokers that are gone.
`python -m routebook.gateway.metric_table` writes this page.

The gateway of a node tells of that node. One that [stands alone](gateway.md#several-nodes) puts
the label `node`, an address, before the labels below. Histograms are in seconds, with these upper
bounds: {bounds}.

| metric | type | labels | what it is |
|---|---|---|---|
"""


def page() -> str:
    from routebook.histogram import BOUNDS_US

    bounds = ", ".join(f"{bound / 1_000_000:g}" for bound in BOUNDS_US)
    rows = (
        f"| `{metric.full_name}` | {metric.type} | {', '.join(metric.labels) or '–'} |"
        f" {metric.help}. |\n"
        for metric in METRICS
    )
    return _HEAD.format(bounds=bounds) + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
