"""Fill a table in a process of its own; ``table_costs.py CASE`` prints bytes grown and charged."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from routebook.events import StaticMapping
from routebook.slices import Slices
from routebook.state.account import Account
from routebook.state.kv import KvChange, KvStore
from routebook.state.model import QueueShape, Registration, VersionStamp
from routebook.state.revision import Revision
from routebook.state.routes import RouteTable
from routebook.watch.hub import Watchers
from routebook.watch.kept_routes import Route

SHAPE = QueueShape(8, 8, 6, 0)


def registration(number: int, topics: dict[str, QueueShape], **others: object) -> Registration:
    members: dict[str, object] = {
        "cluster": "DefaultCluster",
        "name": f"broker-{number}",
        "broker_id": 0,
        "addr": f"10.0.{number // 250}.{number % 250}:10911",
        "ha_addr": f"10.0.{number // 250}.{number % 250}:10912",
        "heartbeat_timeout_ms": 1000,
        "acting_master": False,
        "zone": None,
        "state_version": 0,
        "stamp": VersionStamp(0, 1, number),
        "topics": topics,
        "mappings": (),
        "filter_servers": (),
        "fingerprint": number,
        "link": number,
        "peer": f"10.0.0.{number % 250}:{number}",
        "shapes": len(set(topics.values())),
        **others,
    }
    return Registration(**members)  # type: ignore[arg-type]


def named(count: int, length: int, of: int = 0) -> dict[str, QueueShape]:
    return {f"{of}-{each}-".ljust(length, "x"): SHAPE for each in range(count)}


def distinct() -> Iterator[Registration]:
    for number in range(10):
        yield registration(number, named(6_000, 30, number))


def long_names() -> Iterator[Registration]:
    for number in range(10):
        yield registration(number, named(3_000, 390, number))


def wide_names() -> Iterator[Registration]:
    for number in range(10):
        topics = (f"\U0001f600{number}-{each}-".ljust(127, "x") for each in range(3_000))
        yield registration(number, dict.fromkeys(topics, SHAPE))


def shared() -> Iterator[Registration]:
    for number in range(100):
        yield registration(number, named(2_000, 30))


def small_brokers() -> Iterator[Registration]:
    for number in range(5_000):
        yield registration(number, {})


def odd_shapes() -> Iterator[Registration]:
    for number in range(10):
        topics = {
            f"{number}-{each}": QueueShape(1000 + each, 9000 + each, 6, 7000 + each)
            for each in range(3_000)
        }
        yield registration(number, topics)


def mappings() -> Iterator[Registration]:
    for number in range(10):
        ids = tuple((1000 + each, 5000 + each) for each in range(10_000))
        mapping = StaticMapping(f"static-{number}", "b", 4, 1, None, False, ids)
        yield registration(number, {}, mappings=(mapping,))


def filter_servers() -> Iterator[Registration]:
    for number in range(50):
        servers = tuple(f"{number}-{each}".ljust(100, "f") for each in range(1000))
        yield registration(number, {}, filter_servers=servers)


def pairs() -> Iterator[KvChange]:
    for number in range(50_000):
        yield KvChange("n", f"key-{number}", f"value-{number}", f"10.0.0.{number % 250}:{number}")


def namespaces() -> Iterator[KvChange]:
    for number in range(20_000):
        yield KvChange(f"namespace-{number}", "k", f"{number}", f"10.0.0.{number % 250}:{number}")


def watched_by_one() -> Iterator[list[str]]:
    for number in range(20):
        yield [f"{number}-{each}-".ljust(30, "x") for each in range(5_000)]


def watched_by_many() -> Iterator[list[str]]:
    for _ in range(20_000):
        yield ["orders", "stock"]


WATCHES: dict[str, Callable[[], Iterator[list[str]]]] = {
    case.__name__: case for case in (watched_by_one, watched_by_many)
}
PAIRS: dict[str, Callable[[], Iterator[KvChange]]] = {
    case.__name__: case for case in (pairs, namespaces)
}
CASES: dict[str, Callable[[], Iterator[Registration]]] = {
    case.__name__: case
    for case in (
        *(distinct, long_names, wide_names, shared),
        *(small_brokers, odd_shapes, mappings, filter_servers),
    )
}


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _no_route(topic: str) -> Slices[Route]:
    yield
    return Route("", b"")


def fill_watches(case: str) -> None:
    account = Account()
    watchers = Watchers(
        node="n",
        boot="b",
        revision=lambda: 0,
        route_of=_no_route,
        topics_of=lambda cluster, broker: (),
        last_seq=lambda: 0,
        now_ms=lambda: 0,
        account=account,
    )
    before = _resident()
    for link, topics in enumerate(WATCHES[case]()):
        watcher = watchers.open(link, "10.0.0.1")
        watchers.add(watcher, ((topic, "") for topic in topics))
        watchers.begin(watcher)
    print(_resident() - before, account.tables)


def main() -> None:
    if sys.argv[1] in WATCHES:
        fill_watches(sys.argv[1])
        return
    if sys.argv[1] in PAIRS:
        account = Account()
        kv, before = KvStore(Revision(), 10**9, None, account), _resident()
        for change in PAIRS[sys.argv[1]]():
            kv.apply([change])
        print(_resident() - before, account.tables)
        return
    routes = RouteTable(
        Revision(), max_topics_per_broker=10**6, max_route_entries=10**8, max_brokers_per_group=64
    )
    before = _resident()
    for each in CASES[sys.argv[1]]():
        for _ in routes.register(each, now_ms=1):
            pass
        del each
    print(_resident() - before, routes.account.tables)


if __name__ == "__main__":
    main()
