"""Groups: small frozen types of settings, each field with the key it is read from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from routebook.settings.keys import setting
from routebook.settings.kinds import (
    ADDRESS,
    BOOL,
    FILE,
    HOST_AND_PORT,
    HOSTS,
    NAME,
    NAME_SERVERS,
    NETWORKS,
    PLACE,
    PORT,
    SECRET,
    TEXT,
    Network,
    UnitLists,
    choice,
    size_or_nothing,
    whole_number,
)
from routebook.state.account import LEAST


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What 318 may change while the node runs."""

    order_message_enable: bool = setting(
        "orderMessageEnable", False, BOOL, "send order configuration with routes"
    )
    return_order_topic_config_to_broker: bool = setting(
        "returnOrderTopicConfigToBroker",
        True,
        BOOL,
        "send order configuration with registration answers",
    )
    support_acting_master: bool = setting(
        "supportActingMaster", False, BOOL, "show a slave as acting master"
    )
    enable_all_topic_list: bool = setting(
        "enableAllTopicList", True, BOOL, "answer the list of all topics (206)"
    )
    enable_topic_list: bool = setting(
        "enableTopicList", True, BOOL, "answer topic lists (224, 311-313)"
    )
    notify_min_broker_id_changed: bool = setting(
        "notifyMinBrokerIdChanged",
        False,
        BOOL,
        "tell brokers when the smallest id of their group changes (905)",
    )
    need_wait_for_service: bool = setting(
        "needWaitForService", False, BOOL, "answer no routes just after start"
    )
    wait_seconds_for_service: int = setting(
        "waitSecondsForService",
        45,
        whole_number(),
        "seconds for which needWaitForService holds routes back",
    )
    delete_topic_with_broker_registration: bool = setting(
        "deleteTopicWithBrokerRegistration",
        False,
        BOOL,
        "drop topics a registration no longer has",
    )


