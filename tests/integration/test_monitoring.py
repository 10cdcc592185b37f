"""Alerts and board: Prometheus takes them, alerts fire when they should, panels find something."""

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from routebook.gateway.metric_table import METRICS, Type
from routebook.testing import Workbench
from support.deploying import DEPLOY, debian_program, document, documents, judged
from support.documents import ROOT
from support.gateways import fetch, gateway_of
from support.ports import free_port
from support.waiting import eventually

MONITORING = DEPLOY / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
BOARD: dict[str, Any] = json.loads((MONITORING / "board.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]


def alerts() -> dict[str, dict[str, Any]]:
    groups = document(ALERTS)["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def filled_in(query: str) -> str:
    """A query of the board as Grafana sends it."""
    values = {"$job": ".*", "$instance": ".*", "$__rate_interval": "1m"}
    for name, value in values.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


# -- the rules


def test_prometheus_takes_rules_and_job() -> None:
    judged(debian_program("promtool"), "check", "rules", ALERTS)
    judged(debian_program("promtool"), "check", "config", MONITORING / "prometheus.yaml")


def test_each_alert_fires_for_what_it_is_about_and_for_nothing_less() -> None:
    cases = MONITORING / "alerts.test.yaml"
    judged(debian_program("promtool"), "test", "rules", cases)
    tried = [rule for test in document(cases)["tests"] for rule in test["alert_rule_test"]]
    assert {rule["alertname"] for rule in tried if rule["exp_alerts"]} == set(alerts())


def test_the_operator_is_given_the_same_rules() -> None:
    rule = document(MONITORING / "prometheus-rule.yaml")
    assert rule["spec"] == {"groups": document(ALERTS)["groups"]}


def test_the_documents_tell_of_every_alert() -> None:
    rows = re.findall(
        r"^\| (Routebook\w+) \| (\w+) \|", (ROOT / "docs/deploy.md").read_text(), re.M
    )
    assert rows == [(name, rule["labels"]["severity"]) for name, rule in alerts().items()]


# -- in a cluster


def test_the_service_that_is_scraped_is_there() -> None:
    made = documents(judged(debian_program("kubectl"), "kustomize", DEPLOY / "kubernetes"))
    services = [each for each in made if each["kind"] == "Service"]
    monitors = documents((MONITORING / "service-monitor.yaml").read_text())
    jobs = {}
    for spec in (monitor["spec"] for monitor in monitors):
        wanted = spec["selector"]["matchLabels"].items()
        [service] = [each for each in services if wanted <= each["metadata"]["labels"].items()]
        [endpoint] = spec["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        jobs[service["metadata"]["labels"][spec["jobLabel"]]] = service["spec"]
    plain = document(MONITORING / "prometheus.yaml")["scrape_configs"]
    assert [*jobs] == [job["job_name"] for job in plain]
    assert jobs["routebook"]["publishNotReadyAddresses"]


def test_the_board_is_handed_to_grafana_as_it_is() -> None:
    made = documents(judged(debian_program("kubectl"), "kustomize", MONITORING))
    kinds = {each["kind"]: each for each in made}
    assert set(kinds) == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    board = kinds["ConfigMap"]
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["routebook.json"]) == BOARD


# -- the board


def test_panels_have_a_place_and_a_sentence_each() -> None:
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["description"].endswith(".") for panel in PANELS)
    places = [panel["gridPos"] for panel in BOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_the_board_asks_the_source_that_was_chosen() -> None:
    variables = {each["name"] for each in BOARD["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}
    asked = [panel["datasource"] for panel in PANELS]
    asked += [target["datasource"] for panel in PANELS for target in panel["targets"]]
    assert all(each == {"type": "prometheus", "uid": "${datasource}"} for each in asked)


# -- what they ask for


def series() -> dict[str, set[str]]:
    """Every name a query may have, with the labels of it."""
    ends = {Type.HISTOGRAM: ("_bucket", "_sum", "_count")}
    target = {"job", "instance", "node"}
    named = {
        metric.full_name + end: {*metric.labels, *target, *(["le"] if end == "_bucket" else [])}
        for metric in METRICS
        for end in ends.get(metric.type, ("",))
    }
    return {"up": target, **named}


def test_only_metrics_and_labels_that_exist_are_asked_for() -> None:
    known = series()
    expressions = [*QUERIES, *(rule["expr"] for rule in alerts().values())]
    assert len(expressions) > 40
    for expression in expressions:
        names = set(re.findall(r"\b(?:rocketmq_namesrv_\w+|up)\b", expression))
        assert names, expression
        assert names <= set(known), expression
        labels = set().union(*(known[name] for name in names))
        matched = re.findall(r"(\w+) *(?:=~|!~|!=|=)\"", expression)
        grouped = re.findall(r"(?:by|on|group_left) *\(([^)]*)\)", expression)
        used = {*matched, *(name for each in grouped for name in re.findall(r"\w+", each))}
        assert used <= labels, expression


def test_legends_and_sentences_name_labels_that_exist() -> None:
    known = set().union(*series().values())
    legends = [target["legendFormat"] for panel in PANELS for target in panel["targets"]]
    sentences = [text for rule in alerts().values() for text in rule["annotations"].values()]
    used = re.findall(r"{{ *(?:\$labels\.)?([a-z_]+) *}}", " ".join([*legends, *sentences]))
    assert len(used) > 20
    assert set(used) <= known


@contextmanager
def prometheus(folder: Path, targets: dict[str, str]) -> Iterator[str]:
    """A real one with the files of deploy/, that scrapes these targets instead; its URL."""
    config = document(MONITORING / "prometheus.yaml")
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [urlsplit(targets[job["job_name"]]).netloc]}]
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yaml").write_text(ALERTS.read_text())
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                debian_program("prometheus"),
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(30)


async def asked(url: str, path: str, **parameters: str) -> Any:
    """The data of an answer of Prometheus, None while it starts."""
    try:
        page = await asyncio.to_thread(fetch, url, f"{path}?{urlencode(parameters)}")
    except OSError:
        return None
    if page.status == 503:
        return None
    answer: dict[str, Any] = json.loads(page.body)
    assert answer["status"] == "success", answer
    return answer["data"]


async def test_prometheus_finds_something_for_every_panel(tmp_path: Path) -> None:
    """Two nodes with a gateway of one and one of both, a broker that stays and one that is lost."""
    async with AsyncExitStack() as stack:
        bench = stack.enter_context(Workbench(tmp_path / "bench"))
        one, other = bench.nodes(2)
        both = f"{one.address};{other.address}"
        bench.broker("broker-a", topics=["orders"], nameservers=both)
        lost = bench.broker("broker-b", topics=["orders"], nameservers=both)
        own = await stack.enter_async_context(gateway_of(one.address, own=True))
        fleet = await stack.enter_async_context(gateway_of(one.address, other.address))
        await own.settled()
        await fleet.settled()
        lost.kill()
        targets = {"routebook": own.url, "routebook-fleet": fleet.url}
        url = stack.enter_context(prometheus(tmp_path, targets))

        async def silent() -> list[str]:
            """Queries of the board that find nothing."""
            found = [await asked(url, "/api/v1/query", query=filled_in(q)) for q in QUERIES]
            return [
                q for q, data in zip(QUERIES, found, strict=True) if not (data or {}).get("result")
            ]

        await eventually("an answer to every query", silent, until=lambda left: left == [])
        groups = (await asked(url, "/api/v1/rules"))["groups"]
        health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
        assert health == dict.fromkeys(alerts(), "ok")
