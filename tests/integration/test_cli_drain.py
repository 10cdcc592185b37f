"""Draining a broker: write permission gone from every node, and back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import raw
from support.brokers import Broker
from support.fleet import Fleet, run_program
from support.misbehaving import Caller, Server, answer
from support.waiting import soon

TOPICS = ["orders", "payments"]
RESTORE = 19_004


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        fleet.register(Broker(), TOPICS)
        fleet.register(Broker("broker-b", addr="10.0.0.9:10911"), TOPICS)
        yield fleet


def permissions(fleet: Fleet, broker: str = "broker-a") -> set[int]:
    return {fleet.permission(port, topic, broker) for port in fleet.ports for topic in TOPICS}


def test_a_drained_broker_is_writable_on_no_node_and_others_stay_as_they_are(fleet: Fleet) -> None:
    ran = fleet.run("drain", "broker-a")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.rows == [[address, "2", "0", "drained"] for address in fleet.addresses]
    assert permissions(fleet) == {4}
    assert permissions(fleet, "broker-b") == {6}


def test_an_undrained_broker_is_writable_on_every_node(fleet: Fleet) -> None:
    fleet.run("drain", "broker-a")

    ran = fleet.run("undrain", "broker-a")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert [row[-2:] for row in ran.rows] == [["writable", "again"]] * 2
    assert permissions(fleet) == {6}


def test_draining_as_json(fleet: Fleet) -> None:
    assert fleet.run("drain", "broker-a", "--json").document == {
        "broker": "broker-a",
        "wanted": "drained",
        "done": True,
        "waited": True,
        "nodes": [
            {
                "node": address,
                "done": True,
                "topics": 2,
                "left": [],
                "error": None,
                "refused": False,
                "kept": [],
                "all_topics": False,
            }
            for address in fleet.addresses
        ],
        "differing": [],
        "ordered_topics": [],
    }


PERMS = {"orders": 6, "TBW102": 7, "archive": 4, "template": 1, "inbox": 2}
MIXED = {topic: {"perm": perm} for topic, perm in PERMS.items()}


def all_permissions(fleet: Fleet) -> list[dict[str, int]]:
    return [
        {topic: fleet.permission(port, topic, "broker-c") for topic in PERMS}
        for port in fleet.ports
    ]


def test_an_undrained_broker_has_the_permissions_back_that_it_had(fleet: Fleet) -> None:
    broker = Broker("broker-c", addr="10.0.0.7:10911")
    fleet.register(broker, MIXED)
    fleet.run("drain", "broker-c")
    fleet.register(broker, MIXED)  # as brokers do every thirty seconds
    assert all_permissions(fleet) == [{topic: perm & ~2 for topic, perm in PERMS.items()}] * 2

    ran = fleet.run("undrain", "broker-c")

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert all_permissions(fleet) == [PERMS, PERMS]
    told = "writable again, but for what was registered so: archive and template"
    assert [row[-11:] for row in ran.rows] == [told.split()] * 2
    assert fleet.run("compare").exit_code == 0
    fleet.register(broker, MIXED)
    fleet.register(broker, MIXED, counter=2)  # something of it changed
    assert all_permissions(fleet) == [PERMS, PERMS]
    document = fleet.run("undrain", "broker-c", "--json").document
    assert [node["kept"] for node in document["nodes"]] == [["archive", "template"]] * 2


def test_a_node_that_restarts_while_a_broker_is_drained_gives_the_same_back(fleet: Fleet) -> None:
    broker = Broker("broker-c", addr="10.0.0.7:10911")
    fleet.register(broker, MIXED)
    fleet.run("drain", "broker-c")
    port = fleet.ports[0]
    fleet.restart(port)
    assert all_permissions(fleet)[0] == {topic: perm & ~2 for topic, perm in PERMS.items()}

    ran = fleet.run("undrain", "broker-c")

    assert ran.exit_code == 0, ran
    assert all_permissions(fleet) == [PERMS, PERMS]


def test_without_waiting_the_nodes_are_told_once(fleet: Fleet) -> None:
    ran = fleet.run("drain", "broker-a", "--no-wait")

    assert ran.exit_code == 0
    assert ran.stdout.count("write permission taken from 2 topics") == 2
    assert permissions(fleet) == {4}


@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_an_unknown_broker_is_a_no(fleet: Fleet, command: str) -> None:
    ran = fleet.run(command, "broker-z")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "named broker-z; did you mean broker-" in ran.stderr


def test_a_node_that_cannot_be_reached_is_named_and_the_others_are_drained(fleet: Fleet) -> None:
    addresses = fleet.addresses
    fleet.stop(fleet.ports[0])

    words = ["drain", "broker-a", "--within", "0"]
    ran = run_program(*words, namesrv_addr=";".join(addresses))

    assert ran.exit_code == 1
    assert [addresses[1], "2", "0", "drained"] in ran.rows
    assert addresses[0] in ran.stderr.splitlines()[-1]
    assert permissions(fleet) == {4}


def test_a_node_that_does_not_know_the_broker_is_warned_of(fleet: Fleet) -> None:
    fleet.register(Broker("broker-c", addr="10.0.0.7:10911"), on=fleet.ports[:1])

    ran = fleet.run("drain", "broker-c")

    assert ran.exit_code == 0
    assert ran.rows[1] == [fleet.addresses[1], "0", "0", *["does", "not", "know", "the", "broker"]]
    assert f"Warning: {fleet.addresses[1]} knows no topic of broker-c" in ran.stderr


def test_an_order_configuration_that_names_the_broker_is_warned_of(tmp_path: Path) -> None:
    with Fleet(tmp_path, order_message_enable=True) as fleet:
        fleet.register(Broker(), TOPICS)
        fleet.run("kv", "put", "ORDER_TOPIC_CONFIG", "orders", "broker-a:8;broker-b:8")

        ran = fleet.run("drain", "broker-a")

    assert ran.exit_code == 0
    assert "the order configuration of orders names broker-a" in ran.stderr


class Stubborn:
    """A NameServer with one writable topic that says success to everything.

    From the ``yields_at``-th request on, permissions change as asked.
    """

    def __init__(self, yields_at: int | None = None, refuses: int | None = None) -> None:
        self.perm = 6
        self.told = 0
        self.refusals = 0
        self._yields_at = yields_at
        self._refuses = refuses

    async def __call__(self, caller: Caller) -> None:
        while True:
            request = await caller.request()
            await caller.send(self.answered(request))

    def answered(self, request: raw.Answer) -> bytes:
        if request.code == self._refuses:
            self.refusals += 1
            return answer(request.opaque, raw.NO_PERMISSION, remark="no permission to do that")
        if request.code == RESTORE:
            return answer(request.opaque, raw.NOT_SUPPORTED, remark="not known")
        if request.code == raw.CLUSTER_INFO:
            body = b'{"brokerAddrTable":{},"clusterAddrTable":{"c":["broker-a"]}}'
        elif request.code == raw.ALL_TOPICS:
            body = b'{"topicList":["orders"]}'
        elif request.code == raw.ROUTE:
            body = (
                b'{"brokerDatas":[],"queueDatas":[{"brokerName":"broker-a","perm":%d,'
                b'"readQueueNums":4,"writeQueueNums":4}]}' % self.perm
            )
        else:
            self.told += 1
            if self._yields_at is not None and self.told >= self._yields_at:
                self.perm = 4
            fields = {"wipeTopicCount": "1", "addTopicCount": "1"}
            return answer(request.opaque, ext_fields=fields)
        return answer(request.opaque, body=body)


async def test_topics_still_writable_at_the_end_are_named() -> None:
    async with Server(Stubborn()) as server:
        words = ["drain", "broker-a", "--within", "0"]
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=server.address)

    assert ran.exit_code == 1
    assert ran.rows == [[server.address, "1", "1", "orders"]]
    assert "1 of 1 topics writable again, by a registration: orders" in ran.stderr
    last = ran.stderr.splitlines()[-1]
    assert f"not drained everywhere within 0 s: 1 topics writable at {server.address}" in last


async def test_a_node_is_told_again_until_it_is_done() -> None:
    stubborn = Stubborn(yields_at=2)
    async with Server(stubborn) as server:
        words = ["drain", "broker-a", "--within", "60"]
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=server.address)

    assert ran.exit_code == 0
    assert stubborn.told == 2
    assert "writable again, by a registration: orders" in ran.stderr


async def test_topics_that_stay_unwritable_are_named() -> None:
    stubborn = Stubborn()
    stubborn.perm = 4
    async with Server(stubborn) as server:
        words = ["undrain", "broker-a", "--within", "0"]
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=server.address)

    assert ran.exit_code == 1
    assert "not writable again everywhere within 0 s" in ran.stderr.splitlines()[-1]


async def test_a_node_that_was_down_is_told_when_it_is_back() -> None:
    async with Server(Stubborn()) as server:
        free = server.port
    first, second = Stubborn(yields_at=1), Stubborn(yields_at=1)
    async with Server(first) as server:
        words = ["drain", "broker-a", "--within", "60"]
        addresses = f"{server.address};127.0.0.1:{free}"
        running = asyncio.create_task(
            asyncio.to_thread(run_program, *words, namesrv_addr=addresses)
        )
        await soon("the first node to be told", lambda: first.told)
        async with Server(second, port=free):
            ran = await running

    assert ran.exit_code == 0, ran
    assert (first.perm, second.perm) == (4, 4)


class Bounded:
    """A NameServer like Java's, with a topic that may be read only; it knows 205 and 327."""

    def __init__(self) -> None:
        self.perm = 4
        self.told: list[int] = []

    async def __call__(self, caller: Caller) -> None:
        while True:
            request = await caller.request()
            if request.code == raw.ADD_WRITE:
                self.told.append(request.code)
                self.perm = 6
                fields = {"addTopicCount": "1"}
                await caller.send(answer(request.opaque, ext_fields=fields))
            elif request.code in (raw.CLUSTER_INFO, raw.ALL_TOPICS, raw.ROUTE):
                stubborn = Stubborn()
                stubborn.perm = self.perm
                await caller.send(stubborn.answered(request))
            else:
                self.told.append(request.code)
                await caller.send(answer(request.opaque, raw.NOT_SUPPORTED, remark="no"))


