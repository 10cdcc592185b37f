"""Bytes recorded from real peers (tests/golden, recorded by tests/interop/record_golden.py)."""

import json
from pathlib import Path
from typing import Any

from routebook.wire.codec import decode_command
from routebook.wire.command import Command
from routebook.wire.frame import FrameDecoder

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
VECTORS: dict[str, dict[str, Any]] = {
    f"{path.parent.name}/{path.stem}": json.loads(path.read_text())
    for path in sorted(GOLDEN.glob("*-*/*.json"))
}


def frame_of(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name]["hex"])


def command_of(name: str) -> Command:
    decoder = FrameDecoder()
    decoder.feed(frame_of(name))
    frame = decoder.next_frame()
    assert frame is not None
    assert decoder.buffered == 0
    return decode_command(frame)
