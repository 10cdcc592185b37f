"""What a client may leave behind and must not: tasks and sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from support.waiting import soon


def open_sockets() -> list[str]:
    links: list[str] = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor that lists the others
            links.append(str(entry.readlink()))
    return sorted(link for link in links if link.startswith("socket:"))


def client_tasks() -> list[str]:
    """Coroutines of the client package that some task of this loop still runs."""
    names: list[str] = []
    for task in asyncio.all_tasks():
        code = getattr(task.get_coro(), "cr_code", None)
        if code is not None and "/routebook/client/" in code.co_filename:
            names.append(code.co_qualname)
    return names


@asynccontextmanager
async def nothing_left_behind() -> AsyncIterator[None]:
    """At the end there are the tasks and sockets there were at the beginning, and no others."""
    tasks: set[asyncio.Task[object] | None] = {*asyncio.all_tasks()}
    sockets = open_sockets()
    yield
    assert client_tasks() == []
    tasks |= {asyncio.current_task()}  # a fixture ends in another task than it began in
    await soon("tasks to end", lambda: asyncio.all_tasks() - tasks, until=lambda more: not more)
    await soon("sockets to be closed", open_sockets, until=lambda now: now == sockets)
