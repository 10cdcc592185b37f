"""Following: what a node tells by itself, over one watch for all who listen here.

The node has one watcher, however many clients this gateway has: its feed of events goes into the
ring, and the topics somebody here wants to hear of are watched once each.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable

import msgspec

from routebook.client.chain import BrokenChain, Chain
from routebook.client.connection import Connection
from routebook.client.errors import ConnectionLost, NameServerError, NoAnswer, NodeError, Refused
from routebook.client.requests import command
from routebook.client.watch import NotOffered, RouteTold
from routebook.gateway.link import Link
from routebook.gateway.ring import BEGAN, EVENT, LOST, EventRing
from routebook.wire import watching
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from routebook.wire.errors import BadBody, BadRequest
from routebook.wire.watching import MAX_TOPICS, Push, Token

logger = logging.getLogger(__name__)

ANSWER_S = 5.0
SILENCE_S = 45.0  # three bookmarks
FIRST_REST_S = 0.2
LONGEST_REST_S = 5.0
OFFERED_AGAIN_S = 300.0
NOTHING_TOLD = "?"  # no etag: that there is no route is to be told as well

Listener = Callable[[RouteTold], object]


class CannotListen(Exception):
    """A topic that is not watched: too many are already, or no topic can have that name.

    One of those would have the node refuse all others with it.
    """


class _Place(msgspec.Struct):
    seq: int


_PLACE = msgspec.json.Decoder(_Place)


class Following:
    """``live``: the node tells everything that happens. ``trouble`` is why it does not.

    ``node_id`` and ``boot`` are the node's own, once it has told them; ``rev``: everything up to
    this revision has been told. ``leaving``: it said goodbye.
    """

    def __init__(self, link: Link, ring: EventRing, rng: random.Random | None = None) -> None:
        self._link = link
        self._ring = ring
        self._rng = rng or random.Random()
        self._listeners: dict[str, list[Listener]] = {}
        self._told: dict[str, RouteTold] = {}
        self._added: dict[str, None] = {}
        self._dropped: dict[str, None] = {}
        self._news = asyncio.Event()
        self._chain: Chain | None = None
        self._early: list[Command] = []
        self._ended: NameServerError | None = None
        self._heard_at = 0.0
        self._feed_token: str | None = None
        self.live = False
        self.leaving = False
        self.offered: bool | None = None
        self.node_id = ""
        self.boot = ""
        self.trouble: NameServerError | None = None

    @property
    def rev(self) -> int:
        return 0 if self._chain is None else self._chain.rev

    @property
    def topics(self) -> int:
        return len(self._listeners)

    # -- those who listen here

    def listen(self, topic: str, listener: Listener) -> None:
        """Have ``listener`` told the route of ``topic``, now if it is known, and when it changes.

        Raises CannotListen.
        """
        listeners = self._listeners.get(topic)
        if listeners is None:
            if len(self._listeners) >= MAX_TOPICS:
                raise CannotListen(f"{MAX_TOPICS} topics are watched already")
            try:
                watching.check_topic(topic)
            except BadRequest as error:
                raise CannotListen(str(error)) from error
            self._listeners[topic] = [listener]
            self._added[topic] = None
            self._dropped.pop(topic, None)
            self._news.set()
            return
        listeners.append(listener)
        if (told := self._told.get(topic)) is not None:
            listener(told)

    def unlisten(self, topic: str, listener: Listener) -> None:
        listeners = self._listeners.get(topic, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[topic]
                self._told.pop(topic, None)
                self._added.pop(topic, None)
                self._dropped[topic] = None
                self._news.set()

    # -- the watch

    async def run(self) -> None:
        """Follow the node for ever."""
        rest_s = FIRST_REST_S
        while True:
            try:
                await self._follow()
            except NotOffered as error:
                self.offered, self.trouble, rest_s = False, error, OFFERED_AGAIN_S
            except NameServerError as error:
                self.trouble = error
            except Exception as error:  # whoever listens here is told that nothing is told
                logger.exception("following %s failed", self._link.address)
                self.trouble = NameServerError(f"following failed: {error!r}")
            rest_s = FIRST_REST_S if self.live else min(LONGEST_REST_S, rest_s * 2)
            self.live = False
            if self.offered is False:
                rest_s = OFFERED_AGAIN_S
            await asyncio.sleep(rest_s * self._rng.uniform(0.5, 1.0))

    async def _follow(self) -> None:
        connection = await self._link.connection(ANSWER_S)
        self._ended, self._chain, self._early = None, None, []
        connection.pushed = self._pushed
        try:
            await self._begin(connection)
            while True:
                await self._wait(connection)
                await self._tell_topics(connection)
        finally:
            connection.pushed = None
            self._chain = None
            if not connection.closing:
                connection.send_oneway(command(RequestCode.ROUTEBOOK_UNWATCH))

    async def _begin(self, connection: Connection) -> None:
        self._added.clear()
        self._dropped.clear()
        body: dict[str, object] = {"topics": self._etags(self._listeners), "feed": True}
        if self._feed_token is not None:
            body["feedSince"] = self._feed_token
        fields = (await self._asked(connection, body)).ext_fields
        try:
            rev, seq = int(fields.get("rev") or ""), int(fields.get("seq") or "")
        except ValueError:
            raise NotOffered(self._link.address, "it does not say where it begins") from None
        before = (self.node_id, self.boot)
        self.node_id, self.boot = fields.get("node") or "", fields.get("boot") or ""
        self.offered, self.leaving, self.trouble = True, False, None
        if before != (self.node_id, self.boot):
            self._feed_token = str(Token(self.node_id, self.boot, seq))
            self._ring.add(BEGAN, str(self._link.address), self._feed_token, b"{}")
        self._chain = Chain(self.boot, rev)
        self._heard_at = asyncio.get_running_loop().time()
        early, self._early = self._early, []
        for frame in early:
            self._hear(frame)

    def _etags(self, topics: Iterable[str]) -> dict[str, str]:
        return {t: self._told[t].etag if t in self._told else NOTHING_TOLD for t in topics}

    async def _tell_topics(self, connection: Connection) -> None:
        dropped, self._dropped = self._dropped, {}
        added, self._added = self._added, {}
        if dropped:
            await self._asked(connection, {"topics": list(dropped)}, RequestCode.ROUTEBOOK_UNWATCH)
        if added:
            await self._asked(connection, {"topics": self._etags(added)})

    async def _asked(
        self,
        connection: Connection,
        body: dict[str, object],
        code: RequestCode = RequestCode.ROUTEBOOK_WATCH,
    ) -> Command:
        address = self._link.address
        pending = connection.send([command(code, body=msgspec.json.encode(body))])
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = await pending[0].answer
        except TimeoutError:
            raise NoAnswer(address, ANSWER_S) from None
        finally:
            connection.forget(pending)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotOffered(address, "it does not offer watch")
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(address, code, answer.code, answer.remark)
        return answer

    async def _wait(self, connection: Connection) -> None:
        """Until there is something to do. Raises when the watch has ended."""
        lost = asyncio.ensure_future(connection.wait_lost())
        lost.add_done_callback(lambda _: self._news.set())
        loop = asyncio.get_running_loop()
        try:
            while not (self._added or self._dropped):
                if self._ended is not None:
                    raise self._ended
                if connection.closing:
                    raise ConnectionLost(self._link.address, "the connection was lost")
                self._news.clear()
                try:
                    async with asyncio.timeout_at(self._heard_at + SILENCE_S):
                        await self._news.wait()
                except TimeoutError:
                    if loop.time() - self._heard_at >= SILENCE_S:
                        raise NoAnswer(self._link.address, SILENCE_S) from None
        finally:
            lost.cancel()

    # -- what is told

    def _pushed(self, frame: Command) -> None:
        """Called by the connection; must not raise."""
        if self._ended is not None or frame.code != RequestCode.ROUTEBOOK_ROUTES:
            return
        if self._chain is None:
            self._early.append(frame)
        else:
            self._hear(frame)

    def _hear(self, frame: Command) -> None:
        assert self._chain is not None
        try:
            push = watching.pushed(frame)
            self._chain.follow(push)
            self._heard_at = asyncio.get_running_loop().time()
            self._take(push)
        except (BrokenChain, BadBody) as error:
            self._ended = NodeError(self._link.address, f"the watch is broken: {error}")
        except Exception as error:  # of whoever listens: the connection is not to suffer from it
            logger.exception("what %s told could not be taken over", self._link.address)
            self._ended = NodeError(self._link.address, f"what it told was not taken: {error!r}")
        if self._ended is not None:
            self._news.set()

    def _take(self, push: Push) -> None:
        if push.kind == watching.ROUTES:
            for entry in watching.decode_routes(push.body):
                listeners = self._listeners.get(entry.topic)
                if listeners is not None:
                    route = bytes(entry.route) or None
                    told = RouteTold(self._link.address, entry.topic, entry.etag, route, entry.gone)
                    self._told[entry.topic] = told
                    for listener in list(listeners):
                        listener(told)
        elif push.kind == watching.EVENTS:
            self._take_events(push)
        elif push.kind == watching.LOST:
            body = {name: int(push.fields.get(name) or 0) for name in ("from", "to")}
            token = str(Token(self.node_id, self.boot, body["to"]))
            self._ring.add(LOST, str(self._link.address), token, msgspec.json.encode(body))
        elif push.kind in (watching.SYNCED, watching.BOOKMARK):
            self.live = True
        elif push.kind == watching.BYE:
            self.leaving = push.fields.get("reason") == watching.DRAINING
            reason = push.fields.get("reason") or "bye"
            self._ended = NodeError(self._link.address, f"it ended the watch: {reason}")

    def _take_events(self, push: Push) -> None:
        node = str(self._link.address)
        for entry in watching.decode_events(push.body):
            try:
                seq = _PLACE.decode(entry.record).seq
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise BadBody(f"an event without a number: {error}") from error
            token = str(Token(self.node_id, self.boot, seq))
            body = b'{"left_out":%d,"record":%b}' % (entry.left_out, bytes(entry.record))
            self._ring.add(EVENT, node, token, body)
        self._feed_token = push.fields.get("token") or self._feed_token
