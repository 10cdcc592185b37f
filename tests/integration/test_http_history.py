"""The past over HTTP: the same answers as the command line, windows, and the process behind it."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from routebook.events import Cause, KvChanged
from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import Job
from routebook.gateway.worker.process import Worker
from routebook.history import window
from routebook.testing import Workbench
from support.fleet import run_program
from support.gateways import GatewayThread
from support.journal_folders import write_journal
from support.night import SECOND, night
from support.waiting import soon, wait_for


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("night")
    write_journal(folder / "journal", night().records)
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayThread]:
    with (
        Workbench(tmp_path_factory.mktemp("node")) as bench,
        GatewayThread(bench.nodes(1)[0].address, own=True, data_dir=str(folder)) as gateway,
    ):
        yield gateway


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (
            "route orders --at 2026-11-15T03:51:04Z",
            "route?topic=orders&at=2026-11-15T03:51:04Z",
        ),
        (
            "diff --from 2026-11-15T03:15:00Z --to 2026-11-15T03:40:30Z --topic payments",
            "diff?from=2026-11-15T03:15:00Z&to=2026-11-15T03:40:30Z&topic=payments",
        ),
        ("topic payments", "topic?topic=payments"),
        ("broker broker-a", "broker?broker=broker-a"),
        ("explain broker-a", "explain?name=broker-a"),
        ("explain t001 --to 2026-11-15T03:45:00Z", "explain?name=t001&to=2026-11-15T03:45:00Z"),
    ],
)
def test_the_answer_is_that_of_the_command(
    gateway: GatewayThread, folder: Path, command: str, path: str
) -> None:
    ran = run_program("history", *command.split(), "--journal", str(folder), "--json")
    said = json.loads(ran.stdout)
    found = gateway.document(f"/v1/history/{path}")
    assert found.pop("troubles") == []
    found.pop("left_out", None)
    for source in said["sources"]:
        source["source"] = "journal"  # a folder is for those who have the machine
    assert found == said


def test_a_window_is_the_topology_and_every_step_after_it(gateway: GatewayThread) -> None:
    found = gateway.document("/v1/history/window?from=2026-11-15T03:30:00Z&to=2026-11-15T03:55:00Z")
    assert (found["known"], found["complete"], found["doubts"]) == (True, True, [])
    groups = {(each["cluster"], each["broker"]): each for each in found["groups"]}
    assert {key[1]: each["topics"] for key, each in groups.items()} == {
        "broker-a": 120,
        "broker-b": 2,
    }
    left = next(each for each in found["events"] if each["type"] == "BrokerLeft")
    assert left["after"] is None
    assert left["text"] == (
        "broker-a left: its connection was closed by the peer; it had 120 topics."
    )
    for event in found["events"]:
        if "groups" in event:
            groups = {(each["cluster"], each["broker"]): each for each in event["groups"]}
        elif "after" in event:
            key = (event["cluster"], event["broker"])
            if event["after"] is None:
                groups.pop(key, None)
            else:
                groups[key] = event["after"]
    # Played to the end it is what a window of no length shows there.
    end = gateway.document(
        f"/v1/history/window?from=seq:{found['to_seq']}&to=seq:{found['to_seq']}"
    )
    assert sorted(groups.values(), key=lambda group: group["broker"]) == end["groups"]
    assert end["events"] == []
    assert [each["reason"] for each in found["silences"]] == ["stopped"]


def test_a_window_without_its_topology_is_smaller(gateway: GatewayThread) -> None:
    path = "/v1/history/window?from=2026-11-15T03:30:00Z&to=2026-11-15T03:31:00Z&topology=false"
    assert gateway.document(path)["groups"] is None


def test_a_window_with_too_many_steps_says_how_far_it_goes(folder: Path) -> None:
    from routebook.history.finding.journals import Journal
    from routebook.history.times import parse

    journal = Journal(folder / "journal", lambda *_: None)
    begin, end = (parse(text, now_ms=0) for text in ("2026-11-15T03:00:00Z", "2026-11-15T04:00Z"))
    part = window.window_of(journal, begin, end, max_steps=3)
    assert (part.complete, len(part.steps)) == (False, 3)
    assert part.to_seq == part.steps[-1].record.seq
    rest = window.window_of(journal, parse(f"seq:{part.to_seq}", now_ms=0), end)
    whole = window.window_of(journal, begin, end)
    assert whole.steps == part.steps + rest.steps
    assert rest.complete


def test_signs_of_life_are_told_window_by_window(gateway: GatewayThread) -> None:
    (member,) = gateway.document("/v1/history/heartbeats?broker=broker-a")["nodes"][0]["members"]
    assert member["points"][0]["gaps_ms"] == [30_000, 95_000]
    assert (member["timeout_ms"], sum(member["histogram"])) == (120_000, 2)


def test_demand_is_told_by_window(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        node = bench.nodes(1, journal_window_seconds=1)[0]
        bench.broker("broker-a", topics=["orders"], nameservers=node.address)
        client = node.client()
        with GatewayThread(node.address) as gateway:

            def counted() -> Any:
                client.find_route("orders")
                return gateway.document("/v1/history/demand?topic=orders")["nodes"][0]

            demand = wait_for(
                "questions that were counted", counted, until=lambda found: found["known"]
            )
    point = demand["points"][0]
    assert (point["window_ms"] >= 1000, demand["unknown"], demand["unlisted"]) == (True, 0, 0)
    assert demand["known"] == sum(point["known"] for point in demand["points"])


def test_topics_of_a_broker_come_in_pages(gateway: GatewayThread) -> None:
    path = "/v1/history/topics?broker=broker-a&at=2026-11-15T03:30:00Z&limit=100"
    first = gateway.document(path)
    rest = gateway.document(f"{path}&cursor={first['next']}")
    assert (first["total"], len(first["topics"]), len(rest["topics"])) == (120, 100, 20)
    assert rest["next"] is None
    found = gateway.document(f"{path}&q=PAY")["topics"]
    assert found == [
        {
            "cluster": "c",
            "topic": "payments",
            "queues": [8, 8, 6, 0],
            "permission": "RW-",
            "registered": None,
        }
    ]


def test_the_span_of_history_is_that_of_the_journal(gateway: GatewayThread) -> None:
    (source,) = gateway.document("/v1/history")["sources"]
    assert (source["from"], source["to"]) == ("2026-11-15T03:00:00Z", None)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("topic?topic=payment", "did you mean payments?"),
        ("broker?broker=broker-z", "no broker broker-z is known of ns-1-0a1b2c3d between"),
        ("route?topic=orders&at=2026-11-15T02:00:00Z", "is too early"),
        ("route?topic=orders&at=seq:9999", "is not there yet"),
        ("compare", "it takes the history of two nodes to compare"),
    ],
)
def test_what_no_journal_knows_is_said(gateway: GatewayThread, path: str, said: str) -> None:
    page = gateway.get(f"/v1/history/{path}")
    error: Any = page.json
    assert (page.status, error["code"]) == (404, "no_history")
    assert said in error["error"]


def test_an_answer_about_the_past_has_an_etag_and_is_packed(gateway: GatewayThread) -> None:
    path = "/v1/history/window?from=2026-11-15T03:00:00Z&to=2026-11-15T03:55:00Z"
    page = gateway.get(path, **{"Accept-Encoding": "gzip"})
    assert page.headers["content-encoding"] == "gzip"
    again = gateway.get(path, **{"If-None-Match": page.headers["etag"]})
    assert again.status == 304


def test_values_of_pairs_are_told_by_their_length(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whoever may read over HTTP may not know them, as over the network."""
    story = night()
    story.at("03:56:00").add(
        KvChanged(
            revision=story.records[-1].event.revision + 1,
            cause=Cause.ADMIN,
            peer="10.0.0.9:51234",
            namespace="ORDER_TOPIC_CONFIG",
            key="orders",
            before=None,
            after="secret",
        )
    )
    write_journal(tmp_path / "journal", story.records)
    with (
        Workbench(tmp_path_factory.mktemp("node")) as bench,
        GatewayThread(bench.nodes(1)[0].address, own=True, data_dir=str(tmp_path)) as gateway,
    ):
        pages = [
            gateway.get("/v1/history/window?from=2026-11-15T03:55:30Z&to=2026-11-15T04:00Z"),
            gateway.get("/v1/history/explain?name=orders"),
        ]
    for page in pages:
        assert "was set to (6 characters)" in page.text
        assert "secret" not in page.text


