"""What is to be done again and again is, whatever happens in one turn."""

import asyncio
import logging

import pytest

from routebook.server.background import Upkeep, again_and_again


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


class Odd(BaseException):
    """Of no type that anybody expects."""


@pytest.mark.parametrize(
    "error",
    [Odd("at all"), asyncio.CancelledError(), MemoryError()],
    ids=lambda e: type(e).__name__,
)
async def test_an_error_of_any_type_is_counted_and_the_next_turn_comes(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep, turns, gone_on = Upkeep(), 0, asyncio.Event()

    async def turn() -> None:
        nonlocal turns
        turns += 1
        if turns == 1:
            raise error
        assert list(upkeep.status()["failing"]) == (["counting"] if turns == 2 else [])  # type: ignore[call-overload]
        if turns == 3:
            gone_on.set()

    task = asyncio.create_task(again_and_again("counting", turn, every_s=0.001, upkeep=upkeep))
    async with asyncio.timeout(20):
        await gone_on.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert upkeep.status()["errors"] == 1
    assert str(upkeep.status()["last_error"]).startswith(f"counting: {type(error).__name__}")


async def test_errors_that_only_the_loop_hears_of_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, upkeep = asyncio.get_running_loop(), Upkeep()
    before = loop.get_exception_handler()
    upkeep.watch(loop)
    loop.call_soon(lambda: 1 // 0)
    await asyncio.sleep(0.01)
    upkeep.unwatch()
    assert upkeep.status()["errors"] == 1
    assert "ZeroDivisionError" in caplog.text
    assert loop.get_exception_handler() is before
