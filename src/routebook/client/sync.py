"""The client for scripts and Spark executors: the same calls, no ``await``.

with SyncNameServerClient("10.0.0.1:9876") as client:
    print(client.route("orders"))

A client runs its event loop in a thread of its own, started with the first call. It may be used
by several threads, pickled (it connects anew where it arrives) and carried across a fork.
"""

import asyncio
import concurrent.futures
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from routebook.client import client as aio
from routebook.client.dialing import Dialing
from routebook.client.errors import NameServerError
from routebook.client.node import Answer
from routebook.client.relayed import Relayed
from routebook.client.requests import Requests as AioRequests
from routebook.client.routes import ClusterView, SystemTopics, TopicRoute
from routebook.client.sources import AddressSource
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues, WriteState
from routebook.wire.command import Command

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a daemon thread; ``run`` waits for a coroutine there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="routebook-client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return _outcome(self.start(work))

    def start(self, work: Coroutine[Any, Any, Result]) -> "concurrent.futures.Future[Result]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """End the thread; what still runs there is cancelled."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.wait(tasks) if tasks else asyncio.sleep(0))
        self._loop.close()


def _outcome(future: "concurrent.futures.Future[Result]") -> Result:
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C ends the request as well
        raise


class Requests(ABC):
    """The calls; whoever inherits them says where they are made."""

    @abstractmethod
    def _call(self, call: Callable[[AioRequests], Coroutine[Any, Any, Result]]) -> Result:
        """Make ``call`` there and wait for it."""

    def ask(self, request: Command, *, timeout_s: float | None = None) -> Answer:
        return self._call(lambda c: c.ask(request, timeout_s=timeout_s))

    def route(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute:
        return self._call(lambda c: c.route(topic, timeout_s=timeout_s))

    def find_route(self, topic: str, *, timeout_s: float | None = None) -> TopicRoute | None:
        return self._call(lambda c: c.find_route(topic, timeout_s=timeout_s))

    def cluster_view(self, *, timeout_s: float | None = None) -> ClusterView:
        return self._call(lambda c: c.cluster_view(timeout_s=timeout_s))

    def broker_group(
        self, cluster: str, broker: str, *, timeout_s: float | None = None
    ) -> BrokerGroup | None:
        return self._call(lambda c: c.broker_group(cluster, broker, timeout_s=timeout_s))

    def topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        return self._call(lambda c: c.topics(timeout_s=timeout_s))

    def topics_of_cluster(self, cluster: str, *, timeout_s: float | None = None) -> tuple[str, ...]:
        return self._call(lambda c: c.topics_of_cluster(cluster, timeout_s=timeout_s))

    def system_topics(self, *, timeout_s: float | None = None) -> SystemTopics:
        return self._call(lambda c: c.system_topics(timeout_s=timeout_s))

    def unit_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        return self._call(lambda c: c.unit_topics(timeout_s=timeout_s))

    def unit_sub_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        return self._call(lambda c: c.unit_sub_topics(timeout_s=timeout_s))

    def unit_sub_ununit_topics(self, *, timeout_s: float | None = None) -> tuple[str, ...]:
        return self._call(lambda c: c.unit_sub_ununit_topics(timeout_s=timeout_s))

    def register_topic(
        self, topic: str, queues: Iterable[TopicQueues], *, timeout_s: float | None = None
    ) -> None:
        self._call(lambda c: c.register_topic(topic, queues, timeout_s=timeout_s))

    def delete_topic(
        self, topic: str, *, cluster: str | None = None, timeout_s: float | None = None
    ) -> None:
        self._call(lambda c: c.delete_topic(topic, cluster=cluster, timeout_s=timeout_s))

    def wipe_write_permission(self, broker: str, *, timeout_s: float | None = None) -> int:
        return self._call(lambda c: c.wipe_write_permission(broker, timeout_s=timeout_s))

    def add_write_permission(self, broker: str, *, timeout_s: float | None = None) -> int:
        return self._call(lambda c: c.add_write_permission(broker, timeout_s=timeout_s))

    def put_kv(
        self, namespace: str, key: str, value: str, *, timeout_s: float | None = None
    ) -> None:
        self._call(lambda c: c.put_kv(namespace, key, value, timeout_s=timeout_s))

    def find_kv(self, namespace: str, key: str, *, timeout_s: float | None = None) -> str | None:
        return self._call(lambda c: c.find_kv(namespace, key, timeout_s=timeout_s))

    def delete_kv(self, namespace: str, key: str, *, timeout_s: float | None = None) -> None:
        self._call(lambda c: c.delete_kv(namespace, key, timeout_s=timeout_s))

    def kv_table(self, namespace: str, *, timeout_s: float | None = None) -> dict[str, str]:
        return self._call(lambda c: c.kv_table(namespace, timeout_s=timeout_s))

    def config(self, *, timeout_s: float | None = None) -> dict[str, str]:
        return self._call(lambda c: c.config(timeout_s=timeout_s))

    def update_config(self, values: dict[str, str], *, timeout_s: float | None = None) -> None:
        self._call(lambda c: c.update_config(values, timeout_s=timeout_s))

    def health(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        return self._call(lambda c: c.health(timeout_s=timeout_s))

    def recent(
        self,
        *,
        topic: str | None = None,
        broker: str | None = None,
        timeout_s: float | None = None,
    ) -> list[bytes]:
        return self._call(lambda c: c.recent(topic=topic, broker=broker, timeout_s=timeout_s))

    def restore_write_permission(
        self, broker: str, *, look_only: bool = False, timeout_s: float | None = None
    ) -> WriteState:
        return self._call(
            lambda c: c.restore_write_permission(broker, look_only=look_only, timeout_s=timeout_s)
        )

    def release_guard(self, *, timeout_s: float | None = None) -> int:
        return self._call(lambda c: c.release_guard(timeout_s=timeout_s))


for _name, _call in vars(Requests).items():
    if not _name.startswith("_"):
        _call.__doc__ = getattr(AioRequests, _name).__doc__  # the same call, so the same words


class SyncNodeClient(Requests):
    """The calls, made to one node and no other. Errors are NodeErrors."""

    def __init__(self, client: "SyncNameServerClient", address: Address) -> None:
        self._client = client
        self._address = address

    @property
    def address(self) -> Address:
        """The node that is asked."""
        return self._address

    def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        """Each successful answer, or the error of that request; raises nothing."""
        return self._on_node(lambda node: node.ask_many(requests, timeout_s=timeout_s))

    def _call(self, call: Callable[[AioRequests], Coroutine[Any, Any, Result]]) -> Result:
        return self._on_node(call)

    def _on_node(self, call: Callable[[aio.NodeClient], Coroutine[Any, Any, Result]]) -> Result:
        async def made(client: aio.NameServerClient) -> Result:
            return await call(await client.on(self._address))

        return self._client._run(made)


class SyncNameServerClient(Requests):
    """``NameServerClient`` without ``await``."""

    def __init__(
        self,
        nameservers: str | Iterable[str] | None = None,
        *,
        timeout_s: float = aio.TIMEOUT_S,
        dialing: Dialing | None = None,
    ) -> None:
        if nameservers is not None and not isinstance(nameservers, str):
            nameservers = tuple(nameservers)
        self._start((nameservers, timeout_s, dialing))

    def _start(self, given: tuple[str | tuple[str, ...] | None, float, Dialing | None]) -> None:
        nameservers, timeout_s, dialing = self._given = given
        self._client = aio.NameServerClient(nameservers, timeout_s=timeout_s, dialing=dialing)
        self._thread: LoopThread | None = None
        self._lock = threading.Lock()  # around _thread and _closed
        self._closed = False
        _clients.add(self)

    def _start_anew(self) -> None:
        """In the child of a fork: it has its parent's objects, but not its threads."""
        closed = self._closed
        self._start(self._given)
        self._closed = closed

    def __getstate__(self) -> tuple[Any, ...]:
        return self._given

    def __setstate__(self, given: tuple[Any, ...]) -> None:
        nameservers, timeout_s, dialing = given
        self._start((nameservers, timeout_s, dialing))

    def __enter__(self) -> "SyncNameServerClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections and end the thread; requests under way fail."""
        with self._lock:
            thread, self._thread, self._closed = self._thread, None, True
        if thread is not None:
            thread.run(self._client.close())
            thread.stop()

    def _run(self, call: Callable[[aio.NameServerClient], Coroutine[Any, Any, Result]]) -> Result:
        with self._lock:
            if self._closed:
                raise NameServerError("this client is closed")
            if self._thread is None:
                self._thread = LoopThread()
            future = self._thread.start(call(self._client))
        try:
            return _outcome(future)
        except concurrent.futures.CancelledError:
            raise NameServerError("this client is closed") from None

    def _call(self, call: Callable[[AioRequests], Coroutine[Any, Any, Result]]) -> Result:
        return self._run(call)

    @property
    def source(self) -> AddressSource:
        """Where the list of nodes comes from."""
        return self._client.source

    @property
    def relays(self) -> dict[Address, Relayed]:
        """Of what is asked here, those that turned out to be relays, and their oldest answers."""

        async def relays(client: aio.NameServerClient) -> dict[Address, Relayed]:
            return client.relays

        return self._run(relays)

    @property
    def chosen(self) -> Address | None:
        """The node asked first, or None before any is known."""

        async def chosen(client: aio.NameServerClient) -> Address | None:
            return client.chosen

        return self._run(chosen)

    def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        """Each successful answer, or the error of that request, all asked at once."""
        return self._run(lambda c: c.ask_many(requests, timeout_s=timeout_s))

    def nodes(self, *, timeout_s: float | None = None) -> tuple[Address, ...]:
        """All known nodes, sorted; raises NoNameServers."""
        return self._run(lambda c: c.nodes(timeout_s=timeout_s))

    def on(self, address: Address | str) -> SyncNodeClient:
        """The calls for one of the known nodes; raises NoNameServers for another address."""
        return SyncNodeClient(self, self._run(lambda c: c.on(address)).address)

    def on_every_node(
        self, call: Callable[[aio.NodeClient], Awaitable[Result]]
    ) -> dict[Address, Result | NameServerError]:
        """``call`` is given the asyncio calls of each node: ``lambda node: node.topics()``."""
        return self._run(lambda c: c.on_every_node(call))


_clients: "weakref.WeakSet[SyncNameServerClient]" = weakref.WeakSet()


def _start_all_anew() -> None:
    for client in list(_clients):
        client._start_anew()


os.register_at_fork(after_in_child=_start_all_anew)
