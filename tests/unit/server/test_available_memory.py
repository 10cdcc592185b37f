"""The memory a node may count on is the least that anybody around it allows."""

from pathlib import Path

import pytest

from routebook.server.available_memory import available_memory, memory_limit
from routebook.state.account import LEAST, MIB

UNLIMITED_V1 = "9223372036854771712"


def made(root: Path, membership: str, **limits: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(membership)
    for name, text in limits.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_in_", ".limit_in_")
        path = path.with_name(path.name.replace("max", "memory.max"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.mark.parametrize(
    ("membership", "limits", "expected"),
    [
        pytest.param("0::/a/b\n", {"a__b__max": str(300 * MIB)}, 300 * MIB, id="version-2"),
        pytest.param(
            "0::/a/b\n", {"a__b__max": "max", "a__max": str(200 * MIB)}, 200 * MIB, id="around-it"
        ),
        pytest.param("0::/gone\n", {"max": str(100 * MIB)}, 100 * MIB, id="in-a-container"),
        pytest.param(
            "4:memory:/x\n", {"memory__x__memory_in_bytes": str(50 * MIB)}, 50 * MIB, id="version-1"
        ),
    ],
)
def test_the_limit_of_a_cgroup_counts(
    tmp_path: Path, membership: str, limits: dict[str, str], expected: int
) -> None:
    assert available_memory(made(tmp_path, membership, **limits)) == expected


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    machine = available_memory(tmp_path / "empty")
    limits = {"memory__x__memory_in_bytes": UNLIMITED_V1}
    assert available_memory(made(tmp_path, "4:memory:/x\n0::/x\n", **limits)) == machine


def test_an_operator_knows_best_and_nobody_gets_less_than_it_takes_to_serve() -> None:
    assert memory_limit(300 * MIB) == 300 * MIB
    assert memory_limit(0) >= LEAST
