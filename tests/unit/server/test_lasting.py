"""What is to be done again and again is, whatever happens in one turn."""

import asyncio
import logging

import pytest

from routebook.server.lasting import again_and_again


async def test_a_turn_that_fails_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    turns, done = 0, asyncio.Event()

    async def turn() -> None:
        nonlocal turns
        turns += 1
        if turns in (2, 3):
            raise ValueError("of no use")
        if turns == 5:
            done.set()

    task = asyncio.create_task(again_and_again("counting", turn, every_s=0.001))
    async with asyncio.timeout(20):
        await done.wait()
    task.cancel()
    said = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert said == [
        (logging.ERROR, "counting failed; tried again every 0.001 s"),
        (logging.WARNING, "counting works again"),
    ]
