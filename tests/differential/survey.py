"""Questions that show everything a server knows of one sequence, asked at its end."""

from differential.steps import (
    Asked,
    GetClusterInfo,
    GetMembers,
    GetRoute,
    GetTopics,
    GetTopicsOfCluster,
    Listing,
    ListKv,
    QueryVersion,
    Stamp,
    Via,
)
from differential.strategies import ADDRS, CLUSTERS, NAMES, NAMESPACES, TOPICS

CONNECTION = 99  # no step uses it
_NEW, _OLD = Via(CONNECTION, 513), Via(CONNECTION, 399)

SURVEY: tuple[Asked, ...] = (
    GetClusterInfo(_NEW),
    *(GetTopics(_NEW, listing) for listing in Listing),
    *(GetTopicsOfCluster(_NEW, cluster) for cluster in CLUSTERS),
    *(GetMembers(_NEW, cluster, name) for cluster in CLUSTERS for name in NAMES),
    *(GetRoute(via, topic) for topic in TOPICS for via in (_NEW, _OLD)),
    *(GetRoute(_OLD, topic, zone_mode="true", zone="z1") for topic in TOPICS[:2]),
    *(ListKv(_NEW, namespace) for namespace in NAMESPACES),
    *(
        QueryVersion(_NEW, cluster, "@b0", 0, addr, Stamp(1, 0, 1_700_000_000_000))
        for cluster in CLUSTERS
        for addr in ADDRS
    ),
)
