"""Settings of a broker: defaults, bounds, and sentences about what cannot be."""

from typing import Any

import pytest

from routebook.agent.settings import BadSettings, BrokerSettings, parse_permission
from routebook.wire.headers import BrokerIdentity


def settings(**values: Any) -> BrokerSettings:
    return BrokerSettings(**{"name": "broker-a", "addr": "10.0.0.1:10911", **values})


def test_name_and_address_are_enough() -> None:
    plain = settings()
    assert plain.identity == BrokerIdentity("DefaultCluster", "broker-a", 0, "10.0.0.1:10911")
    assert plain.header.ha_server_addr == "10.0.0.1:10912"
    assert plain.header.acting_master is False
    assert plain.header.heartbeat_timeout_ms is None


@pytest.mark.parametrize(
    ("addr", "ha_addr"),
    [("[fe80::1]:10911", "[fe80::1]:10912"), ("b.example:65535", "b.example:65535")],
)
def test_the_replication_address_is_the_next_port(addr: str, ha_addr: str) -> None:
    assert settings(addr=addr).header.ha_server_addr == ha_addr
    assert settings(addr=addr, ha_addr="x:1").header.ha_server_addr == "x:1"


@pytest.mark.parametrize(
    ("wanted_s", "period_s"),
    [(0.1, 10), (10, 10), (30, 30), (60, 60), (3600, 60)],
)
def test_the_period_stays_within_the_bounds_brokers_keep(wanted_s: float, period_s: float) -> None:
    assert settings(register_period_s=wanted_s).period_s == period_s


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": ""}, "name must be 1 to 390 printable characters, not ''"),
        ({"cluster": "a\nb"}, "cluster must be"),
        ({"zone": ""}, "zone must be"),
        ({"addr": "nowhere"}, "addr must be an address: 'nowhere' is not host:port"),
        ({"ha_addr": "host:99999"}, "ha_addr must be an address"),
        ({"broker_id": -1}, "broker_id must be 0 to"),
        ({"permission": 8}, "permission must be 0 to 7, not 8"),
        ({"heartbeat_timeout_ms": 0}, "heartbeat_timeout_ms must be 1 to"),
        ({"split_topics": 1}, "split_topics must be at least 2"),
        ({"register_period_s": 0}, "register_period_s must be more than 0, not 0"),
        ({"round_timeout_s": -1}, "round_timeout_s must be more than 0"),
        ({"heartbeat_s": float("nan")}, "heartbeat_s must be more than 0, not nan"),
        ({"announce": "loud"}, "announce must be one of incremental, single, full, not 'loud'"),
        ({"heartbeat": "slow"}, "heartbeat must be one of off, query, light"),
    ],
)
def test_a_value_nobody_could_use_is_refused_with_a_sentence(
    values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        settings(**values)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "permission"),
    [("rw", 6), ("r", 4), ("w", 2), ("-", 0), ("7", 7), (0, 0), (6, 6)],
)
def test_permissions_are_letters_or_numbers(text: str | int, permission: int) -> None:
    assert parse_permission(text) == permission


@pytest.mark.parametrize("text", ["", "x", "wr", "8", "06", -1, 8])
def test_other_permissions_are_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match="must be rw, r, w, - or a number from 0 to 7"):
        parse_permission(text)
