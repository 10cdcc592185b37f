"""How far apart the clocks of two nodes are, judged by registrations both saw."""

import pytest

from routebook.events import RegistrationCompleted
from routebook.history.comparing.skew import (
    MOMENT_MS,
    Measured,
    Skew,
    samples_of,
    sightings,
    skew_of,
)
from support.stories import Story


def seen(offsets_ms: list[int], *, version: int | None = None) -> Story:
    """A node that sees registrations a minute apart, each as much later as told."""
    story = Story().at("03:00:00").start()
    begin_ms = story.now_ms
    for number, offset_ms in enumerate(offsets_ms):
        story.now_ms = begin_ms + 60_000 * number + offset_ms
        story.register(version=number if version is None else version)
    return story


def skew(first: Story, other: Story) -> Skew:
    here, there = (sightings((record, 0) for record in story.records) for story in (first, other))
    found = samples_of(here, there, lambda _: True, lambda _: True)
    return skew_of(sample.measured for sample in found)


def test_the_median_of_what_both_saw_is_the_offset() -> None:
    other = seen([5000, 5010, 4990, 5000, 5200])
    assert skew(seen([0] * 5), other) == Skew(5000, 200, samples=5, agreeing=5)


def test_a_clock_may_be_behind() -> None:
    assert skew(seen([5000] * 4), seen([0] * 4)).offset_ms == -5000


def test_one_registration_that_took_long_changes_little() -> None:
    other = seen([10, 12, 11, 30_000, 9, 10, 11])
    assert skew(seen([0] * 7), other).offset_ms == 10


def test_nothing_in_common_is_no_estimate() -> None:
    there = Story().start().register("broker-b")
    assert skew(seen([0]), there) == Skew(offset_ms=None, uncertainty_ms=0, samples=0)


def test_the_same_registration_repeated_is_matched_with_the_nearest() -> None:
    here, there = seen([0, 0, 0], version=1), seen([40, 40], version=1)
    assert skew(here, there).samples == 2


def test_what_a_broker_confirms_after_a_restart_says_nothing_of_clocks() -> None:
    """It comes when the next beat is due, to this node only; several may agree by chance."""
    names = ("broker-a", "broker-b", "broker-c", "broker-d")
    here, there = Story().at("03:00:00").start(), Story().at("03:00:00").start()
    for name in names:
        here.register(name, version=1)
    there.now_ms += 3_600_000
    for number, name in enumerate(names, 1):
        there.confirm(name, host=number).register(name, version=1)
    assert skew(here, there) == Skew(offset_ms=None, uncertainty_ms=0, samples=0)
    assert sum(isinstance(each.event, RegistrationCompleted) for each in there.records) == 4


# -- the rule


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        pytest.param([], Skew(None, 0, 0, 0), id="nothing-was-measured"),
        pytest.param([134_000], Skew(None, 0, 1, 1), id="one-proves-nothing"),
        pytest.param([5, -2000], Skew(0, 2000, 2, 2, assumed=True), id="few-that-say-nothing-else"),
        pytest.param([5, 2001], Skew(None, 0, 2, 2), id="few-and-too-far"),
        pytest.param([5, 7, 6], Skew(6, 100, 3, 3), id="three"),
        pytest.param([3000, 3900, 5000], Skew(3900, 1100, 3, 3), id="their-spread"),
        pytest.param([0, 1000, 2001], Skew(None, 0, 3, 2), id="too-far-apart"),
        pytest.param([0, 0, 0, 134_000, 134_000], Skew(0, 100, 5, 3), id="most-of-them"),
        pytest.param(
            [0, 0, 0, 134_000, 134_000, 134_000], Skew(None, 0, 6, 3), id="only-half-of-them"
        ),
        pytest.param(
            [-108_000_000 + each for each in (0, 3, 9, 14)],
            Skew(-107_999_994, 100, 4, 4),
            id="thirty-hours-behind",
        ),
    ],
)
def test_skew_is_known_from_samples_that_agree(samples: list[int], told: Skew) -> None:
    measured = [Measured(each, MOMENT_MS * number) for number, each in enumerate(samples)]
    assert skew_of(measured) == told


def test_samples_of_one_moment_may_be_one_absence_and_count_once() -> None:
    """Brokers that started together could not reach one of the nodes for 200 s."""
    late = [Measured(200_000 + number, 30_000 * number) for number in range(3)]
    assert skew_of(late) == Skew(None, 0, 3, 1)
    near = [Measured(3, 0), Measured(5, 1), Measured(4, 2)]
    assert skew_of([*late, *near]) == Skew(4, 100, 6, 3)
    again = Measured(200_000, MOMENT_MS + 1)
    assert skew_of([*late, again]) == Skew(200_000, 100, 4, 4)
