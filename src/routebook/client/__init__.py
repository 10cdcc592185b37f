"""Asking NameServers: ``NameServerClient`` for asyncio, ``routebook.client.sync`` without."""

from routebook.client.client import NameServerClient, NodeClient
from routebook.client.dialing import Dialing, Tls
from routebook.client.errors import (
    AllNodesFailed,
    BadAnswer,
    CannotConnect,
    ConnectionLost,
    LeavingNode,
    NameServerError,
    NoAnswer,
    NodeError,
    NoNameServers,
    NotReady,
    Refused,
    RequestTooLarge,
    TopicNotFound,
)
from routebook.client.relayed import Relayed
from routebook.client.routes import ClusterView, SystemTopics, TopicRoute
from routebook.client.sources import AddressSource, FixedAddresses, HttpAddresses, find_source
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues
from routebook.wire.signature import Credentials

__all__ = [
    "Address",
    "AddressSource",
    "AllNodesFailed",
    "BadAnswer",
    "BrokerGroup",
    "CannotConnect",
    "ClusterView",
    "ConnectionLost",
    "Credentials",
    "Dialing",
    "FixedAddresses",
    "HttpAddresses",
    "LeavingNode",
    "NameServerClient",
    "NameServerError",
    "NoAnswer",
    "NoNameServers",
    "NodeClient",
    "NodeError",
    "NotReady",
    "Refused",
    "Relayed",
    "RequestTooLarge",
    "SystemTopics",
    "Tls",
    "TopicNotFound",
    "TopicQueues",
    "TopicRoute",
    "find_source",
]
