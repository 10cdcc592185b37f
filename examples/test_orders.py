"""Tests of code that finds brokers, with the fixtures that come with Routebook.

pytest examples/test_orders.py
"""

from collections.abc import Callable

from routebook import SyncNameServerClient
from routebook.testing import LocalBroker, LocalNode, LocalNodes

Brokers = Callable[..., LocalBroker]


def find_orders(nameservers: str) -> str | None:
    """Stands for what is to be tested."""
    with SyncNameServerClient(nameservers) as client:
        route = client.find_route("orders")
    return None if route is None else route.brokers[0].master


def test_the_broker_is_found_until_it_dies(
    routebook_node: LocalNode, routebook_brokers: Brokers
) -> None:
    nameserver = routebook_node.address
    broker = routebook_brokers("broker-a", topics=["orders"], nameservers=nameserver)
    assert find_orders(nameserver) == broker.addr
    broker.kill()
    assert find_orders(nameserver) is None


def test_one_of_three_nameservers_may_be_down(
    routebook_nodes: Callable[[int], LocalNodes], routebook_brokers: Brokers
) -> None:
    nodes = routebook_nodes(3)
    broker = routebook_brokers("broker-a", topics=["orders"], nameservers=nodes.addresses)
    nodes[0].stop()
    assert find_orders(nodes.addresses) == broker.addr
