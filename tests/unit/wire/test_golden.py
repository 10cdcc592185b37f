"""Bytes recorded from real peers (tests/golden, recorded by tests/interop/record_golden.py)."""

import pytest

from routebook.wire.codec import encode_reply
from routebook.wire.codes import RequestCode
from routebook.wire.command import Reply
from support.builders import registration_body
from support.desk import Desk
from support.vectors import VECTORS, command_of, frame_of


def test_every_kind_of_peer_was_recorded() -> None:
    producers = {name.partition("/")[0] for name in VECTORS}
    assert producers >= {
        "java-broker-5.5.0",
        "java-broker-4.9.7",
        "java-client-5.5.0",
        "go-client-2.1.2",
        "node-client-3.12.0",
        "cpp-client-0.4.4",
        "java-namesrv-5.5.0",
    }
    assert len(VECTORS) > 60


@pytest.mark.parametrize("name", VECTORS)
def test_recorded_bytes_are_read_as_what_they_are(name: str) -> None:
    decoded = VECTORS[name]["decoded"]
    command = command_of(name)
    assert command.codec == {"JSON": 0, "ROCKETMQ": 1}[decoded["encoding"]]
    for member in ("code", "flag", "opaque", "version"):
        assert getattr(command, member) == decoded[member]
    assert command.ext_fields == (decoded.get("extFields") or {})
    assert (command.remark or None) == (decoded.get("remark") or None)


REGISTRATIONS = [name for name in VECTORS if "/register-broker" in name and "namesrv" not in name]


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_recorded_registrations_are_taken_over(name: str) -> None:
    command = command_of(name)
    fields = command.ext_fields
    desk = Desk()
    reply = desk.ask(command.code, fields, command.body, version=command.version)
    if name.endswith(("one-topic", "static-topic")):
        # What a broker sends for a new topic; before its first full registration it is refused.
        assert reply.remark == "register broker failed"
        unchecked = {key: value for key, value in fields.items() if key != "bodyCrc32"}
        desk.ask(command.code, unchecked, registration_body(), version=command.version)
        reply = desk.ask(command.code, fields, command.body, version=command.version)
    assert (reply.code, reply.remark) == (0, None)
    assert list(desk.cluster_info()["brokerAddrTable"]) == [fields["brokerName"]]
    topics = desk.topic_list(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert len(topics) > 2
    mapped = [t for t in topics if "topicQueueMappingByBroker" in (desk.route(t) or {})]
    assert bool(mapped) is name.endswith("static-topic")


ANSWERS = [name for name in VECTORS if name.startswith("java-namesrv")]


@pytest.mark.parametrize("name", ANSWERS)
def test_our_answers_have_the_headers_of_recorded_ones(name: str) -> None:
    recorded = command_of(name)
    header = frame_of(name)[8:]
    ext_fields = {key: value or "" for key, value in recorded.ext_fields.items()}
    has_ext_fields = b'"extFields"' in header.partition(b"}")[0] or bool(ext_fields)
    ours = encode_reply(
        recorded,
        Reply(
            recorded.code, recorded.remark, ext_fields if has_ext_fields else None, recorded.body
        ),
    )
    assert ours == frame_of(name)
