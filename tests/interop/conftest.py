"""Fixtures over real peers.

``node`` and ``launcher`` are new for every test: for tests that stop or break things. ``cluster``
lives as long as the run: a node of ours with a broker of each release, for tests that only use
them. A broker takes seconds to start, so prefer it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.support.admin import Admin
from interop.support.cluster import Cluster
from interop.support.launcher import Launcher
from interop.support.servers import NameServerProcess


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def shared_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path_factory.mktemp("shared"))
    yield launcher
    launcher.close()


@pytest.fixture
def node(launcher: Launcher) -> NameServerProcess:
    return launcher.node()


@pytest.fixture(scope="session")
def admin(shared_launcher: Launcher) -> Admin:
    return shared_launcher.admin()


@pytest.fixture(scope="session")
def cluster(shared_launcher: Launcher, admin: Admin) -> Cluster:
    return Cluster(shared_launcher, admin)
