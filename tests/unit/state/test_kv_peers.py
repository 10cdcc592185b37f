"""Key-value pairs are paid for by the host that set them, which has its share and no more."""

import pytest

from routebook.state.account import MIB, Account, Budgets, Kind
from routebook.state.errors import NoRoom, StateError, TableFull
from routebook.state.kv import KvChange, KvStore, Reserved, Tables
from routebook.state.revision import Revision


def store(
    max_bytes: int = 1000, *, tables: int = MIB, percent: int = 50, pairs: Tables | None = None
) -> tuple[KvStore, Account]:
    account = Account(Budgets(tables, tables, MIB, MIB, MIB, MIB, MIB, percent))
    return KvStore(Revision(), max_bytes, pairs, account), account


def change(key: str, value: str | None, *, host: int = 1, port: int = 1) -> KvChange:
    return KvChange("n", key, value, f"10.0.0.{host}:{port}")


def put(kv: KvStore, *changes: KvChange) -> None:
    for made in changes:
        kv.check(made)
        kv.apply([made])


def test_one_host_cannot_use_up_what_all_have_however_many_connections_it_has() -> None:
    kv, _ = store()
    refused, said = 0, ""
    for number in range(100):
        try:
            put(kv, change(f"key-{number:02}", "v" * 14, port=number))
        except TableFull as error:
            refused += 1
            said = str(error)
    assert 100 - refused == 24  # of 20 characters each, and its namespace: half of 1000
    assert said == (
        "key-value pairs of 10.0.0.1 exceed the limit of 500 (maxKvBytes, memoryPeerPercent)"
    )
    put(kv, change("mine", "v" * 300, host=2))


def test_what_waits_for_the_disk_counts_for_its_host() -> None:
    kv, _ = store()
    waiting = Reserved()
    waiting.add(change("a", "v" * 480))
    with pytest.raises(TableFull, match=r"of 10\.0\.0\.1 exceed"):
        kv.check(change("b", "v" * 40), waiting)
    with pytest.raises(TableFull, match=r"changes of key-value pairs of 10\.0\.0\.1 exceed"):
        kv.check(change("b" * 40, None), waiting)
    assert kv.check(change("b", "v" * 40, host=2), waiting)
    waiting.give_back(change("a", "v" * 480))
    assert (waiting.total, waiting.by_host) == (0, {})
    assert kv.check(change("b", "v" * 40), waiting)


def test_the_memory_of_a_pair_is_held_by_whoever_set_it_last_until_it_is_deleted() -> None:
    kv, account = store()
    put(kv, change("k", "v" * 100))
    first = account.held_by("10.0.0.1")
    put(kv, change("k", "v" * 90, host=2))
    assert account.held_by("10.0.0.1") + account.held_by("10.0.0.2") == first - 10
    assert account.held_by("10.0.0.2") > 90
    put(kv, change("k", None, host=3))
    assert account.held_by("10.0.0.2") == account.held_by("10.0.0.3") == 0
    assert account.used[Kind.PAIRS] == account.held_by("10.0.0.1")  # its namespace, which stays


def test_a_host_beyond_its_memory_is_refused_and_another_is_not() -> None:
    kv, account = store(10**6, tables=20_000)
    with pytest.raises(NoRoom, match="memoryPeerPercent"):
        put(kv, *(change(str(number), "v" * 100) for number in range(100)))
    assert account.held_by("10.0.0.1") <= 10_000
    put(kv, change("other", "v" * 100, host=2))


def test_who_takes_over_a_pair_of_another_needs_room_for_all_of_it() -> None:
    kv, _ = store()
    put(kv, change("a", "v" * 400))
    put(kv, change("b", "v" * 400, host=2))
    with pytest.raises(TableFull, match=r"of 10\.0\.0\.2"):
        kv.check(change("a", "w" * 400, host=2))
    assert kv.check(change("a", "w" * 401))
    assert kv.check(change("a", None, host=2)), "whoever made it, it may be deleted"


def test_nobody_pays_for_pairs_that_were_there_at_the_start() -> None:
    kv, account = store(pairs={"n": {"k": "v" * 900}})
    assert account.used[Kind.PAIRS] > 900
    assert set(account.by_peer) == {""}
    put(kv, change("k", "w" * 400))
    assert account.held_by("10.0.0.1") > 400 > 0 < account.held_by("")  # its namespace


def test_namespaces_that_are_made_and_emptied_again_fill_the_share_of_one_host_only() -> None:
    kv, account = store()
    made_and_emptied = (
        KvChange(f"namespace-{number}", "k", value, "10.0.0.1:1")
        for number in range(100)
        for value in ("v", None)
    )
    with pytest.raises(StateError, match=r"of 10\.0\.0\.1"):
        put(kv, *made_and_emptied)
    assert account.used[Kind.PAIRS] > 0
    put(kv, change("k", "v", host=2))
