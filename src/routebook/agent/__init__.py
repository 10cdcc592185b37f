"""What a broker, or any service that wants to be found through NameServers, embeds."""

from routebook.agent.agent import BrokerAgent
from routebook.agent.registration import NodeStatus, Outcome
from routebook.agent.settings import BadSettings, BrokerSettings
from routebook.wire.broker_requests import Topic
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
