"""Asking NameServers, with asyncio and without, and the cache of routes on top of it."""

from routebook.client.cache import CacheClosed, RouteCache, RouteTimeout
from routebook.client.changes import (
    AddressChanged,
    BrokerAppeared,
    BrokerDisappeared,
    FilterServersChanged,
    MappingsChanged,
    OrderChanged,
    QueuesChanged,
    RouteChange,
)
from routebook.client.client import NameServerClient, NodeClient
from routebook.client.dialing import Dialing, Tls
from routebook.client.entries import CachedRoute, NotCached
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
from routebook.client.listeners import ChangeStream
from routebook.client.node import Answer
from routebook.client.queues import MessageQueue
from routebook.client.relayed import Relayed
from routebook.client.routes import ClusterView, SystemTopics, TopicRoute
from routebook.client.sources import AddressSource, FixedAddresses, HttpAddresses, find_source
from routebook.client.sync import SyncNameServerClient, SyncNodeClient
from routebook.wire.address import Address
from routebook.wire.answers import BrokerGroup, TopicQueues, WriteState
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command
from routebook.wire.signature import Credentials

__all__ = [
    "Address",
    "AddressChanged",
    "AddressSource",
    "AllNodesFailed",
    "Answer",
    "BadAnswer",
    "BrokerAppeared",
    "BrokerDisappeared",
    "BrokerGroup",
    "CacheClosed",
    "CachedRoute",
    "CannotConnect",
    "ChangeStream",
    "ClusterView",
    "Command",
    "ConnectionLost",
    "Credentials",
    "Dialing",
    "FilterServersChanged",
    "FixedAddresses",
    "HttpAddresses",
    "LeavingNode",
    "MappingsChanged",
    "MessageQueue",
    "NameServerClient",
    "NameServerError",
    "NoAnswer",
    "NoNameServers",
    "NodeClient",
    "NodeError",
    "NotCached",
    "NotReady",
    "OrderChanged",
    "QueuesChanged",
    "Refused",
    "Relayed",
    "RequestCode",
    "RequestTooLarge",
    "ResponseCode",
    "RouteCache",
    "RouteChange",
    "RouteTimeout",
    "SyncNameServerClient",
    "SyncNodeClient",
    "SystemTopics",
    "Tls",
    "TopicNotFound",
    "TopicQueues",
    "TopicRoute",
    "WriteState",
    "find_source",
]
