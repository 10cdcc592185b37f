"""Moments as people write them, and times as people read them."""

import pytest

from routebook.history.times import AtSeq, AtTime, BadTime, parse
from routebook.words import day, exact, span, time_of_day
from support.stories import ms

NOW_MS = ms("12:00:00")


@pytest.mark.parametrize(
    ("text", "wall_ms"),
    [
        pytest.param("2026-11-15T03:12:04Z", ms("03:12:04"), id="utc"),
        pytest.param("2026-11-15T03:12:04", ms("03:12:04"), id="no-zone-is-utc"),
        pytest.param("2026-11-15 03:12:04", ms("03:12:04"), id="blank-for-the-T"),
        pytest.param("2026-11-15T04:12:04+01:00", ms("03:12:04"), id="zone"),
        pytest.param("2026-11-15T03:12:04.120Z", ms("03:12:04") + 120, id="milliseconds"),
        pytest.param("2026-11-15T03:12Z", ms("03:12:00"), id="minutes"),
        pytest.param("2026-11-15", ms("00:00:00"), id="midnight"),
        pytest.param("1969-12-31T23:59:59Z", -1000, id="before-1970"),
        pytest.param("now", NOW_MS, id="now"),
        pytest.param(" NOW ", NOW_MS, id="now-in-capitals"),
        pytest.param("-15m", NOW_MS - 900_000, id="minutes-ago"),
        pytest.param("-2h30m", NOW_MS - 9_000_000, id="hours-and-minutes-ago"),
        pytest.param("-1d", NOW_MS - 86_400_000, id="a-day-ago"),
        pytest.param("-1w1s", NOW_MS - 604_801_000, id="a-week-and-a-second-ago"),
        pytest.param("-0s", NOW_MS, id="no-time-ago"),
    ],
)
def test_a_time_can_be_written_in_many_ways(text: str, wall_ms: int) -> None:
    assert parse(text, now_ms=NOW_MS) == AtTime(wall_ms)


@pytest.mark.parametrize(("text", "seq"), [("seq:1234", 1234), ("1234", 1234), ("seq:0", 0)])
def test_a_number_is_a_sequence_number(text: str, seq: int) -> None:
    assert parse(text, now_ms=NOW_MS) == AtSeq(seq)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("yesterday", "it is not an ISO 8601 time"),
        ("", "it is not an ISO 8601 time"),
        ("-15", "after the minus come numbers with a unit, w, d, h, m or s"),
        ("-15x", "after the minus come numbers with a unit, w, d, h, m or s"),
        ("-", "after the minus come numbers with a unit, w, d, h, m or s"),
        ("seq:abc", "after seq: comes a sequence number of up to 18 digits"),
        ("seq:-1", "after seq: comes a sequence number of up to 18 digits"),
        ("2026-13-01", "month must be in 1..12"),
        ("2026-11-15T25:00", "hour must be in 0..23"),
    ],
)
def test_what_is_no_moment_is_refused_with_what_would_be_one(text: str, reason: str) -> None:
    with pytest.raises(BadTime) as refused:
        parse(text, now_ms=NOW_MS)
    assert str(refused.value) == (
        f"{text!r} is no moment: {reason}; write 2026-11-15T03:12:04Z, 03:12, 15m, 2h30m,"
        " seq:1234 or now"
    )


@pytest.mark.parametrize(
    ("wall_ms", "shown"),
    [
        (ms("03:12:04"), "2026-11-15T03:12:04Z"),
        (ms("03:12:04") + 7, "2026-11-15T03:12:04.007Z"),
        (10**18, "1000000000000000000 ms after 1970"),
    ],
)
def test_a_time_is_shown_as_exactly_as_it_is_known(wall_ms: int, shown: str) -> None:
    assert exact(wall_ms) == shown


def test_a_time_far_beyond_any_calendar_can_still_be_shown() -> None:
    assert day(10**18) == time_of_day(10**18) == "1000000000000000000 ms after 1970"


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0, "0 ms"),
        (850, "850 ms"),
        (4000, "4 s"),
        (4260, "4.2 s"),
        (9999, "9.9 s"),
        (30_000, "30 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (95_000, "1 min 35 s"),
        (7_500_000, "2 h 5 min"),
        (86_400_000, "1 d"),
        (273_600_000, "3 d 4 h"),
        (-30_000, "-30 s"),
    ],
)
def test_a_span_is_shown_in_its_two_largest_units(duration_ms: int, shown: str) -> None:
    assert span(duration_ms) == shown


MORNING_MS = ms("08:30:00")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("08:30", "2026-11-15T08:30:00Z"),  # now
        ("08:29:15", "2026-11-15T08:29:15Z"),
        ("8:15", "2026-11-15T08:15:00Z"),
        ("08:31", "2026-11-14T08:31:00Z"),  # yesterday: today's is still to come
        ("23:00Z", "2026-11-14T23:00:00Z"),
        ("10:15+02:00", "2026-11-15T08:15:00Z"),
        ("00:10+02:00", "2026-11-14T22:10:00Z"),
        ("15m", "2026-11-15T08:15:00Z"),
        ("-15m", "2026-11-15T08:15:00Z"),
        ("1d2h", "2026-11-14T06:30:00Z"),
    ],
)
def test_a_moment_of_the_last_hours_is_told_briefly(text: str, moment: str) -> None:
    assert str(parse(text, now_ms=MORNING_MS)) == moment


@pytest.mark.parametrize("text", ["24:00", "08:60", "8:3", "08:30pm"])
def test_what_looks_like_a_time_of_day_and_is_none(text: str) -> None:
    with pytest.raises(BadTime, match=r"03:12, 15m"):
        parse(text, now_ms=MORNING_MS)
