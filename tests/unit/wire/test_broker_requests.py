"""What a broker sends: equal to what Java brokers send, and read by our own decoder."""

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from routebook.wire.broker_requests import (
    Topic,
    broker_heartbeat,
    packed_body,
    packed_slice,
    plain_body,
    plain_slice,
    query_data_version,
    register_broker,
    register_topic,
    unregister_broker,
)
from routebook.wire.codec import decode_command
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import Command
from routebook.wire.frame import FrameDecoder
from routebook.wire.headers import BrokerIdentity, RegisterBrokerHeader
from routebook.wire.registration import DataVersion, TopicConfig, crc32, decode_data_version
from support.recording import registration_of

GOLDEN = Path(__file__).parents[2] / "golden" / "java-broker-5.5.0"

BROKER = BrokerIdentity("c1", "broker-a", 0, "10.0.0.1:10911")
HEADER = RegisterBrokerHeader(
    broker=BROKER,
    ha_server_addr="10.0.0.1:10912",
    heartbeat_timeout_ms=None,
    acting_master=False,
    compressed=False,
    body_crc32=0,
    zone=None,
)
VERSION = DataVersion(7, 3, 1_700_000_000_000)
TOPICS = [
    Topic("orders", read_queues=4, write_queues=2, perm=6, sys_flag=1, order=True),
    Topic("订单", perm=4, attributes={"message.type": "FIFO"}),
]


def i32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def golden(name: str) -> Command:
    recorded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text())
    decoder = FrameDecoder()
    decoder.feed(bytes.fromhex(recorded["hex"]))
    frame = decoder.next_frame()
    assert frame is not None
    return decode_command(frame)


def topic_of(config: dict[str, Any]) -> Topic:
    return Topic(
        config["topicName"],
        read_queues=config["readQueueNums"],
        write_queues=config["writeQueueNums"],
        perm=config["perm"],
        sys_flag=config["topicSysFlag"],
        order=config["order"],
        attributes=config["attributes"],
    )


def version_of(document: dict[str, int]) -> DataVersion:
    return DataVersion(document["counter"], document["stateVersion"], document["timestamp"])


@pytest.mark.parametrize(
    "name",
    [
        "register-broker",
        "register-broker-one-topic",
        "register-broker-slave",
        "register-broker-acting-master",
    ],
)
def test_a_registration_is_to_the_byte_what_a_java_broker_sends(name: str) -> None:
    recorded = golden(name)
    wrapper = json.loads(recorded.body)["topicConfigSerializeWrapper"]
    topics = [topic_of(config) for config in wrapper["topicConfigTable"].values()]

    body = plain_body(
        version_of(wrapper["dataVersion"]),
        [plain_slice(topics[:3]), plain_slice(topics[3:])] if topics[3:] else [plain_slice(topics)],
        mapping_version=version_of(wrapper["mappingDataVersion"]),
    )
    ours = register_broker(RegisterBrokerHeader.of(recorded), body)

    assert ours.body == recorded.body
    assert ours.ext_fields == recorded.ext_fields
    assert (ours.code, ours.version) == (recorded.code, recorded.version)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (
            "unregister-broker",
            lambda recorded: unregister_broker(BrokerIdentity.of(recorded)),
        ),
        (
            "query-data-version",
            lambda recorded: query_data_version(
                BrokerIdentity.of(recorded), decode_data_version(recorded.body) or VERSION
            ),
        ),
        (
            "broker-heartbeat",
            lambda recorded: broker_heartbeat(
                BrokerIdentity(
                    recorded.ext_fields["clusterName"],
                    recorded.ext_fields["brokerName"],
                    0,
                    recorded.ext_fields["brokerAddr"],
                )
            ),
        ),
        (
            "register-topic-in-namesrv",
            lambda recorded: register_topic(Topic("golden", 4, 4), "acting"),
        ),
    ],
)
def test_the_smaller_requests_are_what_a_java_broker_sends(name: str, ours: Any) -> None:
    recorded = golden(name)
    command = ours(recorded)
    assert (command.code, command.ext_fields, command.body, command.version) == (
        recorded.code,
        recorded.ext_fields,
        recorded.body,
        recorded.version,
    )


