"""Where ``make peers`` put the real programs, and the command lines that start them."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
PEERS = PROJECT / ".peers"
SOURCES = PROJECT / "tests" / "interop" / "peers"

NEW, OLD = "5.5.0", "4.9.7"
BROKER_VERSIONS = (NEW, OLD)

# Where the client of each release comes from: the tools bring the new one, the old broker its own.
CLIENT_FOLDERS = {NEW: "tools-5.5.0", OLD: "broker-4.9.7"}

# Many small JVMs share few cores here: one collector thread, no optimising compiler.
SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# RocketMQ's servers make a certificate of their own when they start, for peers that might talk TLS
# to them: two seconds of a processor. Here nobody does but who says so.
NO_TLS = {"tls.server.mode": "disabled"}

# The logging configuration of 4.9: warnings go to the output.
LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


class MissingPeer(RuntimeError):
    """A real program is not there. Never a reason to skip: the tests are about it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is missing: run `make peers`")


def peer_path(*parts: str) -> Path:
    path = PEERS.joinpath(*parts)
    if not path.exists():
        raise MissingPeer(str(path.relative_to(PROJECT)))
    return path


def tool_path(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingPeer(f"the program {name}")
    return path


def java_command(
    classpath: Sequence[Path],
    main_class: str,
    arguments: Sequence[str | Path] = (),
    *,
    home: Path,
    options: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """Command line of one JVM; a folder in ``classpath`` stands for the jars and classes in it.

    RocketMQ keeps logs, offsets and configuration below ``user.home`` and ``rocketmq.home.dir``,
    so every JVM gets a ``home`` of its own.
    """
    entries = [f"{folder}:{folder}/*" for folder in classpath]
    homes = {"user.home": str(home), "rocketmq.home.dir": str(home)}
    defined = [f"-D{key}={value}" for key, value in {**homes, **(properties or {})}.items()]
    return [
        tool_path("java"),
        *SMALL_JVM,
        *options,
        *defined,
        "-cp",
        ":".join(entries),
        main_class,
        *map(str, arguments),
    ]


def driver_command(
    name: str,
    arguments: Sequence[str],
    *,
    client: str,
    home: Path,
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """Command line of one of our own Java drivers on the client library of release ``client``."""
    return java_command(
        [peer_path("drivers", client), peer_path(CLIENT_FOLDERS[client])],
        name,
        arguments,
        home=home,
        options=["-Xmx256m"],
        properties=properties,
    )
