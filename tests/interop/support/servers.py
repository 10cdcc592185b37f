"""Name servers as processes: our node, and RocketMQ's own to compare and record with."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from interop.support.peers import LOGBACK, NEW, NO_TLS, java_command, peer_path
from interop.support.processes import Program
from support.ports import free_port


class NameServerProcess:
    """A name server on a port of its own, which it keeps when it is restarted."""

    host = "127.0.0.1"
    ready_text: ClassVar[str]

    def __init__(
        self, folder: Path, properties: Mapping[str, str], port: int | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = port or free_port()
        self._properties = properties
        self.properties_file = folder / "namesrv.properties"
        lines = [f"{key}={value}\n" for key, value in self._file_content().items()]
        self.properties_file.write_text("".join(lines))
        self._program = self._start()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._program.pid

    def stop(self) -> int:
        """Ask it to end with SIGTERM and return the exit code."""
        return self._program.stop()

    def kill(self) -> None:
        self._program.kill()

    def restart(self, *, killed: bool = False) -> None:
        """Stop it as an operator would, or kill it, and start it again on the same port."""
        if killed:
            self.kill()
        else:
            self.stop()
        self._program = self._start()

    def log_text(self) -> str:
        return self._program.output()

    def _file_content(self) -> Mapping[str, str]:
        return self._properties

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _start(self) -> Program:
        log_path = self.folder / "output.log"
        since = len(log_path.read_text(errors="replace")) if log_path.exists() else 0
        program = Program(
            type(self).__name__,
            self._command(),
            folder=self.folder,
            environment={"ROUTEBOOK_DATA_DIR": str(self.folder / "data")},
        )
        try:
            program.wait_for_output(self.ready_text, since=since)
        except BaseException:
            program.kill()
            raise
        return program


class Node(NameServerProcess):
    """``routebook serve``."""

    ready_text = "ready on "

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "routebook", "serve", "-c", str(self.properties_file)]
        listen = ["--listen-port", str(self.port), "--bind-address", self.host]
        if "gatewayPort" not in self._properties:
            listen += ["--gateway-port", "0"]
        return [*command, *listen]


class JavaNameServer(NameServerProcess):
    """RocketMQ's own NameServer."""

    ready_text = "boot success"

    def __init__(self, folder: Path, properties: Mapping[str, str], version: str = NEW) -> None:
        self._version = version
        # 4.9 refuses to start without it.
        (folder / "conf").mkdir(parents=True)
        (folder / "conf" / "logback_namesrv.xml").write_text(LOGBACK)
        super().__init__(folder, properties)

    def _file_content(self) -> Mapping[str, str]:
        return {"listenPort": str(self.port), "bindAddress": self.host, **self._properties}

    def _command(self) -> list[str]:
        return java_command(
            # Its own classpath only: beside the broker's jar it takes the broker's logging.
            [peer_path(f"namesrv-{self._version}")],
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            ["-c", self.properties_file],
            home=self.folder,
            options=["-Xmx512m"],
            # TLS is set by JVM properties there; our node reads the same keys from its file.
            properties={
                **NO_TLS,
                **{k: v for k, v in self._properties.items() if k.startswith("tls.")},
            },
        )
