"""What strangers cause is said once a minute."""

import logging

import pytest

from routebook.gateway.rarely import Rarely


def test_it_is_said_once_a_minute_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    rarely = Rarely(logging.getLogger("test"), now_s=lambda: now)
    for _ in range(5):
        rarely.warn("refused", "10.0.0.1")
    now = 61.0
    rarely.warn("refused", "10.0.0.2")
    rarely.warn("another")
    assert caplog.messages == [
        "refused: 10.0.0.1",
        "refused: 10.0.0.2, and 4 times since it was last said",
        "another",
    ]
