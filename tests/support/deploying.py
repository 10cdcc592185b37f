"""The files of deploy/, and the programs that judge them."""

import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any

import yaml

from interop.support.peers import peer_path
from support.documents import ROOT

DEPLOY = ROOT / "deploy"


def judged(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a program says that is content, both outputs together; fails with it where it is not."""
    ran = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, f"{shlex.join(map(str, command))}\n{ran.stdout}"
    return ran.stdout


def of_python(module: str) -> tuple[str, ...]:
    """The command of a program that is a Python module of this environment."""
    return sys.executable, "-m", module


def packaged(distribution: str, name: str) -> Path:
    """A program that a Python distribution of this environment consists of."""
    [path] = [file for file in files(distribution) or () if file.name == name]
    return Path(str(path.locate()))


def debian_program(name: str) -> Path:
    return peer_path("debian", "bin", name)


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document is not None]


def document(path: Path) -> dict[str, Any]:
    [only] = documents(path.read_text())
    return only


def properties(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a container file."""

    word: str
    rest: str


def container_stages(path: Path) -> list[list[Step]]:
    """The stages of a container file, each beginning with its FROM."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    stages: list[list[Step]] = []
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stages.append([])
        if word:
            stages[-1].append(Step(word, " ".join(rest.split())))
    return stages
