"""Until when a node was there is known to a second, however it ended."""

import signal
from pathlib import Path

import pytest

from routebook.events import JournalRecovered, NodeStalled, NodeStarted, RouteQueries
from routebook.journal.alive import Alive, find_alive
from routebook.journal.folder import ALIVE
from support.memories import check_sound, events_of, records, written
from support.nodes import NodeProcess
from support.waiting import GaveUp, wait_for


@pytest.fixture
def node(tmp_path: Path) -> NodeProcess:
    return NodeProcess(tmp_path)


def sign(node: NodeProcess, *, after_ms: int) -> Alive:
    """Wait for one that was given later than that."""
    alive = wait_for(
        "a sign of life",
        lambda: find_alive(journal(node)),
        until=lambda alive: alive is not None and alive.wall_ms > after_ms,
    )
    assert alive is not None
    return alive


def journal(node: NodeProcess) -> Path:
    return node.data_dir / "journal"


def test_a_node_that_was_killed_was_there_after_its_last_record(node: NodeProcess) -> None:
    with node:
        written(journal(node), NodeStarted)
        last = records(journal(node))[-1]
        sign(node, after_ms=last.wall_ms + 1500)
        node.kill()
        alive = find_alive(journal(node))
        node.start()
        [recovered] = events_of(journal(node), JournalRecovered)
        assert alive is not None
        assert (recovered.last_seq, recovered.alive_ms) == (last.seq, alive.wall_ms)
        assert node.stop() == 0
        assert find_alive(journal(node)) is None
        check_sound(journal(node))


def test_a_sign_of_another_life_tells_nothing(node: NodeProcess) -> None:
    with node:
        sign(node, after_ms=0)
        stale = (journal(node) / ALIVE).read_bytes()
        node.stop()
        node.start()
        node.kill()
        (journal(node) / ALIVE).write_bytes(stale)
        node.start()
        [recovered] = events_of(journal(node), JournalRecovered)
        assert recovered.alive_ms is None
        node.kill()
        (journal(node) / ALIVE).write_text('{"v":1,"seq":9999999999,"wall_ms":5,"mono_ms":5}')
        node.start()
        assert events_of(journal(node), JournalRecovered)[-1].alive_ms is None


def test_a_quiet_node_says_so_and_one_that_is_stopped_says_nothing(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "--journal-window-seconds", "1") as node:
        folder = journal(node)
        [empty, *_] = written(folder, RouteQueries, until=lambda found: len(found) > 1)
        assert (empty.topics, empty.others) == ((), 0)
        node.signal(signal.SIGSTOP)
        seen = find_alive(folder)
        assert seen is not None
        count = len(records(folder))
        with pytest.raises(GaveUp):
            wait_for(
                "nothing",
                lambda: len(records(folder)) > count or find_alive(folder) != seen,
                until=bool,
                timeout_s=2.5,
            )
        node.signal(signal.SIGCONT)
        assert written(folder, NodeStalled)
