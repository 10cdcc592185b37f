"""What a run leaves behind: its figures and the circumstances they were measured under."""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.servers import ROOT

Measured = dict[str, float]


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python",
        type=Path,
        default=ROOT / ".venv/bin/python",
        help="interpreter that has routebook installed",
    )
    parser.add_argument(
        "--before", type=Path, help="interpreter that has another version, measured beside"
    )
    parser.add_argument(
        "--java-jars",
        type=Path,
        default=ROOT / ".peers/namesrv-5.5.0",
        help="folder of the Java NameServer and what it needs",
    )


def save(kind: str, conditions: Mapping[str, Any], results: Mapping[str, Any]) -> Path:
    """Write one JSON file; nothing in it names the machine or its folders."""
    measured_at = datetime.now(UTC)
    folder = ROOT / "benchmarks/results"
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}-{measured_at:%Y-%m-%d-%H%M}.json"
    record = {
        "measured_at": measured_at.isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": _machine(),
        "conditions": conditions,
        "results": results,
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path.relative_to(ROOT)


def _commit() -> str:
    described = _output_of("git", "describe", "--always", "--dirty", "--abbrev=12")
    return described or "not committed"


def _machine() -> dict[str, Any]:
    cpu_info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpu_info if line.startswith("model name")]
    memory_kb = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(models),
        "memory_gb": round(memory_kb / 1024**2, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _output_of("java", "--version").partition("\n")[0],
    }


def _output_of(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
