from pathlib import Path

import pytest

from routebook.settings import KEYS, SettingsError, Source, make_settings, resolve

HOME = Path("/home/mq")


def test_later_sources_override_earlier_ones() -> None:
    settings = resolve(
        [
            Source("file", {"listenPort": "1", "bindAddress": "a", "productEnvName": "p"}),
            Source("environment", {"listenPort": "2", "bindAddress": "b"}),
            Source("flags", {"listenPort": "3"}),
        ],
        HOME,
    )
    assert (settings.listen.listen_port, settings.listen.bind_address) == (3, "b")
    assert settings.test_cluster.product_env_name == "p"


def test_paths_follow_the_rules_of_rocketmq() -> None:
    settings = resolve([], HOME)
    assert settings.kv_path == HOME / "namesrv" / "kvConfig.json"
    assert settings.values["kvConfigPath"] == str(settings.kv_path)


def test_unknown_keys_are_kept_and_ignored_ones_are_known() -> None:
    settings = resolve([Source("f", {"my.key": "v", "serverWorkerThreads": "4"})], HOME)
    assert settings.unknown == ("my.key",)
    assert settings.values["my.key"] == "v"
    assert settings.ignored == ("serverWorkerThreads",)


def test_a_password_is_not_shown() -> None:
    settings = resolve([Source("f", {"tls.server.keyPassword": "secret"})], HOME)
    assert settings.values["tls.server.keyPassword"] == "******"
    assert settings.tls.key_password == "secret"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"listenPort": "70000"}, "f: listenPort must be a port from 0 to 65535, not '70000'"),
        ({"clusterTest": "yes"}, "f: clusterTest must be true or false, not 'yes'"),
        ({"serverWorkerThreads": "x"}, "f: serverWorkerThreads must be a whole number"),
        ({"tls.server.mode": "on"}, "must be one of disabled, permissive, enforcing, not 'on'"),
        ({"trustedProxies": "10.0.0.0/99"}, "must be networks such as 10.0.0.0/8"),
        ({"enableControllerInNamesrv": "true"}, "this node has no controller"),
        ({"tls.server.certPath": "c"}, "must be set together"),
        ({"tls.server.mode": "enforcing"}, "enforcing needs tls.server.certPath"),
    ],
)
def test_a_bad_value_is_one_sentence(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        resolve([Source("f", values)], HOME)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_embedding_takes_keywords() -> None:
    settings = make_settings(HOME, listen_port=0, support_acting_master=True, frame_max_length=99)
    assert (settings.listen.listen_port, settings.listen.max_frame) == (0, 99)
    assert settings.live.support_acting_master
    with pytest.raises(SettingsError, match="there is no setting listen_prt"):
        make_settings(HOME, listen_prt=0)


# NamesrvConfig and NettyServerConfig of RocketMQ 5.5.0, as its own -p prints them.
ROCKETMQ_KEYS = [
    "rocketmqHome",
    "kvConfigPath",
    "configStorePath",
    "productEnvName",
    "clusterTest",
    "orderMessageEnable",
    "returnOrderTopicConfigToBroker",
    "clientRequestThreadPoolNums",
    "defaultThreadPoolNums",
    "clientRequestThreadPoolQueueCapacity",
    "defaultThreadPoolQueueCapacity",
    "scanNotActiveBrokerInterval",
    "unRegisterBrokerQueueCapacity",
    "supportActingMaster",
    "enableAllTopicList",
    "enableTopicList",
    "notifyMinBrokerIdChanged",
    "enableControllerInNamesrv",
    "needWaitForService",
    "waitSecondsForService",
    "deleteTopicWithBrokerRegistration",
    "configBlackList",
    "bindAddress",
    "listenPort",
    "serverWorkerThreads",
    "serverCallbackExecutorThreads",
    "serverSelectorThreads",
    "serverOnewaySemaphoreValue",
    "serverAsyncSemaphoreValue",
    "serverChannelMaxIdleTimeSeconds",
    "serverSocketSndBufSize",
    "serverSocketRcvBufSize",
    "writeBufferHighWaterMark",
    "writeBufferLowWaterMark",
    "serverSocketBacklog",
    "serverNettyWorkerGroupEnable",
    "serverPooledByteBufAllocatorEnable",
    "enableShutdownGracefully",
    "shutdownWaitTimeSeconds",
    "useEpollNativeSelector",
]


@pytest.mark.parametrize("name", ROCKETMQ_KEYS)
def test_every_key_of_rocketmq_is_known(name: str) -> None:
    assert name in KEYS


def test_flags_and_variables_are_spelt_from_the_key() -> None:
    assert KEYS["listenPort"].flag == "--listen-port"
    assert KEYS["listenPort"].env == "ROUTEBOOK_LISTEN_PORT"
    assert KEYS["tls.server.need.client.auth"].flag == "--tls-server-need-client-auth"
    assert KEYS["dataDir"].env == "ROUTEBOOK_DATA_DIR"
