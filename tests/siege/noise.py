"""Refusals and conflicts as fast as a node takes them: what they leave of its disk and its past."""

import random
import time
from contextlib import ExitStack
from pathlib import Path

from routebook.events import KvChanged, NoiseCounted, TopicsChanged
from siege.attacks import MIB, from_host
from support import raw
from support.brokers import Broker
from support.builders import registration_body
from support.memories import all_written, check_sound, events_of, records
from support.nodes import NodeProcess
from support.raw import BlockingPeer

RETAINED_MB = 50
HOSTS = 40
BATCH = 64
NOISE_BYTES = 12 * MIB  # 4 packed at once, what fills again meanwhile, and a segment not packed yet
LOG_AT_ONCE = 16 * MIB  # docs/limits.md, and 8 KiB for each second
CHANGES = 200


def noise(folder: Path, seconds: float) -> None:
    """Flood a node for so long; all its files fit the room, and nothing of before is lost."""
    words = ["--journal-retain-megabytes", str(RETAINED_MB)]
    with ExitStack() as stack:
        node = stack.enter_context(NodeProcess(folder, *words))
        owner = stack.enter_context(node.connect())
        _change_much(owner)
        all_written(owner)
        journal = node.data_dir / "journal"
        before = [(record.seq, record.event) for record in records(journal)]
        changed = len(events_of(journal, TopicsChanged)), len(events_of(journal, KvChanged))
        assert min(changed) >= CHANGES, changed
        peers = [stack.enter_context(from_host(node, number + 1)) for number in range(HOSTS)]
        chance = random.Random(14)
        batches = [[_batch(number, chance) for _ in range(4)] for number in range(HOSTS)]
        largest = size_before = _size(node.data_dir)
        answered = 0
        begun = time.monotonic()
        while time.monotonic() < begun + seconds:
            for peer, made in zip(peers, batches, strict=True):
                peer.send(chance.choice(made))
            for peer in peers:
                answered += _skipped(peer, BATCH)
            largest = max(largest, _size(node.data_dir))
        took_s = time.monotonic() - begun
        all_written(owner)
        log_bytes = len(node.stderr.encode())
        largest = max(largest, _size(node.data_dir))
        assert node.stop() == 0
        kept = {record.seq: record.event for record in records(journal)}
        assert all(kept.get(seq) == event for seq, event in before), "something of before is gone"
        check_sound(journal)
        counted = events_of(journal, NoiseCounted)
    print(
        f"{'noise':16} {answered} requests in {took_s:.0f} s,"
        f" {sum(event.refused + event.conflicts for event in counted)} of them counted only;"
        f" {largest / 1e6:.1f} MB of {RETAINED_MB} on disk at most, log {log_bytes / 1e6:.1f} MB;"
        f" all {len(before)} records of before are there",
        flush=True,
    )
    assert largest < RETAINED_MB * 1_000_000
    assert largest - size_before < NOISE_BYTES
    assert log_bytes < LOG_AT_ONCE + took_s * 8 * 1024


def _change_much(owner: BlockingPeer) -> None:
    """Route changes, and acts of an administrator."""
    for number in range(1, CHANGES + 1):
        topics = ["orders", "refunds", f"topic-{number}"]
        body = registration_body(topics, counter=number, state_version=2)
        assert owner.ask(raw.REGISTER, Broker("owned").fields, body).code == raw.SUCCESS
        put = owner.call(raw.PUT_KV, namespace="n", key=f"k{number}", value=str(number))
        assert put.code == raw.SUCCESS
    assert owner.call(raw.WIPE_WRITE, brokerName="owned").code == raw.SUCCESS


def _batch(host: int, chance: random.Random) -> bytes:
    """Requests that are refused, and now and then a broker that comes too late for its place."""
    late = Broker("owned", addr=f"10.9.0.{host + 1}:10911").fields
    body = registration_body(["orders", "refunds"], state_version=1)
    frames = (
        raw.request(raw.REGISTER, {"brokerName": _odd_name(chance)}, b"", opaque=number)
        if number % 8
        else raw.request(raw.REGISTER, late, body, opaque=number)
        for number in range(BATCH)
    )
    return b"".join(frames)


def _odd_name(chance: random.Random) -> str:
    """As long as a record takes, and hard to pack."""
    return "".join(map(chr, chance.choices(range(0x4E00, 0x9F00), k=200)))


def _skipped(peer: BlockingPeer, answers: int) -> int:
    """Read so many answers, and look at none of them."""
    left, received = answers, b""
    while left:
        received += peer.socket.recv(256 * 1024)
        while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
            received = received[4 + int.from_bytes(received[:4], "big") :]
            left -= 1
    return answers


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # just sealed, or removed
            continue
    return total
