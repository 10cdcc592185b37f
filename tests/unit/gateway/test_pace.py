"""Pace: so many a second, whoever wants."""

from routebook.gateway.pace import Pace


def test_as_many_as_allowed_go_at_once_and_the_rest_a_while_later() -> None:
    now = 100.0
    pace = Pace(10, now_s=lambda: now)
    assert [pace.wait_s() for _ in range(10)] == [0.0] * 10
    waits = [round(pace.wait_s(), 3) for _ in range(3)]
    assert waits == [0.1, 0.2, 0.3]


async def test_who_would_wait_too_long_is_told_so_and_takes_no_place() -> None:
    now = 100.0
    pace = Pace(10, now_s=lambda: now)
    for _ in range(10):
        pace.wait_s()
    assert await pace.place(at_most_s=0.05) is False
    assert round(pace.wait_s(), 3) == 0.1


def test_a_quiet_minute_saves_up_a_second_and_no_more() -> None:
    now = 100.0
    pace = Pace(10, now_s=lambda: now)
    now = 160.0
    assert [pace.wait_s() for _ in range(11)][-1] > 0
