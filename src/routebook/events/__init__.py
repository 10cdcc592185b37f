"""The facts a node can record.

Each has the node's revision after it, its cause, and the peer it came from ("" when nobody
asked for it, as with an expiry). Later stages (journal, watchers, metrics) read nothing else.

What everybody needs to know of an event stands with its type: its ``kind``, whether it is
``alarming``, has ``only_topics`` or ``changes_routes``, which topics and brokers it is about, and
what is left of it for somebody who asks about one topic.
"""

from routebook.events.brokers import (
    BrokerConfirmed,
    BrokerConflict,
    BrokerLeft,
    BrokerRegistered,
    BrokerUpdated,
    GuardEngaged,
    GuardReleased,
    HeartbeatGaps,
    MinBrokerChanged,
    RegistrationCompleted,
    Suspect,
)
from routebook.events.event import (
    BrokerEvent,
    Cause,
    Event,
    GroupEvent,
    Kind,
)
from routebook.events.node import (
    GroupRestated,
    JournalRecovered,
    MemberFact,
    NodeStalled,
    NodeStarted,
    NodeStopped,
    NoiseCounted,
    PeerNoise,
    RecordsLost,
    StateRestated,
)
from routebook.events.requests import (
    ConfigChanged,
    KvChanged,
    RequestRefused,
    Subject,
)
from routebook.events.topics import (
    MappingsChanged,
    QueryCount,
    QueueChange,
    RouteQueries,
    Shape,
    StaticMapping,
    TopicsChanged,
)

__all__ = [
    "BrokerConfirmed",
    "BrokerConflict",
    "BrokerEvent",
    "BrokerLeft",
    "BrokerRegistered",
    "BrokerUpdated",
    "Cause",
    "ConfigChanged",
    "Event",
    "GroupEvent",
    "GroupRestated",
    "GuardEngaged",
    "GuardReleased",
    "HeartbeatGaps",
    "JournalRecovered",
    "Kind",
    "KvChanged",
    "MappingsChanged",
    "MemberFact",
    "MinBrokerChanged",
    "NodeStalled",
    "NodeStarted",
    "NodeStopped",
    "NoiseCounted",
    "PeerNoise",
    "QueryCount",
    "QueueChange",
    "RecordsLost",
    "RegistrationCompleted",
    "RequestRefused",
    "RouteQueries",
    "Shape",
    "StateRestated",
    "StaticMapping",
    "Subject",
    "Suspect",
    "TopicsChanged",
]
