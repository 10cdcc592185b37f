"""``routebook relay`` as a process."""

import sys
from pathlib import Path

from interop.support.remoting import GET_ROUTEINFO_BY_TOPIC, Connection, Reply
from interop.support.servers import NameServerProcess

POLL_S = 1.0


class RelayProcess(NameServerProcess):
    """Takes the place of a name server for clients, which cannot tell the difference."""

    ready_text = "ready on "

    def __init__(self, folder: Path, namesrv: str) -> None:
        self._namesrv = namesrv
        super().__init__(folder, {})

    def route(self, topic: str) -> Reply:
        with Connection(self.address) as relay:
            return relay.call(GET_ROUTEINFO_BY_TOPIC, topic=topic)

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "routebook", "relay", "-n", self._namesrv]
        place = ["--listen-port", str(self.port), "--bind-address", self.host]
        return [*command, *place, "--poll", str(POLL_S)]
