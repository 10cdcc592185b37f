"""The Java NameServer and ours, asked the same things (``make differential`` for many more)."""

import random
import re
from collections.abc import Iterator

import pytest

from differential.cases import CASES
from differential.explore import explore
from differential.play import Arena, Disagreement
from differential.rules import OURS, Rule
from differential.servers import arena
from interop.support.peers import PROJECT

SEQUENCES = 40
COMPATIBILITY = PROJECT / "docs" / "compatibility.md"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("differential")) as servers:
        yield servers


@pytest.mark.parametrize("name", CASES)
def test_a_case_kept_by_name_differs_only_where_a_rule_allows_it(servers: Arena, name: str) -> None:
    servers.play(CASES[name])


@pytest.mark.parametrize("seed", [7, None], ids=["the-same", "another-one"])
def test_answers_differ_only_where_a_rule_allows_it(servers: Arena, seed: int | None) -> None:
    """With a seed of its own each run; a Disagreement names it."""
    compared, excused = servers.compared, servers.applied[Rule.MEMBER_GROUP_REMARK]
    seed_number = random.randrange(1 << 32) if seed is None else seed
    print(f"seed {seed_number}")
    explore(servers, count=SEQUENCES, seed_number=seed_number)
    assert servers.compared - compared > SEQUENCES * 40
    assert servers.applied[Rule.MEMBER_GROUP_REMARK] - excused > SEQUENCES
    assert len(servers.unrepeated) <= 1, "\n".join(servers.unrepeated)


def test_a_difference_that_no_rule_allows_is_found_and_made_small(servers: Arena) -> None:
    with (
        servers.judging_by(OURS - {Rule.WRITE_BIT_ONLY}),
        pytest.raises(Disagreement, match=r"no rule explains it") as found,
    ):
        explore(servers, count=500, seed_number=6)  # one of the first ten shows it
    steps = re.findall(r"^ +\d+ (\w+)", str(found.value), re.MULTILINE)
    assert steps == ["Register", "SetWritable"]


@pytest.mark.parametrize("rule", Rule, ids=lambda rule: rule.title)
def test_every_rule_has_a_heading_of_its_name(rule: Rule) -> None:
    assert f"\n### {rule.title}\n" in COMPATIBILITY.read_text()
