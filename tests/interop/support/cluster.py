"""One node of ours with a master broker of each release, shared by the tests that only use them."""

from itertools import count

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.launcher import Launcher
from interop.support.remoting import find_route
from support.waiting import wait_for

QUEUES = 4


class Cluster:
    """Starts a master when it is first asked for."""

    def __init__(self, launcher: Launcher, admin: Admin) -> None:
        self._launcher = launcher
        self._admin = admin
        self._masters: dict[str, Broker] = {}
        self._topic_numbers = count(1)
        self.node = launcher.node({"orderMessageEnable": "true"})

    @property
    def namesrv(self) -> str:
        return self.node.address

    def master(self, version: str) -> Broker:
        if version not in self._masters:
            self._masters[version] = self._launcher.broker(version, self.namesrv)
        return self._masters[version]

    def new_topic(self, version: str) -> str:
        """Make a topic of QUEUES queues on the master of that release and wait for its route."""
        topic = f"topic-{next(self._topic_numbers)}"
        create_topic(self._admin, self.namesrv, self.master(version), topic)
        return topic


def create_topic(admin: Admin, namesrv: str, broker: Broker, topic: str) -> None:
    queues = ["-r", str(QUEUES), "-w", str(QUEUES)]
    output = admin.run(namesrv, "updateTopic", "-b", broker.address, "-t", topic, *queues)
    assert f"create topic to {broker.address} success." in output
    wait_for(
        f"a route of {topic}",
        lambda: find_route(namesrv, topic),
        until=lambda route: route is not None,
    )
