"""brokers.toml: the brokers one process speaks for.

    nameservers = "10.0.0.1:9876;10.0.0.2:9876"    # left out: found as a RocketMQ client finds them
    unit = "center"                                # of the HTTP address service

    [tls]                                          # left out: plain text
    trust = "ca.pem"

    [[broker]]
    name = "orders-service"
    addr = "10.0.0.5:8080"
    topics = [
        {name = "orders", read = 8, write = 8, perm = "rw"},
        {name = "audit", perm = "r", attributes = {"message.type" = "NORMAL"}},
    ]

A broker takes every setting of ``BrokerSettings`` under its own name. Paths are relative to the
file. Whatever is unknown or of the wrong type is refused with a sentence that says where it is.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routebook.agent.settings import SETTING_NAMES, BadSettings, BrokerSettings, parse_permission
from routebook.client.dialing import Tls
from routebook.client.sources import parse_addresses
from routebook.wire.broker_requests import Topic

RELOADABLE = frozenset({"permission"})


class BadConfig(Exception):
    """One sentence about a file that cannot be used: which file, where in it, and why."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    settings: BrokerSettings
    topics: tuple[Topic, ...] = ()

    def needs_restart(self, after: "BrokerConfig") -> tuple[str, ...]:
        """Settings that differ in ``after`` and that a running agent cannot take over.

        Topics go to ``replace_topics`` and the permission to ``set_permission``.
        """
        return tuple(
            name
            for name in SETTING_NAMES
            if name not in RELOADABLE
            and getattr(self.settings, name) != getattr(after.settings, name)
        )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """``nameservers`` and ``unit`` are for ``routebook.client.sources.find_source``."""

    brokers: tuple[BrokerConfig, ...]
    nameservers: str | None = None
    unit: str | None = None
    tls: Tls | None = None


