"""The table of metrics: its page, and rules of names."""

import re

import pytest

from routebook.gateway.metric_table import METRICS, Metric, Type, page
from support.documents import ROOT


def test_the_page_is_made_of_the_table() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == page()


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: str(metric.name))
def test_names_follow_the_rules_of_prometheus(metric: Metric) -> None:
    assert re.fullmatch(r"[a-z][a-z_]*", metric.name)
    assert not metric.name.endswith("_total")
    if metric.type is Type.HISTOGRAM:
        assert metric.name.endswith("_seconds")
    assert all(re.fullmatch(r"[a-z_]+", label) and label != "node" for label in metric.labels)
    assert metric.help[0].isalnum()
    assert not metric.help.endswith(".")


def test_each_is_there_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
