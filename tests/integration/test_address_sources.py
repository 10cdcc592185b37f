"""The HTTP address service: what is asked, what counts as an answer, and what outlives it."""

import asyncio
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from routebook.client.errors import NoNameServers
from routebook.client.sources import HttpAddresses, find_source
from routebook.wire.address import Address
from support.address_service import (
    AddressService,
    Answer,
    address_service,
    nobody,
    raw_bytes,
    text,
    trickle,
)
from support.waiting import eventually, soon

ONE, TWO, THREE = (Address("10.0.0.1", 9876), Address("10.0.0.2", 9876), Address("::1", 9877))
GOOD = text("10.0.0.1:9876;10.0.0.2:9876")


@pytest.fixture
def service() -> Iterator[AddressService]:
    with address_service(GOOD) as service:
        yield service


async def test_a_unit_is_asked_for_exactly_as_other_clients_do(service: AddressService) -> None:
    source = find_source(environ={"ROCKETMQ_NAMESRV_DOMAIN": service.domain}, unit="center")

    assert await source.find() == (ONE, TWO)
    (question,) = service.questions
    assert question.path == "/rocketmq/nsaddr-center?nofix=1"
    assert question.headers["Host"] == service.domain
    assert question.headers["Client-Version"] == "V5_5_0"
    assert question.headers["Content-Type"] == "application/x-www-form-urlencoded;charset=UTF-8"
    assert int(question.headers["Metaq-Client-RequestTS"]) > 1_700_000_000_000


async def test_proxies_of_the_environment_are_not_asked(
    service: AddressService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", nobody())

    assert await HttpAddresses(service.url).find() == (ONE, TWO)


@pytest.mark.parametrize(
    ("answer", "addresses"),
    [
        pytest.param(text("\r\n 10.0.0.1:9876\r\n10.0.0.2:9876\n"), (ONE,), id="first-line"),
        pytest.param(text("10.0.0.1:9876\r10.0.0.2:9876"), (ONE,), id="carriage-return"),
        pytest.param(text("10.0.0.1:9876;;[::1]:9877;\n"), (ONE, THREE), id="gaps"),
        pytest.param(text(b"10.0.0.1:9876\n" + b"x" * 2**20), (ONE,), id="giant-after-a-line"),
        pytest.param(
            raw_bytes(b"HTTP/1.1 200 OK\r\n\r\n10.0.0.1:9876"), (ONE,), id="no-content-length"
        ),
        pytest.param(
            raw_bytes(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"5\r\n10.0.\r\n8\r\n0.1:9876\r\n0\r\n\r\n"
            ),
            (ONE,),
            id="chunked",
        ),
    ],
)
async def test_the_first_line_of_the_answer_is_the_list(
    answer: Answer, addresses: tuple[Address, ...], service: AddressService
) -> None:
    service.answer = answer

    assert await HttpAddresses(service.url).find() == addresses


async def test_a_malformed_element_never_hurts_the_others(
    service: AddressService, caplog: pytest.LogCaptureFixture
) -> None:
    service.answer = text("10.0.0.1:9876;nonsense;10.0.0.2:9876" + ";!" * 1000)
    source = HttpAddresses(service.url)

    assert await source.find() == (ONE, TWO)
    assert await source.find() == (ONE, TWO)
    assert source.failure is None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "skipped 1001 not host:port: ['nonsense', '!'," in caplog.text
    assert len(caplog.text) < 1000


USELESS = [
    pytest.param(text("10.0.0.9:1", 404), "HTTP status 404", id="404"),
    pytest.param(text("10.0.0.9:1", 500), "HTTP status 500", id="500"),
    pytest.param(text("10.0.0.9:1", 206), "HTTP status 206", id="success-but-not-200"),
    pytest.param(text(""), "the answer is empty", id="empty"),
    pytest.param(text(" \r\n\n "), "the answer is empty", id="blank"),
    pytest.param(
        text("<html>Sign in</html>"),
        "the answer has no address: '<html>Sign in</html>'",
        id="a-page",
    ),
    pytest.param(text(b"\xff\xfe\0"), "the answer has no address", id="binary"),
    pytest.param(text("10.0.0.9:1;" * 10_000), "longer than 65536 bytes", id="giant-line"),
    pytest.param(text(b"\n" * 2**20), "the answer is empty", id="giant-blank"),
    pytest.param(raw_bytes(b"SSH-2.0-x\r\n"), "the answer is not HTTP", id="not-http"),
    pytest.param(raw_bytes(b""), "remote end closed connection", id="hangs-up"),
    pytest.param(
        raw_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n10.0.0.9:98"),
        "the answer was cut short",
        id="cut-short",
    ),
    pytest.param(
        raw_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n10.0.0.9:1"),
        "the answer was cut short",
        id="cut-short-in-a-chunk",
    ),
    pytest.param(
        text("", 302, location="ftp://10.0.0.9/list"), "'ftp://10.0.0.9/list'", id="to-ftp"
    ),
    pytest.param(text("", 302, location="file:///etc/hosts"), "'file:", id="to-a-file"),
    pytest.param(text("", 302, location="http://[/"), "is not an http:// URL", id="to-nowhere"),
    pytest.param(text("", 302), "more than 5 redirects", id="to-itself"),
]


@pytest.mark.parametrize(("answer", "reason"), USELESS)
async def test_the_error_names_the_remedies_and_what_the_service_did(
    answer: Answer, reason: str, service: AddressService
) -> None:
    service.answer = answer

    with pytest.raises(NoNameServers) as caught:
        await HttpAddresses(service.url).find()

    assert str(caught.value).startswith(
        "no NameServer is known: pass addresses, give -n host:port;host:port, set NAMESRV_ADDR,"
        f" or make {service.url} answer ("
    )
    assert reason in str(caught.value)


@pytest.mark.parametrize(("answer", "reason"), USELESS)
async def test_a_useless_answer_leaves_the_last_good_list(
    answer: Answer, reason: str, service: AddressService, caplog: pytest.LogCaptureFixture
) -> None:
    source = HttpAddresses(service.url)
    await source.find()
    service.answer = answer

    assert await source.find() == (ONE, TWO)
    assert source.failure is not None
    assert reason in source.failure
    assert "the last known list stays" in caplog.text

    service.answer = text("[::1]:9877")
    assert await source.find() == (THREE,)
    assert source.failure is None


async def test_a_refused_connection_is_called_one() -> None:
    with pytest.raises(NoNameServers, match=r"answer \(connection refused\)$"):
        await HttpAddresses(nobody()).find()


async def test_a_name_that_does_not_resolve_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    with pytest.raises(NoNameServers, match=r"answer \(the name does not resolve\)$"):
        await HttpAddresses("http://nowhere.invalid/").find()


async def test_the_last_good_list_outlives_the_service(service: AddressService) -> None:
    source = HttpAddresses(service.url)
    await source.find()
    service.stop()

    assert await source.find() == (ONE, TWO)
    assert source.failure == "connection refused"


async def test_a_changed_list_is_seen_by_the_next_look(service: AddressService) -> None:
    source = HttpAddresses(service.url)
    assert await source.find() == (ONE, TWO)

    service.answer = text("10.0.0.2:9876;[::1]:9877")

    assert await source.find() == (TWO, THREE)


async def test_a_redirect_within_http_is_followed(service: AddressService) -> None:
    with address_service(text("", 302, location=f"http://{service.domain}/b?c=d#e")) as first:
        assert await HttpAddresses(first.url).find() == (ONE, TWO)

    assert [question.path for question in service.questions] == ["/b?c=d"]


async def test_a_dead_address_of_the_service_does_not_hurt_its_others(
    service: AddressService, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, alive = nobody(), service.url
    endpoints = [("127.0.0.1", int(url.split(":")[2].split("/")[0])) for url in (dead, alive)]
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda *_, **__: [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", endpoint) for endpoint in endpoints
        ],
    )

    assert await HttpAddresses("http://service.example/").find() == (ONE, TWO)


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"", id="status-line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n10.0.0.9:", id="body"),
    ],
)
async def test_a_trickling_service_is_given_up_in_time(
    start: bytes, service: AddressService
) -> None:
    service.answer = trickle(start, service.stopped)
    source = HttpAddresses(service.url, timeout_s=0.3)

    with pytest.raises(NoNameServers, match=r"\(no answer within 0\.3 s\)$"):
        await source.find()

    async def found() -> tuple[Address, ...]:
        with suppress(NoNameServers):
            return await source.find()
        return ()

    service.answer = GOOD
    assert await eventually("a new look-up", found) == (ONE, TWO)


