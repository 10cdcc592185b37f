"""RouteForms: a route as each client wants it, made from the one form a NameServer gave.

A NameServer is asked for the standard form only. Clients before 4.9.4 get bare integer keys, and a
client that names its zone gets the brokers of that zone, as it would from the NameServer itself.
"""

from collections.abc import Mapping

import msgspec

from routebook.wire import answers, bodies
from routebook.wire.answers import MASTER_ID, BrokerGroup, RouteBody

MAX_KEPT_BYTES = 32 * 1024 * 1024

_JSON = msgspec.json.Decoder(msgspec.Raw)  # reads all of it and makes nothing of it


def standard_form(body: bytes, route: RouteBody) -> bytes:
    """``route``, which was read from ``body``, as 4.9.4 and later want it; as it came if it can."""
    try:
        _JSON.decode(body)
    except msgspec.DecodeError:
        return render(route, standard=True)  # of a NameServer before 4.9.4
    return body


class RouteForms:
    """Keeps what it has made, up to a number of bytes."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: dict[tuple[bytes, bool, str | None], bytes] = {}
        self._kept_bytes = 0

    def body(self, route: bytes, *, standard: bool, zone: str | None) -> bytes:
        """``route`` is in standard form."""
        if standard and zone is None:
            return route
        key = (route, standard, zone)
        made = self._kept.get(key)
        if made is None:
            made = render(answers.decode_route(route), standard=standard, zone=zone)
            size = len(route) + len(made) + len(zone or "")
            if self._kept_bytes + size > self._max_bytes:
                self._kept.clear()
                self._kept_bytes = 0
            if size <= self._max_bytes:
                self._kept[key] = made
                self._kept_bytes += size
        return made


def render(route: RouteBody, *, standard: bool, zone: str | None = None) -> bytes:
    groups = [g for g in route.brokers or () if zone is None or _in_zone(g, zone)]
    queues = route.queues or []
    filter_servers: Mapping[str, list[str]] = route.filter_servers or {}
    if zone is not None:
        names = {group.name for group in groups}
        addrs = {addr for group in groups for addr in group.addrs.values()}
        queues = [queue for queue in queues if queue.broker in names]
        filter_servers = {a: servers for a, servers in filter_servers.items() if a in addrs}
    return bodies.topic_route(
        [
            bodies.broker_data(
                group.addrs,
                group.name,
                group.cluster or "",
                acting_master=group.acting_master,
                zone=group.zone,
                standard=standard,
            )
            for group in groups
        ],
        [
            bodies.queue_data(
                queue.broker,
                perm=queue.perm,
                read_queues=queue.read_queues,
                sys_flag=queue.sys_flag,
                write_queues=queue.write_queues,
                standard=standard,
            )
            for queue in queues
        ],
        filter_servers=filter_servers,
        order_conf=route.order_conf,
        mappings=[
            bodies.queue_mapping(
                bname=info.bname or name,
                curr_id_map=info.curr_id_map.items(),
                dirty=info.dirty,
                epoch=info.epoch,
                scope=info.scope,
                topic=info.topic or "",
                total_queues=info.total_queues,
                standard=standard,
            )
            for name, info in (route.mappings or {}).items()
        ],
        standard=standard,
    )


def _in_zone(group: BrokerGroup, zone: str) -> bool:
    # Whether id 0 is a slave that stands in for its master does not show in a route. RocketMQ's own
    # NameServer filters by what it shows, too (ZoneRouteRPCHook).
    return MASTER_ID not in group.addrs or (group.zone or "").lower() == zone.lower()