async def test_a_nameserver_that_cannot_tell_what_was_taken_is_warned_of() -> None:
    java = Bounded()
    async with Server(java) as server:
        words = ["undrain", "broker-a"]
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=server.address)

    assert (ran.exit_code, java.told) == (0, [19_004, raw.ADD_WRITE])
    assert f"Warning: {server.address} cannot tell what was taken" in ran.stderr
    assert "all topics of broker-a" in ran.stderr


@pytest.mark.parametrize("command", ["drain", "undrain"])
def test_a_relay_refuses_at_once_and_says_whom_to_ask(fleet: Fleet, command: str) -> None:
    relay = fleet.relay().address

    ran = run_program(command, "broker-a", "--within", "3600", namesrv_addr=relay)

    assert ran.exit_code == 1
    assert "trying again" not in ran.stderr
    last = ran.stderr.splitlines()[-1]
    assert f"{relay}: refused" in last
    assert "this is a relay" in last
    assert fleet.addresses[0] in last
    assert "within" not in last
    assert permissions(fleet) == {6}


@pytest.mark.parametrize(
    ("refused", "within"),
    [
        pytest.param(raw.WIPE_WRITE, "no permission to", id="the-change"),
        pytest.param(raw.ALL_TOPICS, "it was told, and does not say what came of it", id="a-look"),
    ],
)
async def test_a_refusal_is_final_and_others_are_told(refused: int, within: str) -> None:
    yields = Stubborn(yields_at=1)
    refuses = Stubborn(yields_at=1, refuses=refused)
    async with Server(yields) as first, Server(refuses) as second:
        words = ["drain", "broker-a", "--within", "3600", "--json"]
        addresses = f"{first.address};{second.address}"
        ran = await asyncio.to_thread(run_program, *words, namesrv_addr=addresses)

    assert ran.exit_code == 1
    assert yields.perm == 4
    assert refuses.refusals == 1
    by_node = {node["node"]: node for node in ran.document["nodes"]}
    assert by_node[first.address]["done"] is True
    assert by_node[second.address]["refused"] is True
    assert within in by_node[second.address]["error"]
    assert second.address in ran.stderr.splitlines()[-1]
