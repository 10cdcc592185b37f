"""Bodies that are written in slices."""

import pytest

from routebook.slices import finished
from routebook.wire import bodies, fastjson


@pytest.mark.parametrize(
    "clusters",
    [
        pytest.param({"c1": [f"broker-{number}" for number in range(20_000)]}, id="one-for-all"),
        pytest.param({f"c{number}": ["broker"] for number in range(20_000)}, id="one-each"),
    ],
)
def test_names_of_clusters_are_listed_in_slices(clusters: dict[str, list[str]]) -> None:
    assert sum(1 for _ in bodies.cluster_info({}, clusters)) >= 4
    assert fastjson.loads(finished(bodies.cluster_info({}, clusters))) == {
        "brokerAddrTable": {},
        "clusterAddrTable": clusters,
    }
