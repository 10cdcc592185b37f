"""How long a slow or failing broker is left alone."""

import pytest

from routebook.client.faults import FaultTable


@pytest.mark.parametrize(
    ("latency_ms", "pause_ms"),
    [
        (0, 0),
        (549.9, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (4_999, 6_000),
        (5_000, 10_000),
        (14_999, 10_000),
        (15_000, 30_000),
        (1_000_000, 30_000),
    ],
)
def test_the_slower_the_answer_the_longer_the_pause(latency_ms: float, pause_ms: int) -> None:
    table = FaultTable()
    table.record("broker-a", latency_ms, now_ms=1_000)
    assert table.available("broker-a", 1_000 + pause_ms)
    if pause_ms:
        assert not table.available("broker-a", 1_000)
        assert not table.available("broker-a", 1_000 + pause_ms - 1)


def test_a_failure_counts_as_ten_seconds_however_short_it_was() -> None:
    table = FaultTable()
    table.record("broker-a", 1, isolate=True, now_ms=0)
    assert not table.available("broker-a", 9_999)
    assert table.available("broker-a", 10_000)


def test_nothing_shortens_a_pause() -> None:
    table = FaultTable()
    table.record("broker-a", 15_000, now_ms=0)
    table.record("broker-a", 1, now_ms=100)
    table.record("broker-a", 600, now_ms=200)
    assert not table.available("broker-a", 29_999)
    assert table.available("broker-a", 30_000)


def test_a_later_fault_prolongs_a_pause() -> None:
    table = FaultTable()
    table.record("broker-a", 600, now_ms=0)
    table.record("broker-a", 600, now_ms=1_500)
    assert not table.available("broker-a", 3_499)
    assert table.available("broker-a", 3_500)


def test_the_last_attempt_says_whether_a_broker_can_be_reached() -> None:
    table = FaultTable()
    assert table.reachable("broker-a")
    table.record("broker-a", 1, isolate=True, reachable=False, now_ms=0)
    assert not table.reachable("broker-a")
    table.record("broker-a", 1, now_ms=1)
    assert table.reachable("broker-a")


def test_brokers_nothing_is_known_of_are_fine_whatever_the_time() -> None:
    table = FaultTable()
    table.record("broker-a", 15_000, now_ms=0)
    assert table.available("broker-b", -5)
    assert table.reachable("broker-b")


def test_a_quick_answer_is_no_pause_whatever_the_time() -> None:
    table = FaultTable()
    table.record("broker-a", 1, now_ms=-50)
    assert table.available("broker-a", -60)


def test_brokers_that_left_are_forgotten() -> None:
    table = FaultTable()
    for broker in ("broker-a", "broker-b"):
        table.record(broker, 1, isolate=True, reachable=False, now_ms=0)
    table.keep_only({"broker-b"})
    assert len(table) == 1
    assert table.available("broker-a", 0)
    assert table.reachable("broker-a")
    assert not table.available("broker-b", 0)
