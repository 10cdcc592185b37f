"""Sources: the settings of a node from the places that give values for them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routebook.settings.errors import SettingsError
from routebook.settings.groups import (
    GatewaySettings,
    GuardSettings,
    LimitSettings,
    ListenSettings,
    LiveSettings,
    MemorySettings,
    Settings,
    TestClusterSettings,
    TlsSettings,
)
from routebook.settings.ignored import IGNORED
from routebook.settings.keys import Key, as_text, fields_of, keys_of
from routebook.settings.kinds import BOOL
from routebook.wire.address import is_loopback

GROUPS = (
    Settings,
    ListenSettings,
    TlsSettings,
    LiveSettings,
    LimitSettings,
    MemorySettings,
    GuardSettings,
    GatewaySettings,
    TestClusterSettings,
)
CONTROLLER = Key(
    "enableControllerInNamesrv", "false", BOOL, "there is no controller here: true stops the start"
)
KEYS: dict[str, Key] = {
    key.name: key
    for key in (*(key for group in GROUPS for key in keys_of(group)), CONTROLLER, *IGNORED)
}
LIVE_KEYS = tuple(key.name for key in keys_of(LiveSettings))
_BY_NAME = {name: key for key in KEYS.values() for name in key.names}
_BY_KEYWORD = {keyword: key for key in KEYS.values() for keyword in key.keywords}


@dataclass(frozen=True, slots=True)
class Source:
    """Values as one place gives them; ``name`` is how a complaint calls that place."""

    name: str
    values: Mapping[str, str]


def resolve(sources: Iterable[Source], home: Path) -> Settings:
    """Join ``sources``, the later the stronger; raises SettingsError with one sentence."""
    defaults = {
        key.name: key.default.replace("~", str(home), 1)
        if key.default.startswith("~/")
        else key.default
        for key in KEYS.values()
    }
    texts = dict(defaults)
    given: dict[str, str] = {}  # key -> the source it came from
    for source in sources:
        for name, text in source.values.items():
            key = _BY_NAME.get(name)
            if key is not None:
                name = key.name
            texts[name] = text.strip()
            if key is not None and key.kind.blank_is_default:
                texts[name] = texts[name] or defaults[name]
            given[name] = source.name
    values: dict[str, Any] = {}
    for key in KEYS.values():
        try:
            values[key.name] = key.read(texts[key.name])
        except ValueError as error:
            raise SettingsError(f"{given.get(key.name, 'default')}: {error}") from error
    _check(values)
    return Settings(
        listen=ListenSettings(**fields_of(ListenSettings, values)),
        tls=TlsSettings(**fields_of(TlsSettings, values)),
        live=LiveSettings(**fields_of(LiveSettings, values)),
        limits=LimitSettings(**fields_of(LimitSettings, values)),
        memory=MemorySettings(**fields_of(MemorySettings, values)),
        guard=GuardSettings(**fields_of(GuardSettings, values)),
        gateway=GatewaySettings(**fields_of(GatewaySettings, values)),
        test_cluster=TestClusterSettings(**fields_of(TestClusterSettings, values)),
        **fields_of(Settings, values),
        values={name: _shown(KEYS.get(name), text) for name, text in texts.items()},
        ignored=tuple(name for name in given if name in KEYS and KEYS[name].ignored),
        unknown=tuple(name for name in given if name not in KEYS),
    )


def make_settings(home: Path, **values: object) -> Settings:
    """Settings for embedding: ``make_settings(folder, listen_port=0)``.

    Keywords are the keys in snake case; dots become underscores too. Files go under ``home``.
    There is no gateway unless ``gateway_port`` is given.
    """
    texts = {"gatewayPort": "0"}
    for keyword, value in values.items():
        if keyword not in _BY_KEYWORD:
            raise SettingsError(f"there is no setting {keyword}")
        texts[_BY_KEYWORD[keyword].name] = as_text(value)
    return resolve([Source("make_settings", texts)], home)


def read_live(texts: Mapping[str, str]) -> LiveSettings:
    """Live settings of a full set of texts; raises ValueError with one sentence."""
    values = {name: KEYS[name].read(texts[name]) for name in LIVE_KEYS}
    return LiveSettings(**fields_of(LiveSettings, values))


def _shown(key: Key | None, text: str) -> str:
    return "******" if key is not None and key.kind.secret and text else text


def public_without_token(bind: str, *, read_token: str | None, everybody: bool) -> str | None:
    """Why a gateway must not be on ``bind``; None: it may."""
    if read_token is not None or everybody or is_loopback(bind):
        return None
    return (
        f"gatewayBind={bind} lets other machines read everything: set httpReadToken, or"
        " httpOpen=true if everybody may"
    )


def _check(values: Mapping[str, Any]) -> None:
    """Refuse values that are good alone and bad together."""
    if values["gatewayPort"]:
        refusal = public_without_token(
            values["gatewayBind"],
            read_token=values["httpReadToken"],
            everybody=values["httpOpen"],
        )
        if refusal is not None:
            raise SettingsError(refusal)
    if values["addressServicePort"] and not values["gatewayPort"]:
        raise SettingsError("addressServicePort is served by the gateway: set gatewayPort too")
    if values["enableControllerInNamesrv"]:
        raise SettingsError(
            "enableControllerInNamesrv=true: this node has no controller; run RocketMQ's own"
            " controller and point the brokers' controllerAddr at it, then remove the setting"
        )
    high, low = values["writeBufferHighWaterMark"], values["writeBufferLowWaterMark"]
    if high and low > high:
        raise SettingsError(
            f"writeBufferLowWaterMark must be from 0 to writeBufferHighWaterMark={high}, not {low}"
        )
    cert, key = values["tls.server.certPath"], values["tls.server.keyPath"]
    if (cert is None) != (key is None):
        raise SettingsError("tls.server.certPath and tls.server.keyPath must be set together")
    mode, client_auth = values["tls.server.mode"], values["tls.server.need.client.auth"]
    if mode == "enforcing" and cert is None:
        raise SettingsError(
            "tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath"
        )
    if client_auth != "none" and values["tls.server.trustCertPath"] is None and cert is not None:
        raise SettingsError(
            f"tls.server.need.client.auth={client_auth} needs tls.server.trustCertPath"
        )
