"""Routebook: a NameServer for Apache RocketMQ.

Everything people import is here; docs/api has the reference, docs/stability.md what may change.
Nothing inside imports this module: each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from routebook.lazy import attribute_of
from routebook.version import __version__

if TYPE_CHECKING:
    from routebook.agent import *
    from routebook.app import *
    from routebook.client import *
    from routebook.settings import *

__all__ = [
    "Address",
    "AddressChanged",
    "AddressSource",
    "AllNodesFailed",
    "Answer",
    "BadAnswer",
    "BadSettings",
    "BrokerAgent",
    "BrokerAppeared",
    "BrokerDisappeared",
    "BrokerGroup",
    "BrokerSettings",
    "CacheClosed",
    "CachedRoute",
    "CannotConnect",
    "ChangeStream",
    "ClusterView",
    "Command",
    "ConnectionLost",
    "Credentials",
    "DataVersion",
    "Dialing",
    "FilterServersChanged",
    "FixedAddresses",
    "HttpAddresses",
    "LeavingNode",
    "MappingsChanged",
    "MessageQueue",
    "NameServer",
    "NameServerClient",
    "NameServerError",
    "NoAnswer",
    "NoNameServers",
    "NodeClient",
    "NodeError",
    "NodeStatus",
    "NotCached",
    "NotReady",
    "OrderChanged",
    "Outcome",
    "QueuesChanged",
    "Refused",
    "Relayed",
    "RequestCode",
    "RequestTooLarge",
    "ResponseCode",
    "RouteCache",
    "RouteChange",
    "RouteTimeout",
    "Settings",
    "SettingsError",
    "SyncNameServerClient",
    "SyncNodeClient",
    "SystemTopics",
    "Tls",
    "Topic",
    "TopicNotFound",
    "TopicQueues",
    "TopicRoute",
    "WriteState",
    "__version__",
    "find_source",
    "make_settings",
]

if not TYPE_CHECKING:  # to a type checker, any name would be one of ours
    _HOMES = ("routebook.client", "routebook.settings", "routebook.agent", "routebook.app")
    __getattr__ = attribute_of(__name__, _HOMES, __all__)


def __dir__() -> list[str]:
    return __all__
