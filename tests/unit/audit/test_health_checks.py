"""Findings about what nodes say of themselves."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pytest

from routebook.audit.checks import brokers, health, nodes
from routebook.audit.doctor import diagnose
from routebook.audit.findings import Finding, Severity
from routebook.audit.health import Health, RelayHealth, RelayReport, Report
from routebook.audit.survey import Survey
from routebook.client.errors import BadAnswer, NameServerError, Refused
from routebook.wire.codes import RequestCode, ResponseCode
from support import health as told
from support.views import N1, N2, group, queues, survey, view

A = group("broker-a")
TOPICS = {"t": [queues()]}
SAID = 1_767_272_400_000  # when the node was asked

Check = Callable[[Survey], Iterator[Finding]]


def reporting(found: Report | RelayReport | NameServerError) -> Survey:
    seen = replace(view(N1, [A], TOPICS), taken_at_ms=SAID)
    return replace(survey(seen, view(N2, [A], TOPICS)), reports={N1: found})


def saying(**members: object) -> Survey:
    document = told.report(**members)
    return reporting(Report(msgspec.convert(document, Health), document))


HELD = told.holding("b00", "b01", "b02", "b03", "b04", "b05", "b06")
STALLED = {"from_ms": SAID - 140_000, "to_ms": SAID - 5_000, "longest_ms": 135_000, "clock_ms": 0}
LONG_AGO = {"from_ms": 1_000, "to_ms": 136_000, "longest_ms": 135_000, "clock_ms": 0}
CLOCK_SET = {"from_ms": SAID, "to_ms": SAID, "longest_ms": 0, "clock_ms": -90_000}


@pytest.mark.parametrize(
    ("members", "check", "severity", "evidence"),
    [
        pytest.param(
            {"guard": HELD, "ok": False},
            "guard-holds-brokers",
            Severity.ERROR,
            "7 of 12 brokers are silent past their time and still in its routes, until"
            " 2026-01-01T12:10:00Z",
            id="guard",
        ),
        pytest.param(
            {"journal": {"failing": True, "last_error": "no space left", "lost": 3}, "ok": False},
            "journal-failing",
            Severity.ERROR,
            "it cannot write its journal: no space left",
            id="journal",
        ),
        pytest.param(
            {"journal": {"failing": False, "lost": 3}},
            "records-lost",
            Severity.WARNING,
            "3 records lost since it started; its journal can be written again",
            id="lost-records",
        ),
        pytest.param(
            {"unconfirmed": 2},
            "unconfirmed-brokers",
            Severity.WARNING,
            "2 of 12 brokers are known from before its restart only, and have not been heard of"
            " since",
            id="unconfirmed",
        ),
        pytest.param(
            {"stalls": {"count": 2, "paused_ms": 140_000, "last": STALLED}},
            "node-stalled",
            Severity.WARNING,
            "last from 2026-01-01T12:57:40Z for 2 min 15 s",
            id="stalled",
        ),
        pytest.param(
            {"stalls": {"count": 1, "paused_ms": 135_000, "last": LONG_AGO}},
            "node-stalled",
            Severity.INFO,
            "last from 1970-01-01T00:00:01Z for 2 min 15 s",
            id="stalled-long-ago",
        ),
        pytest.param(
            {"stalls": {"count": 1, "paused_ms": 0, "last": CLOCK_SET}},
            "node-stalled",
            Severity.WARNING,
            "last its clock was set by 1 min 30 s, at 2026-01-01T13:00:00Z",
            id="clock-set",
        ),
        pytest.param(
            {"ok": False},
            "node-not-ok",
            Severity.WARNING,
            "it says that it is not ok",
            id="not-ok",
        ),
    ],
)
def test_what_a_node_says_of_itself_is_a_finding(
    members: dict[str, object], check: str, severity: Severity, evidence: str
) -> None:
    (found,) = (one for one in diagnose(saying(**members)) if one.subject.startswith("node"))
    assert (found.check, found.severity, found.subject) == (check, severity, f"node {N1}")
    assert evidence in found.evidence


def test_a_node_that_is_well_or_cannot_tell_is_no_finding() -> None:
    foreign = Refused(N1, RequestCode.ROUTEBOOK_HEALTH, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "")
    for quiet in (saying(), reporting(foreign)):
        assert [one for one in diagnose(quiet) if one.subject.startswith("node")] == []


def test_a_node_that_does_not_say_how_it_is_is_a_finding() -> None:
    (found,) = health.unknown_health(reporting(BadAnswer(N1, "the health report is wrong")))
    assert (found.severity, found.evidence) == (Severity.WARNING, ("the health report is wrong",))


@pytest.mark.parametrize(
    ("outage_ms", "severity"), [(None, Severity.INFO), (95_000, Severity.ERROR)]
)
def test_a_relay_among_the_nodes_is_told(outage_ms: int | None, severity: Severity) -> None:
    said = RelayHealth(
        version="1",
        uptime_ms=1,
        ok=outage_ms is None,
        topics=1,
        answers=1,
        nameservers=("10.0.0.1:9876", "10.0.0.2:9876"),
        outage_ms=outage_ms,
        oldest_ms=95_200,
    )
    (found,) = health.relays(reporting(RelayReport(said, {})))
    assert found.severity is severity
    assert "its oldest answer is 1 min 35 s old" in found.evidence
    assert "-n '10.0.0.1:9876;10.0.0.2:9876'" in found.remedy


def test_a_relay_alone_is_not_called_the_only_nameserver() -> None:
    said = RelayHealth(version="1", uptime_ms=1, ok=True, topics=1, answers=1)
    alone = replace(survey(view(N1, [A], TOPICS)), reports={N1: RelayReport(said, {})})
    assert list(nodes.single_node(alone)) == []


# -- no broker at all


def test_a_cluster_without_brokers_is_an_error() -> None:
    (found,) = brokers.unregistered(survey(view(N1), view(N2)))
    assert (found.check, found.severity) == ("no-brokers", Severity.ERROR)
    assert found.subject == "all nodes"


def test_a_node_without_brokers_is_an_error_of_that_node() -> None:
    (found,) = brokers.unregistered(survey(view(N1), view(N2, [A], TOPICS)))
    assert (found.severity, found.subject) == (Severity.ERROR, f"node {N1}")
    assert "1 broker with other nodes" in found.evidence


def test_nodes_with_brokers_are_fine() -> None:
    assert list(brokers.unregistered(survey(view(N1, [A], TOPICS)))) == []
    assert list(brokers.unregistered(survey(failures={N1: "gone"}))) == []