def test_our_decoder_reads_a_plain_registration() -> None:
    body = plain_body(VERSION, [plain_slice(TOPICS)], mapping_version=DataVersion(0, 0, 1))
    read = registration_of(register_broker(HEADER, body))
    assert read.data_version == VERSION
    assert read.topics == {
        "orders": TopicConfig("orders", 4, 2, 6, 1),
        "订单": TopicConfig("订单", 8, 8, 4, 0),
    }
    assert read.mappings == []
    assert read.filter_servers == []


def test_our_decoder_reads_a_packed_registration_which_has_no_system_flags() -> None:
    body = packed_body(VERSION, [packed_slice(TOPICS[:1]), packed_slice(TOPICS[1:])])
    request = register_broker(replace(HEADER, compressed=True), body)
    read = registration_of(request)
    assert read.data_version == VERSION
    assert read.topics == {
        "orders": TopicConfig("orders", 4, 2, 6, 0),
        "订单": TopicConfig("订单", 8, 8, 4, 0),
    }
    assert request.ext_fields["compressed"] == "true"


def test_a_packed_topic_has_the_five_fields_that_every_server_reads() -> None:
    inflated = zlib.decompress(packed_body(VERSION, [packed_slice([Topic("T1")])]))
    version = b'{"counter":7,"stateVersion":3,"timestamp":1700000000000}'
    assert inflated == b"".join(
        [
            i32(len(version)) + version,
            i32(1),  # topics
            i32(19) + b"T1 8 8 6 SINGLE_TAG",
            i32(2) + b"[]",  # filter servers
            i32(0),  # static mappings, which a sender of 5.0.0 or later has to count
        ]
    )


@pytest.mark.parametrize("slices", [[], [plain_slice([])]])
def test_a_registration_may_hold_no_topic(slices: list[Any]) -> None:
    body = plain_body(VERSION, slices, mapping_version=VERSION)
    assert json.loads(body)["topicConfigSerializeWrapper"]["topicConfigTable"] == {}
    packed = register_broker(replace(HEADER, compressed=True), packed_body(VERSION, []))
    assert registration_of(packed).topics == {}


@pytest.mark.parametrize(
    ("content", "checksum"), [(b"hello", 907060870), (b"a", 1756872259), (b"", 0)]
)
def test_the_checksum_has_its_sign_bit_cleared(content: bytes, checksum: int) -> None:
    assert crc32(content) == checksum
    assert register_broker(HEADER, content).ext_fields["bodyCrc32"] == str(checksum)


@pytest.mark.parametrize(
    "header",
    [
        HEADER,
        replace(HEADER, acting_master=True, heartbeat_timeout_ms=10_000, zone="east"),
        replace(HEADER, ha_server_addr=None, acting_master=None, compressed=True),
    ],
)
def test_the_fields_of_a_registration_are_read_as_they_were_meant(
    header: RegisterBrokerHeader,
) -> None:
    request = register_broker(header, b"body")
    assert RegisterBrokerHeader.of(request) == replace(header, body_crc32=crc32(b"body"))
    assert request.code == RequestCode.REGISTER_BROKER
    assert request.version == Version.V5_5_0


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: Topic(""), "a topic name"),
        (lambda: Topic("two words"), "without spaces"),
        (lambda: Topic("line\nbreak"), "printable"),
        (lambda: Topic("half\ud800"), "printable"),
        (lambda: Topic("x" * 391), "1 to 390"),
        (lambda: Topic("T", read_queues=-1), "read_queues of topic T"),
        (lambda: Topic("T", write_queues=2**31), "write_queues of topic T"),
        (lambda: Topic("T", perm=16), "perm of topic T must be 0 to 15, not 16"),
        (lambda: Topic("T", attributes={"k": "\x00"}), "attributes of topic T"),
        (lambda: Topic("T", attributes={"k": "v" * 9000}), "at most 8192"),
    ],
)
def test_a_topic_nobody_could_list_is_refused(wrong: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        wrong()