def test_several_nodes_are_asked_for_what_they_remember(tmp_path: Path) -> None:
    with Workbench(tmp_path) as bench:
        nodes = bench.nodes(2)
        bench.broker("broker-a", topics=["orders"], nameservers=nodes[0].address)
        with GatewayThread(*(node.address for node in nodes)) as gateway:
            found = gateway.document("/v1/history/route?topic=orders")
            assert [each["told"] for each in found["nodes"]] == ["route", "none"]
            one = gateway.document(f"/v1/history/route?topic=orders&node={nodes[1].address}")
            assert [each["told"] for each in one["nodes"]] == ["none"]
            nodes[1].stop()
            late = wait_for(
                "the trouble with one of them",
                lambda: gateway.document("/v1/history/topic?topic=orders"),
                until=lambda found: found["troubles"],
            )
            assert nodes[1].address in late["troubles"][0]


# -- the process that answers


def job(folder: Path) -> Job:
    return Job(question="span", journal=str(folder))


async def test_its_process_is_begun_when_it_is_needed_and_let_go(folder: Path) -> None:
    worker = Worker(idle_s=0.2)
    try:
        assert worker.pid is None
        answered = await worker.do(job(folder))
        assert answered.outcome.status == 200
        assert worker.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) >= 15
        await soon("its end", lambda: worker.pid is None)
        assert (await worker.do(job(folder))).outcome.status == 200
    finally:
        await worker.close()


