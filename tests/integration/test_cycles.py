"""What a node lets go of is gone at once: where tables are frozen nothing old is collected."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.nodes import local_node
from support.raw import Peer
from support.waiting import soon


@contextmanager
def collecting_nothing() -> Iterator[list[str]]:
    """What of ours a collection would have found in the end."""
    found: list[str] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
        found += sorted(name for name in names if name.startswith("routebook."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def visit(port: int, number: int) -> None:
    fields = Broker(f"b{number}", addr=f"10.0.0.1:{number + 1}").fields
    async with Peer(port) as peer:
        await peer.ask(raw.REGISTER, fields, registration_body([f"t{n}" for n in range(50)]))
        for topic in ("t1", "nobody"):
            await peer.call(raw.ROUTE, topic=topic)
        await peer.call(raw.CLUSTER_INFO)
        await peer.call(raw.ALL_TOPICS)
        await peer.call(raw.PUT_KV, namespace="n", key="k", value=str(number))
        await peer.call(raw.REGISTER)  # without anything: refused


async def test_brokers_and_connections_that_are_gone_leave_no_cycles(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node:
        await visit(node.port, 0)
        with collecting_nothing() as found:
            for number in range(1, 6):
                await visit(node.port, number)
            await soon("all to leave", node.health, until=lambda health: health["brokers"] == 0)
    assert found == []