@dataclass(frozen=True, slots=True)
class ListenSettings:
    bind_address: str = setting("bindAddress", "0.0.0.0", ADDRESS, "address to listen on")
    listen_port: int = setting("listenPort", 9876, PORT, "port to listen on; 0 takes a free one")
    backlog: int = setting(
        "serverSocketBacklog",
        1024,
        whole_number(0, 65535),
        "connections that may wait to be accepted; 0 is 1",
    )
    idle_timeout_s: int = setting(
        "serverChannelMaxIdleTimeSeconds",
        120,
        whole_number(),
        "close connections nothing came over for so many seconds; 0 = never",
    )
    frame_timeout_s: int = setting(
        "frameTimeoutSeconds", 60, whole_number(1), "seconds a peer has to complete a frame"
    )
    max_frame: int = setting(
        "com.rocketmq.remoting.frameMaxLength",
        16 * 1024 * 1024,
        whole_number(1024),
        "largest frame, in bytes",
        alias="frameMaxLength",
    )
    max_buffered_bytes: int = setting(
        "maxBufferedBytes",
        64 * 1024 * 1024,
        whole_number(),
        "memory for incomplete and waiting frames",
    )
    max_connections: int = setting(
        "maxConnections", 65_536, whole_number(1), "connections served at once"
    )
    high_water: int = setting(
        "writeBufferHighWaterMark",
        0,
        whole_number(),
        "bytes unsent above which no more is read from a peer",
    )
    low_water: int = setting(
        "writeBufferLowWaterMark",
        0,
        whole_number(),
        "bytes unsent below which reading goes on; 0 in either mark is 0 in both",
    )
    send_buffer: int = setting(
        "serverSocketSndBufSize", 0, whole_number(), "send buffer of connections; 0 = the system's"
    )
    receive_buffer: int = setting(
        "serverSocketRcvBufSize",
        0,
        whole_number(),
        "receive buffer of connections; 0 = the system's",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "trustedProxies", (), NETWORKS, "networks whose PROXY headers are believed"
    )
    go_away: bool = setting("enableShutdownGracefully", False, BOOL, "send GO_AWAY while stopping")
    go_away_s: int = setting(
        "shutdownWaitTimeSeconds", 30, whole_number(), "seconds of GO_AWAY at most"
    )

    @property
    def water_marks(self) -> tuple[int, int]:
        """High and low; one without the other is none."""
        return (self.high_water, self.low_water) if self.high_water and self.low_water else (0, 0)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    mode: str = setting(
        "tls.server.mode",
        "permissive",
        choice("disabled", "permissive", "enforcing"),
        "TLS on the port: permissive takes plain text as well",
    )
    cert_path: Path | None = setting("tls.server.certPath", None, FILE, "certificate chain, PEM")
    key_path: Path | None = setting("tls.server.keyPath", None, FILE, "private key, PEM")
    key_password: str | None = setting(
        "tls.server.keyPassword", None, SECRET, "password of the key; never shown"
    )
    trust_cert_path: Path | None = setting(
        "tls.server.trustCertPath", None, FILE, "authorities of client certificates, PEM"
    )
    client_auth: str = setting(
        "tls.server.need.client.auth",
        "none",
        choice("none", "optional", "require"),
        "whether clients need certificates",
    )
    outgoing: bool = setting(
        "tls.enable", False, BOOL, "use TLS for notifications to brokers (905)"
    )
    outgoing_trust_cert_path: Path | None = setting(
        "tls.client.trustCertPath", None, FILE, "authorities of brokers, PEM"
    )


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Percents are of the memory for tables."""

    max_topics_per_broker: int = setting(
        "maxTopicsPerBroker", 300_000, whole_number(1), "topics one broker may register"
    )
    max_brokers_per_group: int = setting(
        "maxBrokersPerGroup",
        64,
        whole_number(1),
        "brokers, a master and its slaves, that may share a name",
    )
    max_route_entries: int = setting(
        "maxRouteEntries", 10_000_000, whole_number(1), "topic and broker pairs a node holds"
    )
    max_kv_bytes: int = setting(
        "maxKvBytes", 8 * 1024 * 1024, whole_number(), "characters of all keys and values"
    )
    memory: int = setting(
        "memoryLimit",
        0,
        size_or_nothing(LEAST),
        "memory the node stays under; 0 takes three quarters of what the cgroup or machine has",
    )
    peer_percent: int = setting(
        "memoryPeerPercent",
        50,
        whole_number(1, 100),
        "of the memory for tables, of maxKvBytes and of the memory for answers not read, what one"
        " peer may fill",
    )
    broker_percent: int = setting(
        "memoryBrokerPercent",
        25,
        whole_number(1, 100),
        "of the memory for tables, what one broker may fill",
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What a node remembers: its journal, and what it does with it after a restart."""

    journal: bool = setting("journal", True, BOOL, "write a journal of all changes into dataDir")
    warm_restart: bool = setting(
        "warmRestart", True, BOOL, "serve the routes of the journal after a restart"
    )
    sync: str = setting(
        "journalSync",
        "interval",
        choice("none", "interval", "batch"),
        "force records to disk: never, at intervals, or before going on",
    )
    sync_interval_ms: int = setting(
        "journalSyncIntervalMillis",
        1000,
        whole_number(1),
        "milliseconds between two of journalSync=interval",
    )
    rotate_bytes: int = setting(
        "journalRotateBytes",
        64 * 1024 * 1024,
        whole_number(65536),
        "seal a segment of so many bytes",
    )
    rotate_s: int = setting(
        "journalRotateSeconds", 3600, whole_number(1), "seal a segment after so many seconds"
    )
    retain_days: int = setting(
        "journalRetainDays", 30, whole_number(), "drop sealed segments older than this; 0 = never"
    )
    retain_mb: int = setting(
        "journalRetainMegabytes",
        10_240,
        whole_number(),
        "drop the oldest sealed segments beyond this; 0 = never",
    )
    window_s: int = setting(
        "journalWindowSeconds",
        60,
        whole_number(1, 86400),
        "heartbeats and route queries are summed up for so many seconds",
    )
    readable_by: str = setting(
        "journalReadableBy",
        "owner",
        choice("owner", "group", "all"),
        "who may read the files of the journal",
    )
    kv_values_shown_to: tuple[Network, ...] = setting(
        "kvValuesShownTo",
        (),
        NETWORKS,
        "networks that are told key-value values with the latest records; others are told lengths",
    )
    node_id: str = setting(
        "nodeId", "", NAME, "name of the node in its journal; unless set, made once and kept"
    )
    fleet: str = setting(
        "fleet", "", NAME, "name of the NameServers that brokers know together with this one"
    )


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """The mass-loss guard."""

    share_percent: int = setting(
        "guardSharePercent",
        50,
        whole_number(0, 100),
        "hold brokers when more than this part falls silent together; 0 = never",
    )
    min_brokers: int = setting(
        "guardMinBrokers", 10, whole_number(), "hold none where fewer brokers than this were alive"
    )
    window_s: int = setting(
        "guardWindowSeconds", 60, whole_number(), "seconds within which silences count as one"
    )
    hold_s: int = setting(
        "guardHoldSeconds", 600, whole_number(), "seconds for which brokers are held at most"
    )


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The gateway: HTTP in a process of its own."""

    port: int = setting(
        "gatewayPort", 19876, PORT, "port of the page, the HTTP API, probes and metrics; 0 = none"
    )
    bind: str = setting("gatewayBind", "127.0.0.1", ADDRESS, "address that port is on")
    read_token: str | None = setting(
        "httpReadToken",
        None,
        SECRET,
        "token to read with; needed where gatewayBind is not loopback; never shown",
    )
    admin_token: str | None = setting(
        "httpAdminToken",
        None,
        SECRET,
        "token to change something with; unset = nobody; never shown",
    )
    open: bool = setting(
        "httpOpen", False, BOOL, "let everybody read, also where gatewayBind is not loopback"
    )
    hosts: tuple[str, ...] = setting(
        "httpHosts", (), HOSTS, "further names that browsers may call the gateway by"
    )
    address_service_port: int = setting(
        "addressServicePort",
        0,
        PORT,
        "another port, on bindAddress, that tells clients the NameServers and no more; 0 = none",
    )
    name_servers: UnitLists = setting(
        "nameServers", (), NAME_SERVERS, "what the address service tells; unless set, this node"
    )
    advertised_address: str = setting(
        "advertisedAddress",
        "",
        HOST_AND_PORT,
        "how clients reach this node, for the address service",
    )
    log_format: str = setting("logFormat", "text", choice("text", "json"), "lines of the log")


@dataclass(frozen=True, slots=True)
class TestClusterSettings:
    """Cluster-test mode: where to ask for topics this node does not know."""

    enabled: bool = setting("clusterTest", False, BOOL, "ask production for unknown topics")
    product_env_name: str = setting(
        "productEnvName", "center", TEXT, "unit name of the production address lookup"
    )
    namesrv_addr: str = setting(
        "namesrvAddr", "", TEXT, "production NameServers of cluster-test mode, a:p;b:p"
    )
    domain: str = setting(
        "rocketmq.namesrv.domain", "jmenv.tbsite.net", TEXT, "host of the address lookup"
    )
    subgroup: str = setting(
        "rocketmq.namesrv.domain.subgroup", "nsaddr", TEXT, "path of the address lookup"
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All of a node's settings. ``values`` is every key as text, for 319 and ``-p``."""

    listen: ListenSettings = field(default_factory=ListenSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    test_cluster: TestClusterSettings = field(default_factory=TestClusterSettings)
    kv_path: Path = setting(
        "kvConfigPath",
        Path("~/namesrv/kvConfig.json"),
        PLACE,
        "key-value file, in RocketMQ's format; one node's alone",
    )
    data_dir: Path = setting(
        "dataDir", Path("~/namesrv/routebook"), PLACE, "folder of the node's own files"
    )
    allow_remote_config: bool = setting(
        "allowRemoteConfig", False, BOOL, "let mqadmin change live settings (318)"
    )
    values: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