async def test_callers_share_one_look_up_and_may_leave_it(service: AddressService) -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def when_told(handler: Any) -> None:
        asked.set()
        answer_now.wait()
        GOOD(handler)

    service.answer = when_told
    source = HttpAddresses(service.url, timeout_s=60)
    callers = [asyncio.create_task(source.find()) for _ in range(10)]
    await soon("the question", asked.is_set)
    callers[0].cancel()
    await asyncio.wait(callers[:1])
    answer_now.set()

    assert await asyncio.gather(*callers[1:]) == [(ONE, TWO)] * 9
    assert callers[0].cancelled()
    assert len(service.questions) == 1


async def test_look_ups_stuck_in_the_resolver_do_not_pile_up(
    service: AddressService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    resolve, calls = socket.getaddrinfo, list[object]()
    resolver_answers = threading.Event()

    def stuck(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        resolver_answers.wait()
        return resolve(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    source = HttpAddresses(service.url, timeout_s=0.05, snapshot=tmp_path / "list")
    try:
        for _ in range(3):
            with pytest.raises(NoNameServers, match=r"\(no answer within 0\.05 s\)$"):
                await source.find()
        assert len(calls) == 1

        (tmp_path / "list").write_text("[::1]:9877")
        assert await source.find() == (THREE,)
        assert len(calls) == 1
    finally:
        resolver_answers.set()

    await eventually("the list", source.find, until=lambda found: found == (ONE, TWO))


def test_a_stuck_resolver_does_not_keep_a_program_from_ending() -> None:
    program = """
import asyncio, socket, threading
from routebook.client.sources import HttpAddresses
socket.getaddrinfo = lambda *_, **__: threading.Event().wait()
try:
    asyncio.run(HttpAddresses("http://service.example/", timeout_s=0.05).find())
except Exception as error:
    print(type(error).__name__)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert (run.returncode, run.stdout, run.stderr) == (0, "NoNameServers\n", "")


def test_a_source_serves_one_event_loop_after_another(service: AddressService) -> None:
    source = HttpAddresses(service.url)

    assert asyncio.run(source.find()) == (ONE, TWO)
    service.answer = text("[::1]:9877")
    assert asyncio.run(source.find()) == (THREE,)
