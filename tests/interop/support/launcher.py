"""Starts peers below one folder and ends every one of them, whatever happened in between."""

import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Protocol, TypeVar

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.peers import (
    NEW,
    NO_TLS,
    SOURCES,
    driver_command,
    java_command,
    peer_path,
    tool_path,
)
from interop.support.processes import Program
from interop.support.remoting import broker_addrs
from interop.support.servers import JavaNameServer, NameServerProcess, Node
from support.waiting import wait_for

# The switch of RocketMQ's remoting client, in brokers and clients alike.
TLS = {"tls.enable": "true"}


class Killable(Protocol):
    def kill(self) -> None: ...


Started = TypeVar("Started", bound=Killable)


class Launcher:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Killable] = []
        self._numbers = count(1)

    def close(self) -> None:
        """Kill what was started, the last one first. Killing something dead is harmless."""
        while self._started:
            self._started.pop().kill()

    def node(
        self, properties: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> NameServerProcess:
        return self._keep(Node(self._new_folder("node"), properties or {}, port))

    def java_name_server(
        self, properties: Mapping[str, str] | None = None, *, version: str = NEW
    ) -> JavaNameServer:
        folder = self._new_folder(f"namesrv-{version}")
        return self._keep(JavaNameServer(folder, properties or {}, version))

    def broker(
        self,
        version: str,
        namesrv: str,
        *,
        name: str | None = None,
        cluster: str | None = None,
        broker_id: int = 0,
        settings: Mapping[str, str] | None = None,
        tls: bool = False,
        jvm_properties: Mapping[str, str] | None = None,
        registered: bool = True,
    ) -> Broker:
        """Start a broker; with ``registered``, return only once ``namesrv`` knows it.

        With ``tls`` it talks TLS to the name server and to other brokers.
        """
        broker = self._keep(
            Broker(
                version,
                folder=self._new_folder(f"broker-{version}"),
                namesrv=namesrv,
                name=name or f"broker-{version}",
                cluster=cluster or f"cluster-{version}",
                broker_id=broker_id,
                settings=settings,
                jvm_properties={**(TLS if tls else NO_TLS), **(jvm_properties or {})},
            )
        )
        if registered:
            wait_for(
                f"{broker.name} at {namesrv}",
                lambda: broker_addrs(namesrv, broker.name, tls=tls),
                until=lambda addrs: addrs.get(str(broker_id)) == broker.address,
            )
        return broker

    def admin(self) -> Admin:
        return self._keep(Admin(self._new_folder("admin")))

    def mqadmin(self, *arguments: str) -> str:
        """Run one mqadmin command as its own program and return what it printed."""
        home = self._new_folder("mqadmin")
        command = java_command(
            [peer_path("tools-5.5.0")],
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            arguments,
            home=home,
        )
        return self._run("mqadmin", command, home)

    def driver(
        self,
        name: str,
        *arguments: str,
        client: str = NEW,
        tls: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> str:
        """Run one of the Java drivers to its end and return what it printed."""
        home = self._new_folder(name.lower())
        defined = {**(TLS if tls else {}), **(properties or {})}
        command = driver_command(name, arguments, client=client, home=home, properties=defined)
        return self._run(name, command, home)

    def go_probe(self, namesrv: str, topic: str, messages: int, *more: str) -> str:
        options = ["-namesrv", namesrv, "-topic", topic, "-count", str(messages), *more]
        return self._run("Go", [str(peer_path("go", "probe")), *options], self._new_folder("go"))

    def node_js_probe(self, namesrv: str, topic: str, messages: int) -> str:
        script = SOURCES / "node" / "probe.js"
        return self._run(
            "Node",
            [tool_path("node"), str(script), namesrv, topic, str(messages)],
            self._new_folder("node-js"),
            environment={"NODE_PATH": str(peer_path("node", "node_modules"))},
        )

    def cpp_probe(self, namesrv: str, topic: str, messages: int) -> str:
        script = SOURCES / "cpp" / "probe.py"
        return self._run(
            "C++",
            [sys.executable, str(script), namesrv, topic, str(messages)],
            self._new_folder("cpp"),
            environment={"PYTHONPATH": str(peer_path("cpp"))},
        )

    def _run(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        program = self._keep(Program(name, command, folder=folder, environment=environment))
        return program.wait_for_success(timeout_s=90)

    def _keep(self, started: Started) -> Started:
        self._started.append(started)
        return started

    def _new_folder(self, name: str) -> Path:
        return self._folder / f"{next(self._numbers):02}-{name}"
