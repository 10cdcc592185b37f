"""``/metrics``: the counts of nodes as Prometheus wants them, made when they are asked for.

Nodes keep plain numbers; what is told is what they say now. So nothing lingers of a broker that is
gone, and a scrape costs a node one small answer.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from starlette.requests import Request
from starlette.responses import Response

from routebook.client.errors import NodeError
from routebook.gateway.access import Access
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.metric_table import BY_NAME, METRICS, OF_THE_GATEWAY, PREFIX, Type
from routebook.gateway.nodes import FollowedNode
from routebook.handlers.counts import RESULTS
from routebook.histogram import BOUNDS_US
from routebook.wire.codes import RequestCode

READS, BROKERS, ADMIN = "route-read", "broker-control", "admin"
_BROKER_REQUESTS = frozenset(RequestCode(code).name for code in (103, 104, 322, 901, 904))
_ROUTE, _REGISTER, _UNREGISTER = (RequestCode(code).name for code in (105, 103, 104))

Statistics = Mapping[str, Any]


class Scrape:
    """Families of one scrape. ``own``: of one node, which needs no name."""

    def __init__(self, *, own: bool) -> None:
        self._node_label = () if own else ("node",)
        self._families: dict[str, Family] = {}

    def collect(self) -> Iterator[Family]:
        """For prometheus_client."""
        return (self._families[m.name] for m in METRICS if m.name in self._families)

    def add(self, name: str, value: float, *labels: str, node: str = "") -> None:
        family: Any = self._family(name)
        family.add_metric(self._labels(name, node, labels), value)

    def add_histogram(self, name: str, told: Mapping[str, Any], *, node: str = "") -> None:
        counts: Sequence[int] = told.get("counts") or [0] * (len(BOUNDS_US) + 1)
        bounds = [*(f"{bound / 1_000_000:g}" for bound in BOUNDS_US), "+Inf"]
        buckets = list(zip(bounds, accumulate(counts), strict=True))
        family: Any = self._family(name)
        total_s = told.get("total_us", 0) / 1_000_000
        family.add_metric(self._labels(name, node, ()), buckets=buckets, sum_value=total_s)

    def _labels(self, name: str, node: str, labels: Iterable[str]) -> list[str]:
        before = () if name in OF_THE_GATEWAY or not self._node_label else (node,)
        return [*before, *labels]

    def _family(self, name: str) -> Family:
        family = self._families.get(name)
        if family is None:
            metric = BY_NAME[name]
            named = () if name in OF_THE_GATEWAY else self._node_label
            labels = [*named, *metric.labels]
            made = {
                Type.COUNTER: CounterMetricFamily,
                Type.GAUGE: GaugeMetricFamily,
                Type.HISTOGRAM: HistogramMetricFamily,
            }[metric.type]
            family = self._families[name] = made(PREFIX + name, metric.help, labels=labels)
        return family


async def metrics(request: Request, gateway: Gateway) -> Response:
    try:
        encode, content_type = choose_encoder(request.headers.get("accept") or "")
    except (TypeError, ValueError):  # versions that are no numbers
        encode, content_type = choose_encoder("")
    return Response(encode(await scraped(gateway)), headers={"Content-Type": content_type})


async def scraped(gateway: Gateway) -> Scrape:
    nodes = gateway.fleet.nodes
    scrape = Scrape(own=len(nodes) == 1 and nodes[0].own)
    told = await asyncio.gather(*(_statistics(node) for node in nodes))
    for node, statistics in zip(nodes, told, strict=True):
        scrape.add("up", int(node.alive), node=node.name)
        scrape.add_histogram("ping_seconds", node.pings.told(), node=node.name)
        if statistics is not None:
            _add_requests(scrape, statistics, node.name)
            _add_tables(scrape, statistics, node.name)
            _add_node(scrape, statistics, node.name)
            _add_silences(scrape, node)
    _add_differences(scrape, nodes)
    for (path, status), count in sorted(gateway.requests.items()):
        scrape.add("gateway_requests", count, path, str(status))
    return scrape


async def _statistics(node: FollowedNode) -> Statistics | None:
    if not node.alive:
        return None
    try:
        await node.look()  # who is gone by now is not told of
        return (await node.statistics()).value
    except NodeError:
        return None


def _add_requests(scrape: Scrape, told: Statistics, node: str) -> None:
    by_type: Counter[tuple[str, str]] = Counter()
    for name, results in told["requests"].items():
        kind = READS if name == _ROUTE else BROKERS if name in _BROKER_REQUESTS else ADMIN
        for result in RESULTS:
            by_type[kind, result] += results[result]
    by_type[READS, RESULTS[0]] += told["remembered"]
    for kind in (READS, BROKERS, ADMIN):
        for result in RESULTS:
            scrape.add("requests", by_type[kind, result], kind, result, node=node)
    nothing = dict.fromkeys(RESULTS, 0)
    asked = told["requests"].get(_ROUTE, nothing)
    routes = told["routes"]
    scrape.add("route_request", sum(routes.values()), node=node)
    errors = {
        "not_found": routes["unknown"],
        "not_ready": routes["not_ready"],
        "rejected": max(0, asked["rejected"] - routes["not_ready"]),
        "internal": asked["error"],
    }
    for result, count in errors.items():
        scrape.add("route_errors", count, result, node=node)
    for work, count in told["overload"].items():
        scrape.add("overload_refusals", count, work, node=node)
    scrape.add("route_cache_events", told["remembered"], "hit", node=node)
    scrape.add("route_cache_events", sum(asked.values()), "miss", node=node)
    scrape.add("route_cache_bytes", told["cache_bytes"], node=node)
    scrape.add_histogram("request_duration_seconds", told["durations"], node=node)
    scrape.add_histogram("loop_lag_seconds", told["lags"], node=node)
    for result in RESULTS:
        registered = told["requests"].get(_REGISTER, nothing)[result]
        scrape.add("broker_registrations", registered, result, node=node)
        gone = told["requests"].get(_UNREGISTER, nothing)[result]
        scrape.add("unregistration_events", gone, result, node=node)


def _add_tables(scrape: Scrape, told: Statistics, node: str) -> None:
    scrape.add("registration_events", told["registered"], RESULTS[0], node=node)
    for cause, count in sorted(told["left"].items()):
        scrape.add("broker_left", count, cause, node=node)
    brokers, unconfirmed, held = told["brokers"], told["unconfirmed"], told["held"]
    scrape.add("active_brokers", brokers, node=node)
    scrape.add("active_connections", told["connections"], node=node)
    confirmed = max(0, brokers - unconfirmed - held)
    scrape.add("brokers", confirmed, "confirmed", node=node)
    scrape.add("brokers", unconfirmed, "unconfirmed", node=node)
    scrape.add("brokers", held, "held", node=node)
    scrape.add("topics", told["topics"], node=node)
    scrape.add("route_entries", told["route_entries"], node=node)
    scrape.add("guard_held", held, node=node)
    watch = told["watch"]
    scrape.add("watchers", watch["watchers"], "routes", node=node)
    scrape.add("watchers", watch["feeds"], "feed", node=node)
    scrape.add("watch_dirty_topics", watch["untold"], node=node)
    scrape.add("watch_frames", watch["frames"], node=node)
    scrape.add("watch_dropped", watch["closed_as_slow"], "slow", node=node)
    scrape.add("watch_dropped", watch["refused"], "refused", node=node)
    scrape.add_histogram("watch_delivery_seconds", told["deliveries"], node=node)


def _add_node(scrape: Scrape, told: Statistics, node: str) -> None:
    if journal := told["journal"]:
        scrape.add("journal_queued", journal["queued"], node=node)
        scrape.add("journal_lost", journal["lost"], node=node)
        scrape.add("journal_written_seq", journal["written_seq"], node=node)
        scrape.add("journal_failing", journal["failing"], node=node)
    scrape.add("memory_resident_bytes", told["memory"]["resident"], node=node)
    scrape.add("memory_limit_bytes", told["memory"]["limit"], node=node)
    scrape.add("stalls", told["stalls"]["count"], node=node)
    scrape.add("stalled_seconds", told["stalls"]["paused_ms"] / 1000, node=node)
    scrape.add("internal_errors", told["errors"], node=node)
    scrape.add("uptime_seconds", told["uptime_ms"] / 1000, node=node)
    scrape.add("info", 1, told["node"], told["version"], node=node)


def _add_silences(scrape: Scrape, node: FollowedNode) -> None:
    """As of the last look, which is a second ago at most while the node answers."""
    if node.view is None:
        return
    age_s = node.view.age_ms / 1000
    for silence in node.view.value.silences or ():
        labels = (silence.cluster, silence.broker, str(silence.id))
        silent_s = silence.ms / 1000 + age_s
        scrape.add("broker_last_heard_seconds", silent_s, *labels, node=node.name)


def _add_differences(scrape: Scrape, nodes: Sequence[FollowedNode]) -> None:
    known = [node for node in nodes if node.view is not None and node.alive]
    for number, node in enumerate(known):
        for other in known[number + 1 :]:
            count = len(differing(node, other))
            scrape.add("divergent_groups", count, other.name, node=node.name)


def differing(node: FollowedNode, other: FollowedNode) -> list[tuple[str, str]]:
    """Groups of which the two tell something else, as far as both have said what they tell."""
    if node.view is None or other.view is None:
        return []
    ours, theirs = node.view.value.groups, other.view.value.groups
    found = []
    for key in sorted({*ours, *theirs}):
        one, another = ours.get(key), theirs.get(key)
        if one is None or another is None or _differ(one.digest, another.digest):
            found.append(key)
    return found


def _differ(one: str, another: str) -> bool:
    return bool(one and another) and one != another


ENDPOINTS = (Endpoint("GET", "/metrics", Access.OPEN, metrics, "All metrics, for Prometheus."),)
