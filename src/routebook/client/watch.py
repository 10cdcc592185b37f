"""RouteWatch: is told of routes when they change, by one node at a time.

    watch = RouteWatch(client, told=print)
    watch.add("orders")
    await watch.run()

A node that does not offer it (RocketMQ's), goes away or falls silent is left for another. What was
told before is not told again: etags are the same on every node. Whoever uses it polls while it is
not ``live``.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from routebook.client.chain import BrokenChain, Chain
from routebook.client.client import NameServerClient, nodes_in_turn, stick_to
from routebook.client.connection import Connection
from routebook.client.errors import (
    ConnectionLost,
    NameServerError,
    NoAnswer,
    NodeError,
    NoNameServers,
    Refused,
)
from routebook.client.node import Node
from routebook.client.requests import command
from routebook.wire import watching
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode, Version
from routebook.wire.command import Command
from routebook.wire.errors import BadBody
from routebook.wire.watching import MAX_TOPICS, Push, Token

logger = logging.getLogger(__name__)

SILENCE_S = 45.0  # three bookmarks
ANSWER_S = 5.0
OFFERED_AGAIN_S = 300.0  # until a node that did not offer it is asked again
FIRST_REST_S = 0.1
LONGEST_REST_S = 5.0
REFUSED_REST_S = 30.0


@dataclass(frozen=True, slots=True)
class RouteTold:
    """What a node tells of a topic: its route, or why it has none (``gone``).

    Neither: the route is too large for a frame, and is to be asked for.
    """

    node: Address
    topic: str
    etag: str
    route: bytes | None
    gone: str | None


class NotOffered(NodeError):
    """The node offers no watch."""


class _Ended(Exception):
    """The node ended the watch; ``retry_s`` is when it may be asked again."""

    def __init__(self, node: Address, why: str, retry_s: float) -> None:
        super().__init__(why)
        self.node = node
        self.retry_s = retry_s


class RouteWatch:
    """``told`` is called with each route, ``changed`` when ``live`` is another.

    ``confirmed`` is called when the node says that nothing is left to be told, ``failed`` with why
    nobody tells anything for now.
    """

    def __init__(
        self,
        client: NameServerClient,
        *,
        told: Callable[[RouteTold], object],
        changed: Callable[[], object] = lambda: None,
        confirmed: Callable[[], object] = lambda: None,
        failed: Callable[[NameServerError], object] = lambda error: None,
        rng: random.Random | None = None,
    ) -> None:
        self._client = client
        self._told = told
        self._changed = changed
        self._confirmed = confirmed
        self._failed = failed
        self._rng = rng or random.Random()
        self._topics: dict[str, str] = {}  # and the etags there are
        self._added: dict[str, None] = {}
        self._dropped: dict[str, None] = {}
        self._news = asyncio.Event()
        self._without: dict[Address, float] = {}  # nodes that offer none, and until when
        self._offered_nowhere: NotOffered | None = None  # what the last node said that does not
        self._avoided: Address | None = None
        self._chain: Chain | None = None
        self._since: str | None = None
        self._ended: Exception | None = None
        self._early: list[Command] = []  # frames that came before the answer was looked at
        self._heard_at = 0.0
        self.live = False
        self.node: Address | None = None
        self.node_id = ""
        self.trouble: NameServerError | None = None  # why it is not live

    # -- topics

    def watches(self, topic: str) -> bool:
        """Whether changes of ``topic`` are told, while the watch is live."""
        return topic in self._topics

    def add(self, topic: str, etag: str = "") -> None:
        """Watch ``topic``, of which the caller has what has this etag; "" has it told anew."""
        if topic in self._topics or len(self._topics) < MAX_TOPICS:
            self._topics[topic] = etag
            self._added[topic] = None
            self._dropped.pop(topic, None)
            self._news.set()

    def drop(self, topic: str) -> None:
        if self._topics.pop(topic, None) is not None:
            self._added.pop(topic, None)
            self._dropped[topic] = None
            self._news.set()

    # -- from node to node

    async def run(self) -> None:
        """Watch for ever."""
        rest_s = wait_s = FIRST_REST_S
        while True:
            if not self._topics:
                self._news.clear()
                await self._news.wait()
                continue
            try:
                await self._watch_somewhere()
            except _Ended as ended:
                self.trouble = NodeError(ended.node, f"it ended the watch: {ended}")
                wait_s = ended.retry_s
            except NameServerError as error:
                self.trouble = error
                wait_s = self._rest_s(error, rest_s)
            except Exception as error:  # whoever watches polls meanwhile
                logger.exception("watching failed")
                self.trouble = NameServerError(f"watching failed: {error!r}")
                wait_s = LONGEST_REST_S
            rest_s = FIRST_REST_S if self.live else min(LONGEST_REST_S, rest_s * 2)
            self._end()
            if self.trouble is not None:
                self._failed(self.trouble)
            await asyncio.sleep(wait_s)

    def _rest_s(self, error: NameServerError, rest_s: float) -> float:
        if isinstance(error, NotOffered):
            return OFFERED_AGAIN_S * self._rng.uniform(0.8, 1.2)
        if isinstance(error, Refused) and error.code != ResponseCode.SYSTEM_BUSY:
            return REFUSED_REST_S * self._rng.uniform(0.8, 1.2)
        return rest_s * self._rng.uniform(0.5, 1.0)

    async def _watch_somewhere(self) -> None:
        """Watch on the first node that lets us, until that ends. Raises why it did not."""
        now = asyncio.get_running_loop().time()
        nodes = await nodes_in_turn(self._client)
        nodes = [node for node in nodes if self._without.get(node.address, 0.0) <= now]
        nodes.sort(key=lambda node: node.address == self._avoided)
        self._avoided = None
        offered_nowhere, failure = self._offered_nowhere, None
        for node in nodes:
            try:
                await self._watch_on(node)
            except NotOffered as error:
                self._without[node.address] = now + OFFERED_AGAIN_S
                offered_nowhere = error
            except NodeError as error:
                failure = error
                if self._chain is not None:
                    raise
        self._offered_nowhere = offered_nowhere
        if failure is None and offered_nowhere is None:
            raise NoNameServers("there is no node to watch")
        raise failure or offered_nowhere  # type: ignore[misc]

    async def _watch_on(self, node: Node) -> None:
        connection = await node.connection(ANSWER_S)
        if connection.pushed is not None:
            raise NodeError(node.address, "somebody else watches over this connection")
        self._ended, self._chain, self._early = None, None, []
        connection.pushed = self._pushed
        try:
            # Frames may be right behind the answer.
            await self._begin(node, connection)
            while True:
                await self._wait(connection)
                await self._tell_topics(node, connection)
        finally:
            connection.pushed = None
            self.node = None
            if not connection.closing:  # others use it; what comes next begins a new chain
                connection.send_oneway(command(RequestCode.ROUTEBOOK_UNWATCH))

    async def _begin(self, node: Node, connection: Connection) -> None:
        self._added.clear()
        self._dropped.clear()
        answer = await self._asked(node, connection, self._request(self._topics, self._since))
        fields = answer.ext_fields
        try:
            rev = int(fields.get("rev") or "")
        except ValueError:
            raise NotOffered(node.address, "it does not say where the watch begins") from None
        self.node, self.node_id = node.address, fields.get("node") or ""
        self._chain = Chain(fields.get("boot") or "", rev)
        stick_to(self._client, node)
        self._heard_at = asyncio.get_running_loop().time()
        early, self._early = self._early, []
        for push in early:
            self._hear(push)

    def _request(self, topics: Iterable[str], since: str | None = None) -> Command:
        body: dict[str, object] = {"topics": {topic: self._topics[topic] for topic in topics}}
        if since is not None:
            body["since"] = since
        return command(RequestCode.ROUTEBOOK_WATCH, body=msgspec.json.encode(body))

    async def _asked(self, node: Node, connection: Connection, request: Command) -> Command:
        """The successful answer, over this very connection."""
        pending = connection.send([request])
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await pending[0].answer
        except TimeoutError:
            if 0 < (node.version or 0) < Version.V5_0_0:  # they do not even say no
                raise NotOffered(node.address, "it does not offer watch") from None
            raise NoAnswer(node.address, ANSWER_S) from None
        finally:
            connection.forget(pending)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotOffered(node.address, "it does not offer watch")
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(node.address, request.code, answer.code, answer.remark)
        return answer

    async def _tell_topics(self, node: Node, connection: Connection) -> None:
        """Say which topics came and went since the watch began."""
        dropped, self._dropped = self._dropped, {}
        added, self._added = self._added, {}
        if dropped:
            body = msgspec.json.encode({"topics": list(dropped)})
            await self._asked(node, connection, command(RequestCode.ROUTEBOOK_UNWATCH, body=body))
        if topics := [topic for topic in added if topic in self._topics]:
            await self._asked(node, connection, self._request(topics))

    async def _wait(self, connection: Connection) -> None:
        """Until there is something to do. Raises when the watch has ended."""
        loop = asyncio.get_running_loop()
        lost = asyncio.ensure_future(connection.wait_lost())
        lost.add_done_callback(lambda _: self._news.set())
        try:
            while not (self._added or self._dropped):
                if self._ended is not None:
                    raise self._ended
                if connection.closing:
                    raise ConnectionLost(_of(self.node), "the connection was lost")
                self._news.clear()
                try:
                    async with asyncio.timeout_at(self._heard_at + SILENCE_S):
                        await self._news.wait()
                except TimeoutError:
                    if loop.time() - self._heard_at >= SILENCE_S:
                        connection.abort("it told nothing for too long")
        finally:
            lost.cancel()

    def _end(self) -> None:
        self._chain = None
        if self.live:
            self.live = False
            self._changed()

    # -- what is told

    def _pushed(self, frame: Command) -> None:
        """Called by the connection; must not raise."""
        if self._ended is not None or frame.code != RequestCode.ROUTEBOOK_ROUTES:
            return
        if self._chain is None:
            self._early.append(frame)  # the answer is on its way to us
        else:
            self._hear(frame)

    def _hear(self, frame: Command) -> None:
        assert self._chain is not None
        try:
            push = watching.pushed(frame)
            self._chain.follow(push)
            self._heard_at = asyncio.get_running_loop().time()
            self._since = str(Token(self.node_id, push.boot, push.rev))
            self._take(push)
        except (BrokenChain, BadBody) as error:
            self._ended = NodeError(_of(self.node), f"the watch is broken: {error}")
            logger.info("%s", self._ended)
            self._news.set()
        except Exception as error:  # of whoever is told: the connection is not to suffer from it
            logger.exception("what was told of routes could not be taken over")
            self._ended = NodeError(_of(self.node), f"what it told was not taken over: {error!r}")
            self._news.set()

    def _take(self, push: Push) -> None:
        self.trouble = None
        if push.kind == watching.ROUTES:
            for entry in watching.decode_routes(push.body):
                if entry.topic in self._topics:
                    self._topics[entry.topic] = entry.etag
                    route = bytes(entry.route) or None
                    self._told(
                        RouteTold(_of(self.node), entry.topic, entry.etag, route, entry.gone)
                    )
        elif push.kind in (watching.SYNCED, watching.BOOKMARK):
            if not self.live:
                self.live = True
                self._changed()
            self._confirmed()
        elif push.kind == watching.BYE:
            self._avoided = self.node
            try:
                retry_s = min(60.0, int(push.fields.get("retry_ms") or 0) / 1000)
            except ValueError:
                retry_s = 0.0
            self._ended = _Ended(_of(self.node), push.fields.get("reason") or "bye", retry_s)
            self._news.set()


def _of(node: Address | None) -> Address:
    assert node is not None  # while something is told
    return node
