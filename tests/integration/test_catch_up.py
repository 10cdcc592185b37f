"""Many pairs that the journal does not know: the node serves at once, and history is true."""

import json
from pathlib import Path

from routebook.events import Cause, KvChanged
from routebook.recovery import recover
from routebook.server.kv_catch_up import TOLD_AT_ONCE
from support import raw
from support.memories import check_sound, events_of, journal_of
from support.nodes import local_node
from support.raw import Peer

MANY = 10 * TOLD_AT_ONCE


def pairs(word: str) -> dict[str, str]:
    return {f"key-{number:05d}": f"{word}-{number}" for number in range(MANY)}


def lay(home: Path, found: dict[str, str]) -> None:
    path = home / "namesrv" / "kvConfig.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"configTable": {"n": found}}))


def changed(home: Path) -> list[KvChanged]:
    return events_of(journal_of(home), KvChanged)


async def test_a_node_serves_pairs_before_the_journal_knows_them_all(tmp_path: Path) -> None:
    lay(tmp_path, pairs("a"))
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        told = node.health()["revision"]
        answer = await peer.call(raw.GET_KV, namespace="n", key=f"key-{MANY - 1:05d}")
        assert answer.ext_fields == {"value": f"a-{MANY - 1}"}
        assert TOLD_AT_ONCE <= int(str(told)) < MANY
    assert len(changed(tmp_path)) == MANY
    check_sound(journal_of(tmp_path))


async def test_a_change_of_a_pair_comes_after_what_was_found(tmp_path: Path) -> None:
    lay(tmp_path, pairs("a"))
    last = f"key-{MANY - 1:05d}"
    async with local_node(tmp_path) as node, Peer(node.port) as peer:
        answer = await peer.call(raw.PUT_KV, namespace="n", key=last, value="new")
        assert answer.code == raw.SUCCESS
        assert (await peer.call(raw.GET_KV, namespace="n", key=last)).ext_fields == {"value": "new"}
    [*found, put] = changed(tmp_path)
    assert {event.cause for event in found} == {Cause.RECOVERED}
    assert (put.cause, put.key, put.before) == (Cause.ADMIN, last, f"a-{MANY - 1}")
    known = recover(journal_of(tmp_path), wall_ms=0)
    assert known is not None
    assert known.kv == {"n": pairs("a") | {last: "new"}}
    assert not known.contradictions


async def test_what_somebody_changed_while_no_node_ran_is_told_once(tmp_path: Path) -> None:
    lay(tmp_path, pairs("a"))
    async with local_node(tmp_path):
        pass
    lay(tmp_path, pairs("b"))
    async with local_node(tmp_path):
        pass  # it is told all the same
    second = changed(tmp_path)[MANY:]
    assert [(event.before, event.after) for event in second] == [
        (f"a-{number}", f"b-{number}") for number in range(MANY)
    ]
    async with local_node(tmp_path):
        pass
    assert len(changed(tmp_path)) == 2 * MANY
