"""The two servers, each a process with a folder of its own."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from differential.play import Arena
from interop.support.launcher import Launcher


@contextmanager
def arena(folder: Path) -> Iterator[Arena]:
    """Both servers, started and stopped. Raises MissingPeer without the Java one."""
    launcher = Launcher(folder)
    try:
        java = launcher.java_name_server()
        ours = launcher.node({"allowRemoteConfig": "true"})
        with closing(Arena((java.host, java.port), (ours.host, ours.port))) as servers:
            yield servers
    finally:
        launcher.close()
