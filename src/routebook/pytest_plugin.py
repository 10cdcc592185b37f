"""Fixtures for tests that need a NameServer.

Everything of ours is imported by the first test that asks for a fixture: pytest loads this file in
every project of an environment, whether or not it has to do with RocketMQ.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from routebook.client.sync import LoopThread
    from routebook.testing import LocalBroker, LocalNode, LocalNodes, Workbench


@pytest.fixture(scope="session")
def _routebook_thread() -> "Iterator[LoopThread]":
    from routebook.client.sync import LoopThread

    thread = LoopThread()
    yield thread
    thread.stop()


@pytest.fixture
def _routebook_bench(
    tmp_path_factory: pytest.TempPathFactory, _routebook_thread: "LoopThread"
) -> "Iterator[Workbench]":
    from routebook.testing import Workbench

    with Workbench(tmp_path_factory.mktemp("routebook"), _routebook_thread) as bench:
        yield bench


@pytest.fixture
def routebook_nodes(_routebook_bench: "Workbench") -> "Callable[..., LocalNodes]":
    """``routebook_nodes(3)``: that many NameServers on free ports of 127.0.0.1.

    Keywords are settings in snake case: ``routebook_nodes(1, support_acting_master=True)``.
    """
    return _routebook_bench.nodes


@pytest.fixture
def routebook_node(_routebook_bench: "Workbench") -> "LocalNode":
    """A NameServer on a free port of 127.0.0.1."""
    return _routebook_bench.nodes(1)[0]


@pytest.fixture
def routebook_brokers(_routebook_bench: "Workbench") -> "Callable[..., LocalBroker]":
    """``routebook_brokers("broker-a", topics=["orders"], nameservers=node.address)``."""
    return _routebook_bench.broker


@pytest.fixture(scope="session")
def routebook_session_node(
    tmp_path_factory: pytest.TempPathFactory, _routebook_thread: "LoopThread"
) -> "Iterator[LocalNode]":
    """One NameServer for all tests: quick to have, but what one test leaves others find."""
    from routebook.testing import Workbench

    with Workbench(tmp_path_factory.mktemp("routebook"), _routebook_thread) as bench:
        yield bench.nodes(1)[0]
