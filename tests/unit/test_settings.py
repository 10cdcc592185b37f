from dataclasses import fields
from pathlib import Path

import pytest

from routebook.settings import (
    KEYS,
    Settings,
    SettingsError,
    Source,
    make_settings,
    resolve,
)
from routebook.settings.page import page
from routebook.state.account import LEAST

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
        (
            {"guardSharePercent": "500"},
            "f: guardSharePercent must be a whole number from 0 to 100, not '500'",
        ),
        ({"maxConnections": "0"}, "maxConnections must be a whole number from 1 to 2147483647"),
        ({"frameMaxLength": "0"}, "frameMaxLength must be a whole number from 1024 to 2147483647"),
        ({"maxRouteEntries": "0"}, "maxRouteEntries must be a whole number from 1 to"),
        ({"journalRotateBytes": "1"}, "journalRotateBytes must be a whole number from 65536 to"),
        ({"journalWindowSeconds": "0"}, "journalWindowSeconds must be a whole number from 1 to"),
        (
            {"nodeId": "a b"},
            "f: nodeId must be up to 100 letters, digits, dots, dashes, underscores, not 'a b'",
        ),
        (
            {"writeBufferHighWaterMark": "10", "writeBufferLowWaterMark": "20"},
            "writeBufferLowWaterMark must be from 0 to writeBufferHighWaterMark=10, not 20",
        ),
    ],
)
def test_a_bad_value_is_one_sentence(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as raised:
        resolve([Source("f", values)], HOME)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


NUMBERS = [key for key in KEYS.values() if key.kind.bounds.startswith("a whole number")]


@pytest.mark.parametrize("name", [key.name for key in NUMBERS if not key.ignored])
def test_a_number_is_used_as_it_is_shown_or_refused(name: str) -> None:
    """Whatever the range: no value is quietly made another one."""
    for value in (0, 1, 100, 500, 65_535, 65_536, 2**31 - 1):
        source = Source("f", {name: str(value), **_BESIDE.get(name, {})})
        try:
            settings = resolve([source], HOME)
        except SettingsError as error:
            assert f"{name} must be a whole number from" in str(error)  # noqa: PT017
        else:
            assert settings.values[name] == str(value)
            assert _has(settings, value)


_BESIDE = {
    "writeBufferHighWaterMark": {"writeBufferLowWaterMark": "1"},
    "writeBufferLowWaterMark": {"writeBufferHighWaterMark": str(2**31 - 1)},
}


def _has(settings: Settings, value: int) -> bool:
    """Whether one of its numbers is that one."""
    groups = (settings.listen, settings.live, settings.limits, settings.memory, settings.guard)
    return any(getattr(group, f.name) == value for group in groups for f in fields(group))


def test_values_that_do_no_harm_are_taken() -> None:
    odd = {"serverChannelMaxIdleTimeSeconds": "0", "guardHoldSeconds": "0", "maxKvBytes": "0"}
    odd |= {"serverCallbackExecutorThreads": "-1", "writeBufferLowWaterMark": "5"}
    odd |= {"serverSocketBacklog": "0", "journalRetainDays": "0"}
    assert resolve([Source("f", odd)], HOME).listen.idle_timeout_s == 0


def test_embedding_takes_keywords() -> None:
    settings = make_settings(HOME, listen_port=0, support_acting_master=True, frame_max_length=2048)
    assert (settings.listen.listen_port, settings.listen.max_frame) == (0, 2048)
    assert settings.live.support_acting_master
    with pytest.raises(SettingsError, match="there is no setting listen_prt"):
        make_settings(HOME, listen_prt=0)


def test_defaults_are_those_of_the_fields() -> None:
    settings, bare = resolve([], HOME), Settings()
    for group in ("listen", "tls", "live", "limits", "memory", "guard", "test_cluster"):
        assert getattr(settings, group) == getattr(bare, group)


def test_a_blank_path_or_address_is_the_default() -> None:
    blank = {"dataDir": "", "kvConfigPath": " ", "bindAddress": ""}
    settings = resolve([Source("f", blank)], HOME)
    assert settings.data_dir == HOME / "namesrv" / "routebook"
    assert settings.kv_path == HOME / "namesrv" / "kvConfig.json"
    assert settings.listen.bind_address == settings.values["bindAddress"] == "0.0.0.0"


def test_the_published_page_is_that_of_the_keys() -> None:
    """If not: python -m routebook.settings.page > docs/settings.md."""
    published = Path(__file__).parents[2] / "docs" / "settings.md"
    assert published.read_text() == page()
    for key in KEYS.values():
        assert f"\n| {' or '.join(key.names)} | " in page()


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
    assert KEYS["listenPort"].flags == ("--listen-port",)
    assert KEYS["listenPort"].variables == ("ROUTEBOOK_LISTEN_PORT",)
    assert KEYS["tls.server.need.client.auth"].flags == ("--tls-server-need-client-auth",)
    assert KEYS["dataDir"].variables == ("ROUTEBOOK_DATA_DIR",)
    assert KEYS["com.rocketmq.remoting.frameMaxLength"].flags[1] == "--frame-max-length"
    assert KEYS["com.rocketmq.remoting.frameMaxLength"].variables[1] == "ROUTEBOOK_FRAME_MAX_LENGTH"


def test_a_memory_limit_no_node_could_serve_with_stops_the_start(tmp_path: Path) -> None:
    assert make_settings(tmp_path, memory_limit="192m").limits.memory == LEAST
    assert make_settings(tmp_path, memory_limit="2G").limits.memory == 2 * 1024**3
    for text in ("100m", "much"):
        bounds = "0 or at least 192m, such as 805306368, 768m or 2g"
        with pytest.raises(SettingsError, match=f"memoryLimit must be {bounds}, not '{text}'"):
            make_settings(tmp_path, memory_limit=text)
