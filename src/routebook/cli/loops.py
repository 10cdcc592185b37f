"""The event loop of a command, and how a long-running one starts and is told to stop."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

Result = TypeVar("Result")


def say_now(text: str) -> None:
    """A line on standard output for whoever waits for it."""
    click.echo(text)
    sys.stdout.flush()


def run_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run`` on the fastest loop there is."""
    try:
        import uvloop
    except ImportError:  # a platform without it
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    else:
        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(work)


def stop_signals() -> asyncio.Event:
    """Set by SIGTERM or SIGINT; the second of them ends the process at once."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)  # asked twice: no more waiting for anybody
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop


async def completed(work: Coroutine[Any, Any, None], *, unless: asyncio.Event) -> bool:
    """Whether ``work`` came to its end before the event, which cancels it."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(unless.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        await working
        return True
    working.cancel()
    await asyncio.gather(working, waiting, return_exceptions=True)
    return False
