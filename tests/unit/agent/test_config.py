"""brokers.toml: what is read, and what is said about mistakes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from routebook.agent.config import AgentConfig, BadConfig, BrokerConfig, load
from routebook.agent.settings import SETTING_NAMES, BrokerSettings
from routebook.client.dialing import Tls
from routebook.wire.broker_requests import Topic

SMALLEST = """
[[broker]]
name = "orders-service"
addr = "10.0.0.5:8080"
"""

WHOLE = """
nameservers = "10.0.0.1:9876;10.0.0.2:9876"
unit = "center"

[tls]
trust = "ca.pem"
verify = false

[[broker]]
name = "orders-service"
addr = "10.0.0.5:8080"
cluster = "c1"
broker_id = 1
permission = "r"
acting_master = true
heartbeat = "light"
heartbeat_s = 2
announce = "single"
topics = [
    {name = "orders", read = 4, write = 2, perm = "rw", order = true},
    {name = "audit", perm = 4, attributes = {"message.type" = "NORMAL"}},
]

[[broker]]
name = "other"
addr = "10.0.0.6:8080"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "brokers.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_may_say_everything(tmp_path: Path) -> None:
    assert load(written(tmp_path, WHOLE)) == AgentConfig(
        (
            BrokerConfig(
                BrokerSettings(
                    name="orders-service",
                    addr="10.0.0.5:8080",
                    cluster="c1",
                    broker_id=1,
                    permission=4,
                    acting_master=True,
                    heartbeat="light",
                    heartbeat_s=2.0,
                    announce="single",
                ),
                (
                    Topic("orders", 4, 2, order=True),
                    Topic("audit", perm=4, attributes={"message.type": "NORMAL"}),
                ),
            ),
            BrokerConfig(BrokerSettings(name="other", addr="10.0.0.6:8080")),
        ),
        nameservers="10.0.0.1:9876;10.0.0.2:9876",
        unit="center",
        tls=Tls(trust=tmp_path / "ca.pem", verify=False),
    )


def test_a_file_may_say_very_little(tmp_path: Path) -> None:
    config = load(written(tmp_path, SMALLEST))
    assert config == AgentConfig(
        (BrokerConfig(BrokerSettings(name="orders-service", addr="10.0.0.5:8080")),)
    )


def test_every_setting_of_a_broker_may_be_in_the_file(tmp_path: Path) -> None:
    wanted = BrokerSettings(
        name="b",
        addr="h:1",
        cluster="c",
        broker_id=2,
        ha_addr="h:2",
        permission=4,
        zone="z",
        acting_master=True,
        heartbeat_timeout_ms=9000,
        state_version=3,
        register_period_s=20.0,
        round_timeout_s=6.0,
        force=False,
        compressed=True,
        announce="full",
        split_topics=800,
        heartbeat="query",
        heartbeat_s=2.0,
    )
    values = {name: getattr(wanted, name) for name in SETTING_NAMES}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    config = load(written(tmp_path, "\n".join(["[[broker]]", *lines])))
    assert config.brokers == (BrokerConfig(wanted),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", " has no [[broker]]"),
        ("broker = []", " has no [[broker]]"),
        ("broker = 3", ": broker must be a list of tables, not 3"),
        ("x = ", " is not TOML: Invalid value"),
        ("brokers = 1" + SMALLEST, ": nobody knows 'brokers'; there are broker, nameservers, tls"),
        ("nameservers = 1" + SMALLEST, ": nameservers must be text in quotes, not 1"),
        ('nameservers = "a"' + SMALLEST, ": nameservers 'a' is not a NameServer address"),
        ("tls = true" + SMALLEST, ": tls must be a table, not True"),
        ("[tls]\nverify = 1" + SMALLEST, ": tls: verify must be true or false, not 1"),
        ("[tls]\nca = 'x'" + SMALLEST, ": tls: nobody knows 'ca'; there are cert,"),
        ("[[broker]]\naddr = 'h:1'", ": broker number 1: name is missing"),
        ("[[broker]]\nname = 'b'", ": broker b: addr is missing"),
        (SMALLEST + "port = 1", ": broker orders-service: nobody knows 'port'; there are"),
        (
            SMALLEST + "broker_id = '0'",
            ": broker orders-service: broker_id must be a whole number, not '0'",
        ),
        (
            SMALLEST + "broker_id = true",
            ": broker orders-service: broker_id must be a whole number, not True",
        ),
        (SMALLEST + "force = 'no'", ": broker orders-service: force must be true or false"),
        (SMALLEST + "heartbeat_s = '1'", ": broker orders-service: heartbeat_s must be a number"),
        (
            SMALLEST + "permission = 'rwx'",
            ": broker orders-service: permission must be rw, r, w, - or a number from 0 to 7",
        ),
        (SMALLEST + "permission = 9", ": broker orders-service: permission must be rw"),
        (SMALLEST + "announce = 'x'", ": broker orders-service: announce must be one of"),
        (SMALLEST + "topics = ['T']", ": broker orders-service: topics must be a list of tables"),
        (
            SMALLEST + "topics = [{read = 1}]",
            ": broker orders-service: topic number 1: name is missing",
        ),
        (
            SMALLEST + "topics = [{name = 'T', queues = 1}]",
            ": broker orders-service: topic T: nobody knows 'queues'; there are attributes",
        ),
        (
            SMALLEST + "topics = [{name = 'T', read = 1.5}]",
            ": broker orders-service: topic T: read must be a whole number, not 1.5",
        ),
        (
            SMALLEST + "topics = [{name = 'T', read = -1}]",
            ": broker orders-service: topic T: read_queues of topic T must be 0 to",
        ),
        (
            SMALLEST + "topics = [{name = 'T', attributes = {a = 1}}]",
            ": broker orders-service: topic T: attributes must be text in quotes, not 1",
        ),
        (
            SMALLEST + "topics = [{name = 'T'}, {name = 'T'}]",
            ": broker orders-service: topic T is there twice",
        ),
        (
            SMALLEST + "[[broker]]\nname = 'b'\naddr = '10.0.0.5:8080'",
            ": two brokers of cluster DefaultCluster have the address 10.0.0.5:8080",
        ),
    ],
)
def test_a_mistake_is_named_by_file_broker_and_key(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadConfig) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}{sentence}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"nothing\.toml cannot be read"):
        load(tmp_path / "nothing.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xff")
    with pytest.raises(BadConfig, match=r"latin\.toml cannot be read"):
        load(tmp_path / "latin.toml")


def test_a_reload_says_what_only_a_restart_would_take_over() -> None:
    before = BrokerConfig(BrokerSettings(name="b", addr="h:1"), (Topic("T"),))
    after = BrokerConfig(
        replace(before.settings, permission=4, addr="h:2", heartbeat="light"), (Topic("U"),)
    )
    assert before.needs_restart(after) == ("addr", "heartbeat")
    assert before.needs_restart(before) == ()