def load(path: Path) -> AgentConfig:
    """Raises BadConfig."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{path} is not TOML: {error}") from error
    return _Reader(path, str(path)).agent(document)


class _Reader:
    """Reads tables; ``where`` leads every complaint."""

    def __init__(self, path: Path, where: str) -> None:
        self._path = path
        self._where = where

    def agent(self, table: Mapping[str, Any]) -> AgentConfig:
        values = self._values(
            table, {"nameservers": _text, "unit": _text, "tls": _table, "broker": _tables}
        )
        nameservers = values.get("nameservers")
        if nameservers is not None:
            try:
                parse_addresses(nameservers)
            except ValueError as error:
                raise self._bad("nameservers", str(error)) from error
        tables = values.get("broker", [])
        if not tables:
            raise BadConfig(f"{self._where} has no [[broker]]")
        brokers = tuple(
            self._within(f"broker {_called(table, number)}").broker(table)
            for number, table in enumerate(tables, 1)
        )
        seen: set[tuple[str, str]] = set()
        for settings in (broker.settings for broker in brokers):
            if (settings.cluster, settings.addr) in seen:
                # A NameServer knows a broker by its address and would mix up the two.
                raise BadConfig(
                    f"{self._where}: two brokers of cluster {settings.cluster} have the address"
                    f" {settings.addr}"
                )
            seen.add((settings.cluster, settings.addr))
        return AgentConfig(
            brokers,
            nameservers=nameservers,
            unit=values.get("unit"),
            tls=self._within("tls").tls(values["tls"]) if "tls" in values else None,
        )

    def tls(self, table: Mapping[str, Any]) -> Tls:
        files = ("trust", "cert", "key")
        readers: dict[str, _Read] = dict.fromkeys((*files, "key_password"), _text)
        values = self._values(table, {**readers, "verify": _flag, "check_hostname": _flag})
        for name in files:
            if name in values:
                values[name] = self._path.parent / values[name]
        return Tls(**values)

    def broker(self, table: Mapping[str, Any]) -> BrokerConfig:
        values = self._values(table, {**_SETTINGS, "topics": _tables})
        topics: dict[str, Topic] = {}
        for number, entry in enumerate(values.pop("topics", []), 1):
            topic = self._within(f"topic {_called(entry, number)}").topic(entry)
            if topic.name in topics:
                raise BadConfig(f"{self._where}: topic {topic.name} is there twice")
            topics[topic.name] = topic
        for name in ("name", "addr"):
            if name not in values:
                raise BadConfig(f"{self._where}: {name} is missing")
        try:
            settings = BrokerSettings(**values)
        except BadSettings as error:
            raise BadConfig(f"{self._where}: {error}") from error
        return BrokerConfig(settings, tuple(topics.values()))

    def topic(self, table: Mapping[str, Any]) -> Topic:
        values = self._values(table, _TOPIC)
        if "name" not in values:
            raise BadConfig(f"{self._where}: name is missing")
        renamed = {_TOPIC_FIELDS.get(key, key): value for key, value in values.items()}
        try:
            return Topic(**renamed)
        except ValueError as error:
            raise BadConfig(f"{self._where}: {error}") from error

    def _values(self, table: Mapping[str, Any], readers: "Mapping[str, _Read]") -> dict[str, Any]:
        unknown = sorted(table.keys() - readers.keys())
        if unknown:
            raise BadConfig(
                f"{self._where}: nobody knows {unknown[0]!r}; there are"
                f" {', '.join(sorted(readers))}"
            )
        values = {}
        for key, value in table.items():
            try:
                values[key] = readers[key](value)
            except ValueError as error:
                raise self._bad(key, str(error)) from error
        return values

    def _within(self, what: str) -> "_Reader":
        return _Reader(self._path, f"{self._where}: {what}")

    def _bad(self, key: str, reason: str) -> BadConfig:
        return BadConfig(f"{self._where}: {key} {reason}")


def _called(table: Mapping[str, Any], number: int) -> str:
    name = table.get("name")
    return name[:80] if isinstance(name, str) and name else f"number {number}"


_Read = Callable[[Any], Any]


def _check(fits: bool, wanted: str, value: Any) -> None:
    if not fits:
        raise ValueError(f"must be {wanted}, not {repr(value)[:60]}")


def _text(value: Any) -> str:
    _check(isinstance(value, str), "text in quotes", value)
    return str(value)


def _whole(value: Any) -> int:
    _check(isinstance(value, int) and not isinstance(value, bool), "a whole number", value)
    return int(value)


def _number(value: Any) -> float:
    _check(isinstance(value, int | float) and not isinstance(value, bool), "a number", value)
    return float(value)


def _flag(value: Any) -> bool:
    _check(isinstance(value, bool), "true or false", value)
    return bool(value)


def _permission(value: Any) -> int:
    return parse_permission(value if isinstance(value, str) else _whole(value))


def _table(value: Any) -> dict[str, Any]:
    _check(isinstance(value, dict), "a table", value)
    return dict(value)


def _tables(value: Any) -> list[dict[str, Any]]:
    fits = isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    _check(fits, "a list of tables", value)
    return list(value)


def _texts(value: Any) -> dict[str, str]:
    return {key: _text(text) for key, text in _table(value).items()}


_SETTINGS: dict[str, _Read] = {
    "name": _text,
    "addr": _text,
    "cluster": _text,
    "broker_id": _whole,
    "ha_addr": _text,
    "permission": _permission,
    "zone": _text,
    "acting_master": _flag,
    "heartbeat_timeout_ms": _whole,
    "state_version": _whole,
    "register_period_s": _number,
    "round_timeout_s": _number,
    "force": _flag,
    "compressed": _flag,
    "announce": _text,
    "split_topics": _whole,
    "heartbeat": _text,
    "heartbeat_s": _number,
}
_TOPIC: dict[str, _Read] = {
    "name": _text,
    "read": _whole,
    "write": _whole,
    "perm": _permission,
    "sys_flag": _whole,
    "order": _flag,
    "attributes": _texts,
}
_TOPIC_FIELDS = {"read": "read_queues", "write": "write_queues"}
