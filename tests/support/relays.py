"""Relays on free ports; and NameServers in memory with a clock that stands still."""

import asyncio
import time
from collections.abc import Callable, Sequence

from routebook.client.errors import (
    AllNodesFailed,
    CannotConnect,
    NameServerError,
    NoNameServers,
    Refused,
)
from routebook.client.node import Answer
from routebook.relay.cache import Question
from routebook.relay.relay import Relay, RelaySettings
from routebook.settings import ListenSettings, TlsSettings
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from support import raw
from support.builders import broker_fields, mapping_info, registration_body
from support.raw import Peer

NODE = Address("10.0.0.1", 9876)
OTHER_NODE = Address("10.0.0.2", 9876)


AGE, STALE = "routebookAgeMillis", "routebookStale"


def local_relay(
    *nameservers: str,
    poll_s: float = 30.0,
    forget_after_s: float = 120.0,
    timeout_s: float = 2.0,
    tls: TlsSettings | None = None,
    max_topics: int = 1000,
    clock: Callable[[], float] = time.monotonic,
) -> Relay:
    """A relay to be entered, on a free port of 127.0.0.1."""
    return Relay(
        RelaySettings(
            nameservers=nameservers,
            listen=ListenSettings(bind_address="127.0.0.1", listen_port=0),
            tls=tls or TlsSettings(),
            poll_s=poll_s,
            forget_after_s=forget_after_s,
            timeout_s=timeout_s,
            max_topics=max_topics,
        ),
        clock=clock,
    )


class Clock:
    """Seconds, as a test wants them."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class ClockAhead:
    """Goes on, ``ahead_s`` before the real one."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class MemoryNodes:
    """Answers from ``bodies``, by topic or broker or code; what is not there is refused.

    While ``down``, nobody answers, nor ever to what is ``mute``; while ``gate`` is closed, nobody
    answers yet.
    """

    def __init__(self, **bodies: bytes) -> None:
        self.bodies: dict[str | int, bytes] = {}
        self.bodies.update(bodies.items())
        self.fields: dict[str, str | None] = {}  # of each good answer
        self.down = False
        self.mute: set[str] = set()
        self.listed = True
        self.asked: list[Command] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def chosen(self) -> Address | None:
        return NODE

    async def nodes(self, *, timeout_s: float | None = None) -> tuple[Address, ...]:
        if not self.listed:
            raise NoNameServers("the address service does not answer")
        return (NODE, OTHER_NODE)

    async def ask_many(
        self, requests: Sequence[Command], *, timeout_s: float | None = None
    ) -> list[Answer | NameServerError]:
        self.asked += requests
        self.in_flight += len(requests)
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await self.gate.wait()
        self.in_flight -= len(requests)
        return [self._answer(request) for request in requests]

    def subjects(self) -> list[str | int]:
        return [_subject(request) for request in self.asked]

    def _answer(self, request: Command) -> Answer | NameServerError:
        if self.down or _subject(request) in self.mute:
            return AllNodesFailed([CannotConnect(NODE, "nobody listens")])
        body = self.bodies.get(_subject(request))
        if body is None:
            code = ResponseCode.TOPIC_NOT_EXIST
            return Refused(NODE, RequestCode.GET_ROUTEINFO_BY_TOPIC, code, "no route")
        return Answer(NODE, Command(ext_fields=dict(self.fields), body=body))


def _subject(request: Command) -> str | int:
    fields = request.ext_fields
    return fields.get("topic") or fields.get("brokerName") or request.code


def route_body(*addrs: str) -> bytes:
    """A route in standard form with one broker for each address."""
    brokers = ",".join(
        f'{{"brokerAddrs":{{"0":"{addr}"}},"brokerName":"b{i}","cluster":"c"}}'
        for i, addr in enumerate(addrs)
    )
    return f'{{"brokerDatas":[{brokers}],"filterServerTable":{{}},"queueDatas":[]}}'.encode()


def route(topic: str) -> Question:
    return Question(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)


async def spin(until: Callable[[], bool]) -> None:
    """Let tasks run, without time passing, until a condition holds."""
    for _ in range(1000):
        if until():
            return
        await asyncio.sleep(0)
    raise AssertionError("the tasks came to rest and the condition does not hold")


# -- what peers see


async def register_all(peer: Peer) -> None:
    """A few brokers with everything a route can show."""
    for name, zone, cluster in (("brö/ker", "East", "群集"), ("broker-b", "west", "c2")):
        for broker_id in (0, 1):
            fields = broker_fields(
                name, broker_id, addr=f"{name}-{broker_id}:10911", cluster=cluster, __ZONE_NAME=zone
            )
            body = registration_body(
                ["orders", "t-ö", "static"],
                filter_servers=["10.9.9.9:1"],
                mappings={"static": mapping_info("static", name)},
            )
            text = {key: value for key, value in fields.items() if value is not None}
            assert (await peer.ask(raw.REGISTER, text, body)).code == raw.SUCCESS


def age_ms(answer: raw.Answer) -> int:
    assert answer.code == raw.SUCCESS, answer
    assert answer.ext_fields is not None
    return int(answer.ext_fields[AGE])


def is_stale(answer: raw.Answer) -> bool:
    assert answer.ext_fields is not None
    return answer.ext_fields.get(STALE) == "true"


def is_older(answer: raw.Answer, than: raw.Answer) -> bool:
    return age_ms(answer) > age_ms(than)
