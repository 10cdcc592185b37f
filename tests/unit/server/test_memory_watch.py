"""The process itself is looked at: what is seen decides, not what was charged."""

import subprocess
import sys
from pathlib import Path

import pytest

from routebook.server.memory_watch import MemoryWatch, give_back, kill_first, resident_bytes
from routebook.slices import Slices
from routebook.state.account import MIB, Account, Kind, shared_out

LIMIT = 1000 * MIB


class Process:
    """As large as it is told, and smaller by what it sheds."""

    def __init__(self) -> None:
        self.resident = 0
        self.kept = 0
        self.packed = 0

    def shed(self) -> None:
        self.resident -= self.kept
        self.kept = 0

    def pack(self) -> Slices[None]:
        self.packed += 1
        yield

    def watch(self, account: Account) -> MemoryWatch:
        return MemoryWatch(account, shed=self.shed, pack=self.pack, resident=lambda: self.resident)


async def test_near_the_limit_kept_answers_go_first() -> None:
    account, process = Account(shared_out(LIMIT)), Process()
    process.resident, process.kept = 960 * MIB, 100 * MIB
    await process.watch(account).look()
    assert (account.pressed, process.kept) == (None, 0)


async def test_at_the_limit_nothing_more_is_taken_until_there_is_room() -> None:
    account, process = Account(shared_out(LIMIT)), Process()
    watch, process.resident = process.watch(account), 960 * MIB
    await watch.look()
    reason = account.refusal("10.0.0.1", 1)
    assert reason is not None
    assert f"{960 * MIB} of {LIMIT} bytes" in reason
    assert account.refusal("10.0.0.1", 0) is None, "what takes nothing more is welcome"
    assert watch.status({})["pressed"] is True

    process.resident = 900 * MIB
    await watch.look()
    assert account.refusal("10.0.0.1", 1) is None


def test_a_peer_is_told_of_with_all_that_is_held_for_it_whatever_for() -> None:
    account, process = Account(shared_out(LIMIT)), Process()
    account.charge(Kind.TOPICS, "10.0.0.1", 500)
    account.charge(Kind.PAIRS, "10.0.0.1", 50)
    account.charge(Kind.PAIRS, "", 10_000)
    answers = {f"10.0.1.{number}": number for number in range(1, 100)} | {"10.0.0.1": 7}
    told = process.watch(account).status({Kind.ANSWERS: answers, Kind.PENDING: {"10.0.0.2": 90}})

    assert told["peers"] == [
        {"peer": "10.0.0.1", "bytes": 557, "kinds": {"tables": 550, "answers": 7}},
        *({"peer": f"10.0.1.{n}", "bytes": n, "kinds": {"answers": n}} for n in range(99, 90, -1)),
    ]
    assert told["kinds"] == dict.fromkeys(Kind, 0) | {
        "topics": 500,
        "pairs": 10_050,
        "answers": sum(answers.values()),
        "pending": 90,
    }


async def test_what_brokers_leave_behind_is_given_back_once() -> None:
    account, process = Account(shared_out(LIMIT)), Process()
    watch = process.watch(account)
    account.charge(Kind.TOPICS, "10.0.0.1", 50 * MIB)
    await watch.look()
    assert process.packed == 0
    account.charge(Kind.TOPICS, "10.0.0.1", -20 * MIB)
    await watch.look()
    await watch.look()
    assert process.packed == 1


async def test_those_who_come_and_go_between_two_looks_leave_something_behind_too() -> None:
    account, process = Account(shared_out(LIMIT)), Process()
    watch = process.watch(account)
    account.charge(Kind.TOPICS, "10.0.0.1", 50 * MIB)
    account.charge(Kind.TOPICS, "10.0.0.1", -50 * MIB)
    await watch.look()
    assert process.packed == 1


def test_free_memory_goes_back_to_the_system() -> None:
    before = resident_bytes()
    held = [bytes([number % 256]) * 5000 for number in range(20_000)]  # 100 MB in small pieces
    last = held[-1]  # keeps the heap from shrinking by itself
    grown = resident_bytes() - before
    assert grown > 80_000_000
    del held
    give_back()
    assert resident_bytes() - before < grown // 4
    assert len(last) == 5000


def test_a_helper_is_killed_before_the_node() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as helper:
        kill_first(helper.pid)
        assert Path(f"/proc/{helper.pid}/oom_score_adj").read_text() == "1000\n"
        helper.communicate(b"\n")
    kill_first(helper.pid)  # gone; nobody minds


FROZEN = """
import asyncio, gc, sys
from routebook.server.memory_watch import MemoryWatch
from routebook.state.account import Account

if sys.argv[1] == "frozen":
    gc.freeze()
account = Account()
watch = MemoryWatch(account, shed=lambda: None, pack=lambda: iter(()))
gc.set_threshold(100, 1, 100)
full = []
gc.callbacks.append(lambda phase, info: full.append(info) if info["generation"] == 2 else None)
tables = []
for turn in range(200):
    tables.append([[] for _ in range(1000)])
    asyncio.run(watch.look())
before = len(full)
account.most = 10**9  # brokers have left
asyncio.run(watch.look())
print(before, len(full) - before, gc.get_freeze_count() > 200_000)
"""


@pytest.mark.parametrize(
    ("process", "told"),
    [
        # Two calls a collection. The one in the end finds nothing to walk, whoever froze it.
        pytest.param("frozen", "0 2 True", id="one-that-froze-what-it-began-with"),
        pytest.param("other", None, id="any-other"),
    ],
)
def test_the_tables_are_never_walked_in_a_process_that_freezes(
    process: str, told: str | None
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FROZEN, process], capture_output=True, text=True, check=True
    )
    if told is not None:
        assert ran.stdout.strip() == told
    else:
        walked, _, frozen = ran.stdout.split()
        assert int(walked) > 0, "else the other case shows nothing"
        assert frozen == "False"
