"""What a broker, or any service that wants to be found through NameServers, embeds."""

from routebook.broker.agent import BrokerAgent
from routebook.broker.link import NodeStatus, Outcome
from routebook.broker.settings import BadSettings, BrokerSettings
from routebook.wire.enrolment import Topic
from routebook.wire.registration import DataVersion

__all__ = [
    "BadSettings",
    "BrokerAgent",
    "BrokerSettings",
    "DataVersion",
    "NodeStatus",
    "Outcome",
    "Topic",
]
