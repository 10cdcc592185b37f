"""Each class of requests is flooded, and the others are served. Counted in slices, not in time.

A slice here is a little longer than a turn gives, so that every turn takes one slice of one answer.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import thread_time

from routebook.handlers.memo import AnswerMemo
from routebook.handlers.services import Caller, HandlerResult
from routebook.handlers.tally import QueryTally
from routebook.server import pending
from routebook.server.port import SLICE_S, Port
from routebook.server.scheduler import ROOMS, TRIAL_S, Lane
from routebook.settings import make_settings
from routebook.slices import NO_WAY_BACK, Slices
from routebook.wire.command import Command, Reply
from support import raw
from support.brokers import Broker
from support.builders import compressed_body
from support.health import HEALTH
from support.nodes import local_node
from support.raw import Peer

RECENT = 19_002
FLOOD, OTHER = "127.0.0.2", "127.0.0.3"


class Bench:
    """Answers in as many slices as a request asks for, and notes who had each of them."""

    def __init__(self) -> None:
        self.slices: list[str] = []
        self.finished: list[str] = []

    def dispatch(self, request: Command, caller: Caller) -> HandlerResult:
        who = str(request.ext_fields["who"])
        number = int(str(request.ext_fields["slices"]))
        if not number:
            self.finished.append(who)
            if "work" in request.ext_fields:
                _spin()
            return Reply()
        return self._work(who, number, sure=request.ext_fields.get("sure") == "true")

    def _work(self, who: str, number: int, *, sure: bool) -> Slices[Reply]:
        if sure:
            yield NO_WAY_BACK
        for _ in range(number):
            self.slices.append(who)
            _spin()
            yield
        self.finished.append(who)
        return Reply()

    def before(self, who: str) -> Counter[str]:
        """How many slices everybody had until ``who`` had its last one."""
        end = len(self.slices) - self.slices[::-1].index(who)
        return Counter(self.slices[:end])


def _spin() -> None:
    until_s = thread_time() + SLICE_S * 1.1
    while thread_time() < until_s:
        pass


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[tuple[Bench, Port]]:
    made = Bench()
    settings = make_settings(folder, listen_port=0, bind_address="127.0.0.1")
    memo = AnswerMemo(QueryTally())
    port = Port(settings.listen, settings.tls, dispatch=made.dispatch, memo=memo)
    await port.start()
    try:
        yield made, port
    finally:
        await port.stop()


class Crowd:
    """Connections, opened before anybody says a word."""

    def __init__(self, port: Port, stack: AsyncExitStack) -> None:
        self._port = port.address[1]
        self._stack = stack

    async def open(self, source: str, number: int) -> list[Peer]:
        return [
            await self._stack.enter_async_context(Peer(self._port, source=source))
            for _ in range(number)
        ]


def ask(peer: Peer, code: int, who: str, slices: int, **more: str) -> None:
    """For an answer that takes so many slices."""
    peer.send_soon(raw.request(code, {"who": who, "slices": str(slices), **more}))


async def begun(bench: Bench) -> None:
    """The first of the flood has been worked on."""
    while not bench.slices:  # noqa: ASYNC110 - it is turns that count
        await asyncio.sleep(0)


async def test_a_registration_does_not_wait_for_many_of_another_host(tmp_path: Path) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        crowd = Crowd(port, stack)
        flood, [other] = await crowd.open(FLOOD, 20), await crowd.open(OTHER, 1)
        for peer in flood:
            ask(peer, raw.REGISTER, "flood", 8)
        await begun(made)
        ask(other, raw.REGISTER, "other", 4)
        assert (await other.read()).code == raw.SUCCESS
        assert made.finished.count("flood") <= 3
        assert [(await peer.read()).code for peer in flood] == [raw.SUCCESS] * 20


async def test_a_registration_of_the_same_host_does_not_wait_for_those_that_take_long(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, other = await Crowd(port, stack).open(FLOOD, 6)
        for peer in flood:
            ask(peer, raw.REGISTER, "flood", 100)
        await begun(made)
        ask(other, raw.REGISTER, "other", 4)
        assert (await other.read()).code == raw.SUCCESS
        tried = 5 * (TRIAL_S / SLICE_S + 2)
        # Each is tried once, and the lane of those that take long has a third of the slices.
        assert made.before("other")["flood"] <= tried * 1.6
        assert made.finished == ["other"]


async def test_a_registration_that_has_changed_something_is_not_begun_anew(tmp_path: Path) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        long = int(TRIAL_S / SLICE_S) * 2
        one, two = await Crowd(port, stack).open(FLOOD, 2)
        ask(one, raw.REGISTER, "large", long * 3)  # or it could go on where no other does
        await begun(made)
        ask(two, raw.REGISTER, "sure", long, sure="true")
        assert (await one.read()).code == (await two.read()).code == raw.SUCCESS
        assert made.slices.count("sure") == long


async def test_one_that_takes_long_goes_on_where_no_other_does(tmp_path: Path) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        long = int(TRIAL_S / SLICE_S) * 2
        [peer] = await Crowd(port, stack).open(FLOOD, 1)
        ask(peer, raw.REGISTER, "first", long)
        assert (await peer.read()).code == raw.SUCCESS
        assert len(made.slices) == long


async def test_of_two_that_take_long_one_is_begun_anew_once_and_its_next_one_is_not(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        long = int(TRIAL_S / SLICE_S) * 2
        [one, two] = await Crowd(port, stack).open(FLOOD, 2)
        ask(one, raw.REGISTER, "one", long)
        await begun(made)
        ask(two, raw.REGISTER, "two", long)
        assert (await one.read()).code == (await two.read()).code == raw.SUCCESS
        ask(two, raw.REGISTER, "next", long)
        assert (await two.read()).code == raw.SUCCESS
        had = Counter(made.slices)
        assert had["one"] == had["next"] == long
        assert long < had["two"] <= long * 1.6
        assert made.finished == ["one", "two", "next"]


async def test_a_flood_of_calls_leaves_registrations_their_slices(tmp_path: Path) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, other = await Crowd(port, stack).open(FLOOD, 21)
        for peer in flood:
            ask(peer, raw.ALL_TOPICS, "call", 8)
        await begun(made)
        ask(other, raw.REGISTER, "other", 8)
        assert (await other.read()).code == raw.SUCCESS
        assert made.before("other")["call"] <= 16
        assert [(await peer.read()).code for peer in flood] == [raw.SUCCESS] * 20


async def test_a_flood_of_registrations_leaves_calls_their_slices(tmp_path: Path) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, other = await Crowd(port, stack).open(FLOOD, 21)
        for peer in flood:
            ask(peer, raw.REGISTER, "flood", 8, sure="true")
        await begun(made)
        ask(other, raw.ALL_TOPICS, "other", 8)
        assert (await other.read()).code == raw.SUCCESS
        assert made.before("other")["flood"] <= 30
        assert [(await peer.read()).code for peer in flood] == [raw.SUCCESS] * 20


async def test_quick_requests_wait_for_a_slice_or_two_of_whatever_is_worked_on(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, quick = await Crowd(port, stack).open(FLOOD, 21)
        for number, peer in enumerate(flood):
            ask(peer, (raw.REGISTER, raw.ALL_TOPICS)[number % 2], "flood", 8)
        await begun(made)
        for _ in range(5):
            worked = len(made.slices)
            ask(quick, raw.HEARTBEAT, "beat", 0)
            assert (await quick.read()).code == raw.SUCCESS
            assert len(made.slices) - worked <= 8  # turns of the loop, for the way there and back


async def test_beyond_its_room_a_host_is_told_at_once_that_the_node_is_busy(tmp_path: Path) -> None:
    room = ROOMS[Lane.CALL].host
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        crowd = Crowd(port, stack)
        flood, [other] = await crowd.open(FLOOD, room + 10), await crowd.open(OTHER, 1)
        for peer in flood:
            ask(peer, raw.ALL_TOPICS, "flood", 2)
        ask(other, raw.ALL_TOPICS, "other", 1)
        assert (await other.read()).code == raw.SUCCESS
        assert made.before("other")["flood"] < room
        answers = [await peer.read() for peer in flood]
        refused = [answer for answer in answers if answer.code]
        assert {(answer.code, answer.remark) for answer in refused} == {
            (raw.SYSTEM_BUSY, "[OVERLOAD]system busy, start flow control for a while")
        }
        assert 5 <= len(refused) <= 10  # some of the others were answered while these arrived
        told = port.work_status()["refused"]
        assert told["calls"] + told["short_calls"] == len(refused)


def numbered(number: int) -> Iterator[Broker]:
    for index in range(number):
        yield Broker(f"flood-{index}", addr=f"10.9.0.{index + 1}:10911")


async def test_a_changed_registration_is_taken_while_large_compressed_ones_wait(
    tmp_path: Path,
) -> None:
    body = compressed_body([f"a-topic-of-a-flood-{number}" for number in range(30_000)])
    mine = Broker("mine", addr="10.0.0.1:10911")
    async with local_node(tmp_path) as node, AsyncExitStack() as stack:
        flood = []
        for broker in numbered(5):
            peer = await stack.enter_async_context(Peer(node.port))
            peer.send_soon(raw.request(raw.REGISTER, {**broker.fields, "compressed": "true"}, body))
            flood.append(peer)
        peer = await stack.enter_async_context(Peer(node.port))
        await mine.register(peer, ["orders", "payments"])
        await mine.register(peer, ["orders", "payments", "refunds"], counter=2)
        assert (await peer.call(raw.ROUTE, topic="refunds")).code == raw.SUCCESS
        done = [m.group.name for m in node._routes.members.live() if m.stamp is not None]
        assert done.count("mine") == 1
        assert len(done) <= 3, "those who came first are not done"
        for other in flood:
            other.abort()


async def test_looks_back_are_few_at_a_time_and_the_rest_is_told_so(tmp_path: Path) -> None:
    async with local_node(tmp_path) as node, AsyncExitStack() as stack:
        async with Peer(node.port) as peer:
            for counter in range(1, 80):
                await Broker().register(peer, [f"t{counter}", "orders"], counter=counter)
        peers = [await stack.enter_async_context(Peer(node.port)) for _ in range(10)]
        for peer in peers:
            peer.send_soon(raw.request(RECENT))
        codes = [(await peer.read()).code for peer in peers]
        assert codes == [raw.SUCCESS] * 2 + [raw.SYSTEM_BUSY] * 8
        assert (await peers[0].call(RECENT)).code == raw.SUCCESS
        assert (await peers[0].call(HEALTH)).value["work"]["refused"]["looks_back"] == 8


async def test_short_calls_have_a_share_of_each_turn_and_leave_the_rest_to_others(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, broker, client = await Crowd(port, stack).open(FLOOD, 62)
        for peer in flood:
            ask(peer, raw.CLUSTER_INFO, "call", 0, work="true")
        ask(broker, raw.HEARTBEAT, "beat", 0)
        ask(client, raw.ROUTE, "query", 0)
        assert (await broker.read()).code == (await client.read()).code == raw.SUCCESS
        assert made.finished.count("call") <= 20
        assert [(await peer.read()).code for peer in flood] == [raw.SUCCESS] * 60
        assert made.finished.count("call") == 60


async def test_registrations_with_nothing_new_leave_the_rest_of_each_turn_to_others(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as (made, port), AsyncExitStack() as stack:
        *flood, broker, client = await Crowd(port, stack).open(FLOOD, 102)
        for peer in flood:
            ask(peer, raw.REGISTER, "flood", 0, work="true")
        ask(broker, raw.HEARTBEAT, "beat", 0)
        ask(client, raw.ROUTE, "query", 0)
        assert (await broker.read()).code == (await client.read()).code == raw.SUCCESS
        assert made.finished.count("flood") <= 20
        assert [(await peer.read()).code for peer in flood] == [raw.SUCCESS] * 100


async def test_of_short_calls_too_many_of_one_host_are_told_that_the_node_is_busy(
    tmp_path: Path,
) -> None:
    room = pending.ROOMS[pending.Awaited.CALL].host
    async with bench(tmp_path) as (_, port), AsyncExitStack() as stack:
        crowd = Crowd(port, stack)
        flood, [other] = await crowd.open(FLOOD, room + 30), await crowd.open(OTHER, 1)
        for peer in flood:
            ask(peer, raw.CLUSTER_INFO, "call", 0, work="true")
        ask(other, raw.CLUSTER_INFO, "other", 0)
        assert (await other.read()).code == raw.SUCCESS
        codes = Counter([(await peer.read()).code for peer in flood])
        assert codes[raw.SYSTEM_BUSY] >= 5
        assert codes[raw.SUCCESS] >= room
        assert port.work_status()["refused"]["short_calls"] == codes[raw.SYSTEM_BUSY]
        assert port.work_status()["waiting"]["short_calls"] == 0
