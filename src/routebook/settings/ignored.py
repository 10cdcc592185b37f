"""Keys of RocketMQ's NameServer that do nothing here: taken, shown, and said so at the start."""

from routebook.settings.keys import Key
from routebook.settings.kinds import BOOL, TEXT, Kind, whole_number

_NUMBER = whole_number()
_POOL = "one event loop serves all requests"
_PEERS = "nothing is sent over peers' connections"


def _ignored(name: str, default: str, why: str, kind: Kind = _NUMBER) -> Key:
    return Key(name, default, kind, why, ignored=True)


IGNORED = (
    _ignored("rocketmqHome", "", "nothing is read from there", TEXT),
    _ignored("configStorePath", "", "updates go to remote.properties in dataDir", TEXT),
    _ignored(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath",
        "only live settings can be updated, and only with allowRemoteConfig",
        TEXT,
    ),
    _ignored("clientRequestThreadPoolNums", "8", _POOL),
    _ignored("defaultThreadPoolNums", "16", _POOL),
    _ignored("clientRequestThreadPoolQueueCapacity", "50000", _POOL),
    _ignored("defaultThreadPoolQueueCapacity", "10000", _POOL),
    _ignored("scanNotActiveBrokerInterval", "5000", "brokers expire at their deadline"),
    _ignored("unRegisterBrokerQueueCapacity", "3000", "brokers leave at once"),
    _ignored("serverWorkerThreads", "8", _POOL),
    _ignored("serverCallbackExecutorThreads", "0", _POOL),
    _ignored("serverSelectorThreads", "3", _POOL),
    _ignored("serverOnewaySemaphoreValue", "256", _PEERS),
    _ignored("serverAsyncSemaphoreValue", "64", _PEERS),
    _ignored("serverNettyWorkerGroupEnable", "true", _POOL, BOOL),
    _ignored("serverPooledByteBufAllocatorEnable", "true", "there is no Netty here", BOOL),
    _ignored("useEpollNativeSelector", "false", "the loop uses epoll anyway", BOOL),
    _ignored(
        "tls.test.mode.enable",
        "false",
        "no throw-away certificates; set tls.server.certPath and keyPath",
        BOOL,
    ),
    _ignored(
        "tls.server.authClient",
        "true",
        "client certificates are always checked when asked for",
        BOOL,
    ),
    _ignored("rocketmq.serialize.type", "JSON", "answers use the request's encoding", TEXT),
)
