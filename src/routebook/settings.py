"""Settings: every key a node knows, where its value came from, and small frozen types of them.

Names are RocketMQ's own (``listenPort``) and are spelt the same way everywhere: ``listenPort=``
in a properties file, ``--listen-port`` on the command line, ``ROUTEBOOK_LISTEN_PORT`` in the
environment. Sources, each overriding the ones before it:

    defaults, the -c file, updates made by mqadmin (318), the environment, the command line
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from routebook.setting_values import Network, parse

__all__ = ["Settings", "SettingsError", "make_settings"]

LEAST_MEMORY = 192 * 2**20  # as in state.account


class SettingsError(Exception):
    """One sentence about a value, or a combination, that a node cannot start with."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What 318 may change while the node runs."""

    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    support_acting_master: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    notify_min_broker_id_changed: bool = False
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45
    delete_topic_with_broker_registration: bool = False


@dataclass(frozen=True, slots=True)
class ListenSettings:
    bind_address: str = "0.0.0.0"
    listen_port: int = 9876
    backlog: int = 1024
    idle_timeout_s: int = 120
    frame_timeout_s: int = 60
    max_frame: int = 16 * 1024 * 1024
    max_buffered_bytes: int = 64 * 1024 * 1024
    max_connections: int = 65_536
    high_water: int = 0
    low_water: int = 0
    send_buffer: int = 0
    receive_buffer: int = 0
    trusted_proxies: tuple[Network, ...] = ()
    go_away: bool = False
    go_away_s: int = 30


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """``client_auth`` is none, optional or require."""

    mode: str = "permissive"
    cert_path: Path | None = None
    key_path: Path | None = None
    key_password: str | None = None
    trust_cert_path: Path | None = None
    client_auth: str = "none"
    outgoing: bool = False
    outgoing_trust_cert_path: Path | None = None


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """``memory`` 0: a share of what the cgroup or the machine has. Percents are of the tables."""

    max_topics_per_broker: int = 300_000
    max_brokers_per_group: int = 64
    max_route_entries: int = 10_000_000
    max_kv_bytes: int = 8 * 1024 * 1024
    memory: int = 0
    peer_percent: int = 50
    broker_percent: int = 25


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What a node remembers: its journal, and what it does with it after a restart.

    ``sync`` is none, interval or batch, ``readable_by`` owner, group or all. ``node_id`` None: made
    at the first start and kept. ``fleet`` names the NameServers that brokers know with this one.
    """

    journal: bool = True
    sync: str = "interval"
    sync_interval_ms: int = 1000
    rotate_bytes: int = 64 * 1024 * 1024
    rotate_s: int = 3600
    retain_days: int = 30
    retain_mb: int = 10_240
    window_s: int = 60
    readable_by: str = "owner"
    node_id: str | None = None
    fleet: str = ""
    warm_restart: bool = True
    kv_values_shown_to: tuple[Network, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """The mass-loss guard. ``share_percent`` 0 switches it off."""

    share_percent: int = 50
    min_brokers: int = 10
    window_s: int = 60
    hold_s: int = 600


@dataclass(frozen=True, slots=True)
class TestClusterSettings:
    """Cluster-test mode: where to ask for topics this node does not know."""

    enabled: bool = False
    product_env_name: str = "center"
    namesrv_addr: str = ""
    domain: str = "jmenv.tbsite.net"
    subgroup: str = "nsaddr"


@dataclass(frozen=True, slots=True)
class Settings:
    """All of a node's settings. ``values`` is every key as text, for 319 and ``-p``."""

    listen: ListenSettings = field(default_factory=ListenSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    test_cluster: TestClusterSettings = field(default_factory=TestClusterSettings)
    kv_path: Path = Path("kvConfig.json")
    data_dir: Path = Path()
    allow_remote_config: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. ``help`` starts with "ignored:" for those that do nothing here."""

    name: str
    default: str
    kind: str  # text, size, int, int:LOW-HIGH, bool, path, choice:a|b|c, networks
    help: str
    live: bool = False

    @property
    def ignored(self) -> bool:
        return self.help.startswith("ignored:")

    @property
    def flag(self) -> str:
        return "--" + _words(self.name, "-").lower()

    @property
    def env(self) -> str:
        return "ROUTEBOOK_" + _words(self.name, "_").upper()


def _words(name: str, joint: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\.", joint, name)


def _ignored(name: str, default: str, why: str, kind: str = "int") -> Key:
    return Key(name, default, kind, f"ignored: {why}")


_POOL = "one event loop serves all requests"
KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("bindAddress", "0.0.0.0", "text", "address to listen on"),
        Key("listenPort", "9876", "port", "port to listen on; 0 takes a free one"),
        Key("dataDir", "", "path", "the node's own files; default <home>/namesrv/routebook"),
        Key("kvConfigPath", "", "path", "key-value file; default <home>/namesrv/kvConfig.json"),
        Key("orderMessageEnable", "false", "bool", "send order configuration with routes", True),
        Key(
            "returnOrderTopicConfigToBroker",
            "true",
            "bool",
            "send order configuration with registration answers",
            True,
        ),
        Key("supportActingMaster", "false", "bool", "show a slave as acting master", True),
        Key("enableAllTopicList", "true", "bool", "answer the list of all topics (206)", True),
        Key("enableTopicList", "true", "bool", "answer topic lists (224, 311-313)", True),
        Key("notifyMinBrokerIdChanged", "false", "bool", "tell brokers (905)", True),
        Key("needWaitForService", "false", "bool", "answer no routes just after start", True),
        Key("waitSecondsForService", "45", "int", "how long, in seconds", True),
        Key(
            "deleteTopicWithBrokerRegistration",
            "false",
            "bool",
            "drop topics a registration no longer has",
            True,
        ),
        Key("clusterTest", "false", "bool", "ask production for unknown topics"),
        Key("productEnvName", "center", "text", "unit name of the production address lookup"),
        Key("namesrvAddr", "", "text", "production NameServers of cluster-test mode, a:p;b:p"),
        Key("rocketmq.namesrv.domain", "jmenv.tbsite.net", "text", "host of the address lookup"),
        Key("rocketmq.namesrv.domain.subgroup", "nsaddr", "text", "path of the address lookup"),
        Key("allowRemoteConfig", "false", "bool", "let mqadmin change live settings (318)"),
        Key("serverChannelMaxIdleTimeSeconds", "120", "int", "close idle connections after"),
        Key("serverSocketBacklog", "1024", "int:0-65535", "backlog of the listening socket; 0 = 1"),
        Key("serverSocketSndBufSize", "0", "int", "send buffer of connections; 0 = system"),
        Key("serverSocketRcvBufSize", "0", "int", "receive buffer of connections; 0 = system"),
        Key("writeBufferHighWaterMark", "0", "int", "bytes unsent above which no more is read"),
        Key("writeBufferLowWaterMark", "0", "int", "and go on below; 0 in either = 0 in both"),
        Key("enableShutdownGracefully", "false", "bool", "send GO_AWAY while stopping"),
        Key("shutdownWaitTimeSeconds", "30", "int", "for at most this long"),
        Key("com.rocketmq.remoting.frameMaxLength", "16777216", "int:1024-", "largest frame"),
        Key("maxBufferedBytes", "67108864", "int", "memory for frames not yet complete"),
        Key("maxConnections", "65536", "int:1-", "connections served at once"),
        Key("maxTopicsPerBroker", "300000", "int:1-", "topics one broker may register"),
        Key("maxBrokersPerGroup", "64", "int:1-", "brokers that may share a name, with ids"),
        Key("maxRouteEntries", "10000000", "int:1-", "topic and broker pairs held"),
        Key("maxKvBytes", "8388608", "int", "characters of all keys and values"),
        Key("memoryLimit", "0", "size", "memory to stay under, as 2g; 0 = 3/4 of what there is"),
        Key("memoryPeerPercent", "50", "int:1-100", "of tables, pairs, unread answers: for a peer"),
        Key("memoryBrokerPercent", "25", "int:1-100", "of the tables, what one broker may fill"),
        Key("frameTimeoutSeconds", "60", "int:1-", "time a peer has to complete a frame"),
        Key("journal", "true", "bool", "write a journal of all changes into dataDir"),
        Key(
            "journalSync",
            "interval",
            "choice:none|interval|batch",
            "force records to disk: never, at intervals, or before going on",
        ),
        Key("journalSyncIntervalMillis", "1000", "int:1-", "the interval"),
        Key("journalRotateBytes", "67108864", "int:65536-", "seal a segment of this size"),
        Key("journalRotateSeconds", "3600", "int:1-", "or of this age"),
        Key("journalRetainDays", "30", "int", "drop sealed segments older than this; 0 = never"),
        Key("journalRetainMegabytes", "10240", "int", "or the oldest beyond this; 0 = never"),
        Key("journalWindowSeconds", "60", "int:1-86400", "heartbeats and queries are summed up"),
        Key("journalReadableBy", "owner", "choice:owner|group|all", "who may read its files"),
        Key("nodeId", "", "text", "name of the node in its journal; default: made once and kept"),
        Key("fleet", "", "text", "name of the NameServers brokers know together with this one"),
        Key("kvValuesShownTo", "", "networks", "who is sent values with the latest records"),
        Key("warmRestart", "true", "bool", "serve the routes of the journal after a restart"),
        Key("guardSharePercent", "50", "int:0-100", "hold brokers when more than this fall silent"),
        Key("guardMinBrokers", "10", "int", "but never when there were fewer than this"),
        Key("guardWindowSeconds", "60", "int", "silences this close count as one"),
        Key("guardHoldSeconds", "600", "int", "hold them for at most this long"),
        Key("trustedProxies", "", "networks", "networks whose PROXY headers are believed"),
        Key("tls.server.mode", "permissive", "choice:disabled|permissive|enforcing", "TLS"),
        Key("tls.server.certPath", "", "path", "certificate chain, PEM"),
        Key("tls.server.keyPath", "", "path", "private key, PEM"),
        Key("tls.server.keyPassword", "", "text", "password of the key"),
        Key("tls.server.trustCertPath", "", "path", "authorities of client certificates, PEM"),
        Key(
            "tls.server.need.client.auth",
            "none",
            "choice:none|optional|require",
            "client certificates",
        ),
        Key("tls.enable", "false", "bool", "use TLS for notifications to brokers"),
        Key("tls.client.trustCertPath", "", "path", "authorities of brokers, PEM"),
        Key("enableControllerInNamesrv", "false", "bool", "not available: stops the start"),
        _ignored("rocketmqHome", "", "nothing is read from there", "text"),
        _ignored("configStorePath", "", "updates go to remote.properties in dataDir", "text"),
        _ignored("configBlackList", "configBlackList;configStorePath;kvConfigPath",
                 "only live settings can be updated, and only with allowRemoteConfig", "text"),
        _ignored("clientRequestThreadPoolNums", "8", _POOL),
        _ignored("defaultThreadPoolNums", "16", _POOL),
        _ignored("clientRequestThreadPoolQueueCapacity", "50000", _POOL),
        _ignored("defaultThreadPoolQueueCapacity", "10000", _POOL),
        _ignored("scanNotActiveBrokerInterval", "5000", "brokers expire at their deadline"),
        _ignored("unRegisterBrokerQueueCapacity", "3000", "brokers leave at once"),
        _ignored("serverWorkerThreads", "8", _POOL),
        _ignored("serverCallbackExecutorThreads", "0", _POOL),
        _ignored("serverSelectorThreads", "3", _POOL),
        _ignored("serverOnewaySemaphoreValue", "256", "nothing is sent over peers' connections"),
        _ignored("serverAsyncSemaphoreValue", "64", "nothing is sent over peers' connections"),
        _ignored("serverNettyWorkerGroupEnable", "true", _POOL, "bool"),
        _ignored("serverPooledByteBufAllocatorEnable", "true", "there is no Netty here", "bool"),
        _ignored("useEpollNativeSelector", "false", "the loop uses epoll anyway", "bool"),
        _ignored("tls.test.mode.enable", "false",
                 "no throw-away certificates; set tls.server.certPath and keyPath", "bool"),
        _ignored("tls.server.authClient", "true",
                 "client certificates are always checked when asked for", "bool"),
        _ignored("rocketmq.serialize.type", "JSON", "answers use the request's encoding", "text"),
    )
}  # fmt: skip

ALIASES = {"frameMaxLength": "com.rocketmq.remoting.frameMaxLength"}
LIVE_KEYS = tuple(key.name for key in KEYS.values() if key.live)
_SECRET = "tls.server.keyPassword"


@dataclass(frozen=True, slots=True)
class Source:
    """Values as one place gives them; ``name`` is how a complaint calls that place."""

    name: str
    values: Mapping[str, str]


def resolve(sources: Iterable[Source], home: Path) -> Settings:
    """Join ``sources``, the later the stronger; raises SettingsError with one sentence."""
    texts = {key.name: key.default for key in KEYS.values()}
    given: dict[str, str] = {}  # key -> the source it came from
    for source in sources:
        for name, text in source.values.items():
            name = ALIASES.get(name, name)
            texts[name] = text.strip()
            given[name] = source.name
    parsed: dict[str, Any] = {}
    for key in KEYS.values():
        text = texts[key.name]
        try:
            parsed[key.name] = parse(key.kind, text.lstrip("-") if key.ignored else text)
        except ValueError as error:
            raise SettingsError(f"{given.get(key.name, 'default')}: {key.name} {error}") from error
    if parsed["enableControllerInNamesrv"]:
        raise SettingsError(
            "enableControllerInNamesrv=true: this node has no controller; run RocketMQ's own"
            " controller and point the brokers' controllerAddr at it, then remove the setting"
        )
    if 0 < parsed["memoryLimit"] < LEAST_MEMORY:
        raise SettingsError(
            f"memoryLimit must be 0 or at least {LEAST_MEMORY // 2**20}m, not"
            f" {texts['memoryLimit']}: a node cannot serve with less"
        )
    texts["dataDir"] = texts["dataDir"] or str(home / "namesrv" / "routebook")
    texts["kvConfigPath"] = texts["kvConfigPath"] or str(home / "namesrv" / "kvConfig.json")
    live = live_settings(parsed)
    tls = _tls(parsed)
    shown = dict(texts)
    if shown[_SECRET]:
        shown[_SECRET] = "******"
    high, low = parsed["writeBufferHighWaterMark"], parsed["writeBufferLowWaterMark"]
    if high and low > high:
        raise SettingsError(
            f"writeBufferLowWaterMark must be from 0 to writeBufferHighWaterMark={high}, not {low}"
        )
    return Settings(
        listen=ListenSettings(
            bind_address=parsed["bindAddress"] or "0.0.0.0",
            listen_port=parsed["listenPort"],
            backlog=max(1, parsed["serverSocketBacklog"]),
            idle_timeout_s=parsed["serverChannelMaxIdleTimeSeconds"],
            frame_timeout_s=parsed["frameTimeoutSeconds"],
            max_frame=parsed["com.rocketmq.remoting.frameMaxLength"],
            max_buffered_bytes=parsed["maxBufferedBytes"],
            max_connections=parsed["maxConnections"],
            high_water=high if high and low else 0,
            low_water=low if high and low else 0,
            send_buffer=parsed["serverSocketSndBufSize"],
            receive_buffer=parsed["serverSocketRcvBufSize"],
            trusted_proxies=parsed["trustedProxies"],
            go_away=parsed["enableShutdownGracefully"],
            go_away_s=parsed["shutdownWaitTimeSeconds"],
        ),
        tls=tls,
        live=live,
        limits=LimitSettings(
            max_topics_per_broker=parsed["maxTopicsPerBroker"],
            max_brokers_per_group=parsed["maxBrokersPerGroup"],
            max_route_entries=parsed["maxRouteEntries"],
            max_kv_bytes=parsed["maxKvBytes"],
            memory=parsed["memoryLimit"],
            peer_percent=parsed["memoryPeerPercent"],
            broker_percent=parsed["memoryBrokerPercent"],
        ),
        memory=MemorySettings(
            journal=parsed["journal"],
            sync=parsed["journalSync"],
            sync_interval_ms=parsed["journalSyncIntervalMillis"],
            rotate_bytes=parsed["journalRotateBytes"],
            rotate_s=parsed["journalRotateSeconds"],
            retain_days=parsed["journalRetainDays"],
            retain_mb=parsed["journalRetainMegabytes"],
            window_s=parsed["journalWindowSeconds"],
            readable_by=parsed["journalReadableBy"],
            node_id=_name("nodeId", parsed["nodeId"]) or None,
            fleet=_name("fleet", parsed["fleet"]),
            warm_restart=parsed["warmRestart"],
            kv_values_shown_to=parsed["kvValuesShownTo"],
        ),
        guard=GuardSettings(
            share_percent=parsed["guardSharePercent"],
            min_brokers=parsed["guardMinBrokers"],
            window_s=parsed["guardWindowSeconds"],
            hold_s=parsed["guardHoldSeconds"],
        ),
        test_cluster=TestClusterSettings(
            enabled=parsed["clusterTest"],
            product_env_name=parsed["productEnvName"],
            namesrv_addr=parsed["namesrvAddr"],
            domain=parsed["rocketmq.namesrv.domain"],
            subgroup=parsed["rocketmq.namesrv.domain.subgroup"],
        ),
        kv_path=Path(texts["kvConfigPath"]),
        data_dir=Path(texts["dataDir"]),
        allow_remote_config=parsed["allowRemoteConfig"],
        values=shown,
        ignored=tuple(name for name in given if name in KEYS and KEYS[name].ignored),
        unknown=tuple(name for name in given if name not in KEYS),
    )


def make_settings(home: Path, **values: object) -> Settings:
    """Settings for embedding: ``make_settings(folder, listen_port=0)``.

    Keywords are the keys in snake case; dots become underscores too. Files go under ``home``.
    """
    by_keyword = {_words(name, "_").lower(): name for name in (*KEYS, *ALIASES)}
    texts = {}
    for keyword, value in values.items():
        if keyword not in by_keyword:
            raise SettingsError(f"there is no setting {keyword}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        texts[by_keyword[keyword]] = text
    return resolve([Source("make_settings", texts)], home)


def parse_live(values: Mapping[str, str]) -> LiveSettings:
    """Live settings of a full set of texts; raises ValueError naming the key."""
    parsed: dict[str, Any] = {}
    for name in LIVE_KEYS:
        try:
            parsed[name] = parse(KEYS[name].kind, values[name])
        except ValueError as error:
            raise ValueError(f"{name} {error}") from error
    return live_settings(parsed)


def live_settings(parsed: Mapping[str, Any]) -> LiveSettings:
    return LiveSettings(**{_words(name, "_").lower(): parsed[name] for name in LIVE_KEYS})


def _name(key: str, text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        raise SettingsError(
            f"{key} must be up to 100 letters, digits, dots, dashes, underscores; not {text!r}"
        )
    return text


def _tls(parsed: Mapping[str, Any]) -> TlsSettings:
    cert, key = parsed["tls.server.certPath"], parsed["tls.server.keyPath"]
    if (cert is None) != (key is None):
        raise SettingsError("tls.server.certPath and tls.server.keyPath must be set together")
    mode, client_auth = parsed["tls.server.mode"], parsed["tls.server.need.client.auth"]
    if mode == "enforcing" and cert is None:
        raise SettingsError(
            "tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath"
        )
    if client_auth != "none" and parsed["tls.server.trustCertPath"] is None and cert is not None:
        raise SettingsError(
            f"tls.server.need.client.auth={client_auth} needs tls.server.trustCertPath"
        )
    return TlsSettings(
        mode=mode,
        cert_path=cert,
        key_path=key,
        key_password=parsed["tls.server.keyPassword"] or None,
        trust_cert_path=parsed["tls.server.trustCertPath"],
        client_auth=client_auth,
        outgoing=parsed["tls.enable"],
        outgoing_trust_cert_path=parsed["tls.client.trustCertPath"],
    )
