"""A watcher notices a gap, a step back and another boot by itself."""

import pytest

from routebook.client.chain import BrokenChain, Chain
from routebook.wire.watching import Push


def push(n: int, after: int, rev: int, boot: str = "b") -> Push:
    return Push("routes", boot, n, after, rev, {}, b"")


def test_frames_that_follow_each_other_are_a_chain() -> None:
    chain = Chain("b", 10)
    for frame in (push(1, 10, 10), push(2, 10, 12), push(3, 12, 40)):
        chain.follow(frame)
    assert chain.rev == 40


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(push(3, 12, 13), id="a-frame-is-missing"),
        pytest.param(push(1, 12, 13), id="told-again"),
        pytest.param(push(2, 11, 13), id="after-another-revision"),
        pytest.param(push(2, 12, 11), id="back"),
        pytest.param(push(2, 12, 13, "c"), id="of-another-boot"),
    ],
)
def test_anything_else_is_not(frame: Push) -> None:
    chain = Chain("b", 10)
    chain.follow(push(1, 10, 12))
    with pytest.raises(BrokenChain):
        chain.follow(frame)
