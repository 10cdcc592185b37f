"""Requests that real programs sent are carried out, and answered as the Java NameServer did.

They are asked in the order of the recording, so that the tables are those the Java NameServer had.
What it was told and no vector has is made up here: the topic ``doomed``, and that ``golden`` has
an order. Where an answer is another one, it is by a rule of docs/compatibility.md.
"""

import json

import msgspec
import pytest

from routebook.wire.codec import decode_command, encode_reply
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command
from routebook.wire.frame import FrameDecoder
from support.builders import registration_body
from support.desk import Desk
from support.vectors import VECTORS, command_of, frame_of

MASTER, SLAVE, OTHERS = 1, 2, 3  # connections
CLIENT, NEW, OLD = "java-client-5.5.0", "java-broker-5.5.0", "java-broker-4.9.7"
JAVA = "java-namesrv-5.5.0"
OTHERWISE = {
    "get-all-topic-list",  # in the order of a hash table of Java's
    "get-broker-member-group-java-broker-5.5.0",  # member-group-remark
    "get-route-binary",  # binary-echo
    "get-route-unknown-topic",  # no-route-reason
    "register-broker-binary-java-broker-4.9.7",  # binary-echo
    "register-broker-binary-java-broker-5.5.0",  # binary-echo
    "register-broker-compressed-java-broker-5.5.0",  # mislabelled-compression
}
WITH_A_NODE = {"get-namesrv-config", "update-namesrv-config"}  # test_remote_config.py
RECORDED = {name.partition("/")[2] for name in VECTORS if name.startswith(JAVA)}


def answered_as(request: str) -> str:
    producer, _, name = request.partition("/")
    return name if producer == CLIENT else f"{name}-{producer}"


class Replay:
    """Asks what was asked, and keeps the answers."""

    def __init__(self) -> None:
        self.desk = Desk(order_message_enable=True)
        self.answers: dict[str, bytes] = {}

    def ask(self, producer: str, *names: str, link: int = OTHERS) -> None:
        for name in names:
            request = command_of(f"{producer}/{name}")
            reply = self.desk.carry_out(request, link=link)
            self.answers[answered_as(f"{producer}/{name}")] = encode_reply(request, reply)


@pytest.fixture(scope="module")
def answers() -> dict[str, bytes]:
    replay = Replay()
    replay.ask(NEW, "register-broker", link=MASTER)
    replay.ask(NEW, "register-broker-one-topic", "register-broker-static-topic", link=MASTER)
    add_topic(replay.desk, command_of(f"{NEW}/register-broker"), "doomed")
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "golden", "value": "broker-5.5.0:4"}
    replay.desk.ask(RequestCode.PUT_KV_CONFIG, dict(order))
    replay.ask(CLIENT, "get-broker-cluster-info", "get-all-topic-list")
    replay.ask(CLIENT, "put-kv-config", "delete-kv-config", "get-kv-config")
    replay.ask(CLIENT, "get-kv-config-missing", "get-route-ordered-topic")
    replay.ask(CLIENT, "get-route-static-topic", "get-route-unknown-topic")
    replay.ask(CLIENT, "wipe-write-perm-of-broker", "add-write-perm-of-broker")
    replay.ask(CLIENT, "delete-topic-in-namesrv")
    replay.ask(CLIENT, "get-route", "get-route-signed", "get-route-binary")
    for other in ("java-client-4.9.7", "go-client-2.1.2", "node-client-3.12.0", "cpp-client-0.4.4"):
        replay.ask(other, "get-route")
    replay.ask(NEW, "register-broker-slave", link=SLAVE)
    replay.desk.close(SLAVE)
    replay.ask(NEW, "unregister-broker", link=MASTER)

    replay.ask(NEW, "register-broker-acting-master", "broker-heartbeat", link=MASTER)
    replay.ask(NEW, "get-broker-member-group", "register-topic-in-namesrv", link=MASTER)
    replay.ask(NEW, "query-data-version", link=MASTER)

    replay.desk.close(MASTER)
    replay.ask(OLD, "register-broker", "register-broker-one-topic", link=MASTER)
    replay.ask(OLD, "query-data-version", "unregister-broker", link=MASTER)
    for producer in (NEW, OLD):
        for name in ("register-broker-compressed", "register-broker-binary"):
            replay.ask(producer, name, link=MASTER)
            replay.desk.close(MASTER)
    return replay.answers


def add_topic(desk: Desk, registration: Command, topic: str) -> None:
    fields = {key: value for key, value in registration.ext_fields.items() if key != "bodyCrc32"}
    body = registration_body([topic], counter=3, timestamp=1_794_734_450_000)
    desk.ask(registration.code, fields, body, version=registration.version, link=MASTER)


def read(frame: bytes) -> Command:
    decoder = FrameDecoder()
    decoder.feed(frame)
    whole = decoder.next_frame()
    assert whole is not None
    return decode_command(whole)


@pytest.mark.parametrize("name", sorted(RECORDED - OTHERWISE - WITH_A_NODE))
def test_an_answer_is_that_of_java_to_the_byte(answers: dict[str, bytes], name: str) -> None:
    assert answers[name] == frame_of(f"{JAVA}/{name}")


def test_topics_are_listed_in_another_order(answers: dict[str, bytes]) -> None:
    ours, javas = (
        sorted(json.loads(read(frame).body)["topicList"])
        for frame in (answers["get-all-topic-list"], frame_of(f"{JAVA}/get-all-topic-list"))
    )
    assert ours == javas


def test_only_the_remark_of_a_member_group_is_another(answers: dict[str, bytes]) -> None:
    name = "get-broker-member-group-java-broker-5.5.0"
    javas = read(frame_of(f"{JAVA}/{name}"))
    assert javas.remark == "not set any response code"
    assert read(answers[name]) == msgspec.structs.replace(javas, remark=None)


def test_the_reason_follows_what_java_says_of_an_unknown_topic(answers: dict[str, bytes]) -> None:
    name = "get-route-unknown-topic"
    ours, javas = read(answers[name]), read(frame_of(f"{JAVA}/{name}"))
    assert (ours.code, ours.body) == (javas.code, javas.body)
    assert (ours.remark or "").startswith(f"{javas.remark}\nReason: ")


@pytest.mark.parametrize(
    "name", ["get-route-binary", f"register-broker-binary-{NEW}", f"register-broker-binary-{OLD}"]
)
def test_a_binary_request_is_answered_alike_in_binary(answers: dict[str, bytes], name: str) -> None:
    ours, javas = read(answers[name]), read(frame_of(f"{JAVA}/{name}"))
    assert (ours.codec, javas.codec) == (1, 0)
    assert (ours.code, ours.remark or None, ours.ext_fields, ours.body) == (
        javas.code,
        javas.remark,
        javas.ext_fields,
        javas.body,
    )


def test_what_a_new_broker_compresses_is_read(answers: dict[str, bytes]) -> None:
    """As what the old one compresses: the Java NameServer 5.5.0 refuses it."""
    taken = answers[f"register-broker-compressed-{NEW}"]
    assert read(frame_of(f"{JAVA}/register-broker-compressed-{NEW}")).code == 1
    assert taken == frame_of(f"{JAVA}/register-broker-compressed-{OLD}")
