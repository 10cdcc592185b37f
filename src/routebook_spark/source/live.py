# ruff: noqa: N802  methods have the names that Spark calls them by
"""``spark.read.format("routebook")``: what running nodes tell, each asked by a task of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from time import monotonic
from typing import Any

from pyspark.sql.datasource import DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.types import StructType

from routebook.client import NameServerError, TopicRoute
from routebook.client.client import NodeClient
from routebook.client.sync import SyncNameServerClient
from routebook_spark.schemas import ADDRS, BOOLEAN, INT, LONG, STRING, TIMESTAMP, struct

logger = logging.getLogger(__name__)

DEADLINE_S = 30.0
_AT_ONCE = 256  # requests under way

SCHEMAS = {
    "routes": struct(
        node=STRING,
        at=TIMESTAMP,
        topic=STRING,
        cluster=STRING,
        broker=STRING,
        read_queues=INT,
        write_queues=INT,
        perm=INT,
        flags=INT,
        addrs=ADDRS,
        zone=STRING,
        acting_master=BOOLEAN,
        order_conf=STRING,
    ),
    "brokers": struct(
        node=STRING,
        at=TIMESTAMP,
        cluster=STRING,
        broker=STRING,
        broker_id=LONG,
        addr=STRING,
        zone=STRING,
        acting_master=BOOLEAN,
    ),
    "topics": struct(node=STRING, at=TIMESTAMP, topic=STRING),
}
"""``node`` is the address that answered, ``at`` when it did, by the clock of whoever asked."""

Row = tuple[Any, ...]


class NodeFailed(RuntimeError):
    """A node that could not be asked, in a sentence that says what to do."""


def table_schema(table: str | None) -> StructType:
    if table is None:
        return SCHEMAS["routes"]
    if table not in SCHEMAS:
        raise ValueError(f"there is no table {table!r}: there are {', '.join(SCHEMAS)}")
    return SCHEMAS[table]


@dataclass(frozen=True)
class NodePartition(InputPartition):
    address: str


class LiveReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._nameservers = options.get("nameservers")
        self._table = options.get("table", "routes")
        self._deadline_s = _seconds(options.get("deadline_s"))
        self._on_error = options.get("on_error", "fail")
        if self._on_error not in ("fail", "skip"):
            raise ValueError(f"on_error is {self._on_error!r}, and must be fail or skip")
        self._topics: frozenset[str] | None = None  # those asked for; None: all
        self._nodes: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Take those that name topics, or nodes."""
        for one in filters:
            match one:
                case EqualTo(("topic",), value) if self._table == "routes":
                    self._topics = _narrowed(self._topics, [value])
                case In(("topic",), values) if self._table == "routes":
                    self._topics = _narrowed(self._topics, values)
                case EqualTo(("node",), value):
                    self._nodes = _narrowed(self._nodes, [value])
                case In(("node",), values):
                    self._nodes = _narrowed(self._nodes, values)
                case _:
                    yield one

    def partitions(self) -> list[InputPartition]:
        with SyncNameServerClient(self._nameservers) as client:
            addresses = map(str, client.nodes())
        return [
            NodePartition(address)
            for address in addresses
            if self._nodes is None or address in self._nodes
        ]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        if not isinstance(partition, NodePartition):
            return  # Spark makes up a partition where there is none
        rows = self._rows(partition.address, monotonic() + self._deadline_s)
        try:
            # Of a node that fails half-way nothing is told.
            yield from rows if self._on_error == "fail" else list(rows)
        except NameServerError as error:
            if self._on_error == "fail":
                raise NodeFailed(
                    f"{error}; with the option on_error=skip the other nodes answer without it"
                ) from error
            logger.warning("left out: %s", error)

    def _rows(self, address: str, deadline_s: float) -> Iterator[Row]:
        with SyncNameServerClient(address) as client:
            if self._table == "brokers":
                yield from _brokers(client, address, deadline_s)
            elif self._table == "topics":
                yield from _topics(client, address, deadline_s)
            else:
                yield from _routes(client, address, deadline_s, self._topics)


def _brokers(client: SyncNameServerClient, address: str, deadline_s: float) -> Iterator[Row]:
    view = client.on(address).cluster_view(timeout_s=_left_s(deadline_s))
    at = datetime.now(UTC)
    for name, group in view.brokers.items():
        for broker_id, addr in sorted(group.addrs.items()):
            yield (
                address,
                at,
                group.cluster,
                name,
                broker_id,
                addr,
                group.zone,
                group.acting_master,
            )


def _topics(client: SyncNameServerClient, address: str, deadline_s: float) -> Iterator[Row]:
    names = client.on(address).topics(timeout_s=_left_s(deadline_s))
    at = datetime.now(UTC)
    return ((address, at, name) for name in names)


def _routes(
    client: SyncNameServerClient, address: str, deadline_s: float, topics: Iterable[str] | None
) -> Iterator[Row]:
    if topics is None:
        topics = client.on(address).topics(timeout_s=_left_s(deadline_s))
    names = iter(sorted(topics))
    while some := list(islice(names, _AT_ONCE)):
        (routes,) = client.on_every_node(_finding(some, _left_s(deadline_s))).values()
        if isinstance(routes, NameServerError):
            raise routes
        at = datetime.now(UTC)
        for route in routes:
            yield from _route_rows(address, at, route)


def _finding(
    topics: Iterable[str], timeout_s: float
) -> Callable[[NodeClient], Awaitable[list[TopicRoute]]]:
    async def find(node: NodeClient) -> list[TopicRoute]:
        found = await asyncio.gather(
            *(node.find_route(topic, timeout_s=timeout_s) for topic in topics)
        )
        return [route for route in found if route is not None]

    return find


def _route_rows(address: str, at: datetime, route: TopicRoute) -> Iterator[Row]:
    for queues in route.queues:
        group = route.group(queues.broker)
        yield (
            address,
            at,
            route.topic,
            group.cluster if group else None,
            queues.broker,
            queues.read_queues,
            queues.write_queues,
            queues.perm,
            queues.sys_flag,
            {str(broker_id): addr for broker_id, addr in group.addrs.items()} if group else {},
            group.zone if group else None,
            group.acting_master if group else None,
            route.order_conf,
        )


def _narrowed(known: frozenset[str] | None, wanted: Iterable[str]) -> frozenset[str]:
    return frozenset(wanted) if known is None else known.intersection(wanted)


def _left_s(deadline_s: float) -> float:
    return max(0.0, deadline_s - monotonic())


def _seconds(given: str | None) -> float:
    if given is None:
        return DEADLINE_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ValueError(f"deadline_s is {given!r}, and must be a number of seconds")
    return seconds