async def test_a_process_that_was_let_go_has_ended_when_the_worker_is_closed(folder: Path) -> None:
    worker = Worker(idle_s=0)
    await worker.do(job(folder))
    pid = worker.pid
    assert pid is not None
    await soon("that it is let go", lambda: worker.pid is None)
    await worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_more_than_a_few_questions_are_turned_away(folder: Path) -> None:
    worker = Worker(most_waiting=2)
    try:
        results = await asyncio.gather(
            *(worker.do(job(folder)) for _ in range(5)), return_exceptions=True
        )
    finally:
        await worker.close()
    refused = [each for each in results if isinstance(each, Failure)]
    assert [(each.status, each.code, each.retry_after_s) for each in refused] == [
        (503, "busy", 5)
    ] * 2


async def test_a_question_that_takes_too_long_ends_with_its_process(folder: Path) -> None:
    worker = Worker()
    try:
        await worker.do(job(folder))
        first = worker.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        worker._longest_s = 0.5
        with pytest.raises(Failure) as told:
            await worker.do(job(folder))
        assert (told.value.status, told.value.code) == (504, "took_too_long")
        worker._longest_s = 60
        assert (await worker.do(job(folder))).outcome.status == 200
        assert worker.pid != first
    finally:
        await worker.close()


async def test_a_process_that_dies_is_another_one_next_time(folder: Path) -> None:
    worker = Worker()
    try:
        await worker.do(job(folder))
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append((await worker.do(job(folder))).outcome.status)
            except Failure as failure:  # it was not yet known to be dead
                outcomes.append(failure.status)
        assert outcomes in ([500, 200], [200, 200])
    finally:
        await worker.close()


def test_a_damaged_journal_answers_what_it_can(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    records = night(SECOND).records
    write_journal(tmp_path / "journal", records[:5] + records[9:])
    with (
        Workbench(tmp_path_factory.mktemp("node")) as bench,
        GatewayThread(bench.nodes(1)[0].address, own=True, data_dir=str(tmp_path)) as gateway,
    ):
        found = gateway.document("/v1/history/broker?broker=broker-a")
    assert found["nodes"][0]["sessions"]
