"""What systemd is told, over the socket it names."""

import os
import socket
from pathlib import Path

import pytest

from routebook.server.service_manager import ServiceManager, kept_informed
from support.waiting import soon


def environment(path: Path, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(path), **more}


@pytest.fixture
def heard(tmp_path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(tmp_path / "notify"))
    listening.setblocking(False)
    return listening


async def test_it_hears_that_the_node_is_ready_alive_and_stopping(
    tmp_path: Path, heard: socket.socket
) -> None:
    said: list[str] = []

    def listen() -> list[str]:
        while True:
            try:
                said.append(heard.recv(4096).decode())
            except BlockingIOError:
                return said

    with heard:
        manager = ServiceManager.of(environment(tmp_path / "notify", WATCHDOG_USEC="30000"))
        async with kept_informed(manager, "ready on 127.0.0.1:9876"):
            await soon("two signs of life", listen, until=lambda all: all.count("WATCHDOG=1") > 1)
        listen()
    assert said[0] == "READY=1\nSTATUS=ready on 127.0.0.1:9876"
    assert said[-1] == "STOPPING=1\nSTATUS=stopping"
    assert set(said[1:-1]) == {"WATCHDOG=1"}


@pytest.mark.parametrize(
    ("more", "every_s"),
    [
        pytest.param({}, None, id="not-asked-for"),
        pytest.param({"WATCHDOG_USEC": "30000000"}, 10.0, id="thrice-as-often"),
        pytest.param({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None, id="of-another"),
        pytest.param(
            {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 10.0, id="of-ours"
        ),
        pytest.param({"WATCHDOG_USEC": "soon"}, None, id="no-number"),
    ],
)
def test_it_says_how_often_it_wants_to_hear(more: dict[str, str], every_s: float | None) -> None:
    assert ServiceManager.of({"NOTIFY_SOCKET": "/run/notify", **more}).every_s == every_s


def test_nobody_is_told_anything_where_nobody_asked() -> None:
    manager = ServiceManager.of({"WATCHDOG_USEC": "1000000"})
    manager.ready("ready")
    assert manager.every_s is None


def test_a_manager_that_is_not_there_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manager = ServiceManager.of(environment(tmp_path / "nobody"))
    manager.ready("ready")
    manager.alive()
    assert len(caplog.messages) == 1


def test_a_name_in_no_file_system_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        name = f"routebook-test-{os.getpid()}"
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        ServiceManager.of({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert listening.recv(100) == b"WATCHDOG=1"
