"""Real brokers, 5.5.0 and 4.9.7, each with its own folder and ports."""

from collections.abc import Mapping
from pathlib import Path

from interop.support.peers import LOGBACK, NEW, OLD, java_command, peer_path
from interop.support.processes import Program
from support.ports import free_broker_port

# Both releases reach into the JDK for direct buffers; JDK 17 wants to be told.
JDK_ACCESS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
HEAP = ("-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m")

# Idle threads of 5.5.0 that would eat the cores of the tests. TransactionMetricsFlushService spins
# without a pause until its first interval (10 s by default) has passed; the timer wheel is 37 MB,
# written out every second. (Without the wheel, deleting a topic fails in the broker.)
QUIET = {
    NEW: {"timerFlushIntervalMs": "60000", "transactionMetricFlushInterval": "300"},
    OLD: dict[str, str](),
}


class Broker:
    """One broker process that has finished its first registration, or tried to."""

    def __init__(
        self,
        version: str,
        *,
        folder: Path,
        namesrv: str,
        name: str,
        cluster: str,
        broker_id: int = 0,
        settings: Mapping[str, str] | None = None,
        jvm_properties: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.name = name
        self.cluster = cluster
        self.broker_id = broker_id
        self.port = free_broker_port()
        configuration = {
            "brokerClusterName": cluster,
            "brokerName": name,
            "brokerId": str(broker_id),
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "listenPort": str(self.port),
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": namesrv,
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
            "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
            "transientStorePoolEnable": "false",
            "diskMaxUsedSpaceRatio": "99",
            **QUIET[version],
            **(settings or {}),
        }
        (folder / "conf").mkdir(parents=True)
        # 4.9 refuses to start without these files.
        for program in ("broker", "namesrv", "tools"):
            (folder / "conf" / f"logback_{program}.xml").write_text(LOGBACK)
        configuration_file = folder / "broker.conf"
        # One without a value is left to the broker, which tells "" from nothing.
        lines = [f"{key}={value}\n" for key, value in configuration.items() if value]
        configuration_file.write_text("".join(lines))
        command = java_command(
            [peer_path(f"broker-{version}")],
            "org.apache.rocketmq.broker.BrokerStartup",
            ["-c", configuration_file],
            home=folder,
            options=[*HEAP, *JDK_ACCESS],
            properties=jvm_properties,
        )
        self._program = Program(f"broker {name} ({version})", command, folder=folder)
        try:
            self._program.wait_for_output("boot success")
        except BaseException:
            self._program.kill()
            raise

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def running(self) -> bool:
        return self._program.running

    def terminate(self) -> None:
        """Begin an orderly shutdown, which takes seconds, and do not wait for its end."""
        self._program.terminate()

    def kill(self) -> None:
        self._program.kill()

    def log_text(self) -> str:
        """Everything it printed, and the log file 5.5.0 keeps below its home."""
        log_file = self._program.folder / "logs" / "rocketmqlogs" / "broker.log"
        logged = log_file.read_text(errors="replace") if log_file.exists() else ""
        return self._program.output() + logged
