"""Record golden vectors: frames as real RocketMQ programs put them on the wire (``make golden``).

Real brokers and clients talk to the Java NameServer 5.5.0 through a recording proxy. Each vector
is one file, ``tests/golden/<producer>/<name>.json``:

    name      what the frame is
    source    which program sent it, and on what occasion
    hex       the whole frame, its length word included
    decoded   what it says: header encoding, header fields, body as text (``body``) or, where it
              is binary, ``bodyBase64``; read here, apart from the code under test

Ports, times and opaque numbers differ from run to run, so review the difference before keeping it.

Run from the project folder with ``tests`` on the path: ``python -m interop.record_golden``.
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interop.support.admin import Admin
from interop.support.brokers import Broker
from interop.support.launcher import Launcher
from interop.support.peers import NEW, OLD, PROJECT
from interop.support.recorder import Recorded, RecordingProxy

GOLDEN = PROJECT / "tests" / "golden"
JAVA_NAMESRV = "java-namesrv-5.5.0"
JAVA_CLIENT = "java-client-5.5.0"
NEW_BROKER, OLD_BROKER = "java-broker-5.5.0", "java-broker-4.9.7"
BINARY = {"rocketmq.serialize.type": "ROCKETMQ"}
TOPIC, STATIC_TOPIC = "golden", "golden-static"

Wanted = Callable[[Recorded], bool]


@dataclass(frozen=True, slots=True)
class Vector:
    producer: str
    name: str
    source: str
    recorded: Recorded


class Recorder:
    """One Java NameServer, the peers that talk to it, and the vectors kept so far."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.namesrv = launcher.java_name_server({"orderMessageEnable": "true"}).address
        self.admin: Admin = launcher.admin()
        self.vectors: list[Vector] = []

    @contextmanager
    def listen(self, producer: str, program: str) -> Iterator["Listening"]:
        """Give ``producer`` a proxy of its own in front of the NameServer."""
        with RecordingProxy(self.namesrv) as proxy:
            yield Listening(producer, program, proxy, self.vectors)


@dataclass(frozen=True, slots=True)
class Listening:
    """What passes between one program and the NameServer."""

    producer: str
    program: str
    proxy: RecordingProxy
    vectors: list[Vector]

    @property
    def namesrv(self) -> str:
        return self.proxy.address

    def keep(self, name: str, occasion: str, wanted: Wanted, *, answer: bool = False) -> None:
        """Keep the first wanted request as a vector, and with ``answer`` the answer to it."""
        request = self.proxy.request(f"{name} of {self.producer}", wanted)
        source = f"{self.program}: {occasion}"
        self.vectors.append(Vector(self.producer, name, source, request))
        if answer:
            name = name if self.producer == JAVA_CLIENT else f"{name}-{self.producer}"
            source = f"NameServer 5.5.0, answer to {source}"
            self.vectors.append(Vector(JAVA_NAMESRV, name, source, self.proxy.answer_to(request)))


def has_code(code: int) -> Wanted:
    return lambda request: request.code == code


def registers_only(topic: str) -> Wanted:
    def matches(request: Recorded) -> bool:
        topics = request.body.count('"topicName":')
        return request.code == 103 and topics == 1 and f'"topicName":"{topic}"' in request.body

    return matches


def registers_static_topic(request: Recorded) -> bool:
    return request.code == 103 and '"currIdMap":{0:' in request.body


def record_new_broker(recorder: Recorder) -> None:
    """Record 5.5.0 as it is by default; let a slave and clients use it, then stop it."""
    with recorder.listen(NEW_BROKER, "broker 5.5.0") as listening:
        broker = recorder.launcher.broker(NEW, listening.namesrv)
        listening.keep("register-broker", "first registration", has_code(103), answer=True)
        make_topic(recorder, broker)
        listening.keep("register-broker-one-topic", "mqadmin updateTopic", registers_only(TOPIC))
        options = ["-b", broker.name, "-t", STATIC_TOPIC, "-qn", "3"]
        recorder.admin.run(recorder.namesrv, "updateStaticTopic", *options)
        occasion = "mqadmin updateStaticTopic"
        listening.keep("register-broker-static-topic", occasion, registers_static_topic)

        record_java_client(recorder, broker)
        record_other_clients(recorder)
        record_slave(recorder, broker)

        broker.terminate()
        listening.keep("unregister-broker", "stopped with SIGTERM", has_code(104), answer=True)
        broker.kill()


def record_slave(recorder: Recorder, master: Broker) -> None:
    with recorder.listen(NEW_BROKER, "broker 5.5.0, brokerRole=SLAVE") as listening:
        slave = recorder.launcher.broker(
            NEW, listening.namesrv, name=master.name, cluster=master.cluster, broker_id=1
        )
        listening.keep("register-broker-slave", "first registration", has_code(103), answer=True)
        slave.kill()


def record_new_broker_as_acting_master(recorder: Recorder) -> None:
    settings = {
        "enableSlaveActingMaster": "true",
        "compatibleWithOldNameSrv": "false",
        "enableSingleTopicRegister": "true",
        "forceRegister": "false",
        "registerNameServerPeriod": "10000",
    }
    with recorder.listen(NEW_BROKER, program("broker 5.5.0", settings)) as listening:
        broker = recorder.launcher.broker(
            NEW, listening.namesrv, name="acting", cluster="acting", settings=settings
        )
        make_topic(recorder, broker)
        listening.keep("register-broker-acting-master", "first registration", has_code(103))
        listening.keep("broker-heartbeat", "every second", has_code(904))
        listening.keep("get-broker-member-group", "every second", has_code(901), answer=True)
        occasion = "mqadmin updateTopic"
        listening.keep("register-topic-in-namesrv", occasion, has_code(217), answer=True)
        listening.keep("query-data-version", "next period", has_code(322), answer=True)
        broker.kill()


def record_old_broker(recorder: Recorder) -> None:
    settings = {"forceRegister": "false", "registerNameServerPeriod": "10000"}
    with recorder.listen(OLD_BROKER, program("broker 4.9.7", settings)) as listening:
        broker = recorder.launcher.broker(OLD, listening.namesrv, settings=settings)
        listening.keep("register-broker", "first registration", has_code(103))
        make_topic(recorder, broker)
        listening.keep("register-broker-one-topic", "mqadmin updateTopic", registers_only(TOPIC))
        listening.keep("query-data-version", "next period", has_code(322), answer=True)
        broker.terminate()
        listening.keep("unregister-broker", "stopped with SIGTERM", has_code(104))
        broker.kill()


def record_other_registrations(recorder: Recorder) -> None:
    """Record compressed bodies and binary headers of both releases.

    5.5.0 labels a compressed body as uncompressed, and the NameServer 5.5.0 refuses it.
    """
    compressed = {"compressedRegister": "true"}
    for producer, version in ((NEW_BROKER, NEW), (OLD_BROKER, OLD)):
        for name, settings, jvm_properties in (
            ("register-broker-compressed", compressed, dict[str, str]()),
            ("register-broker-binary", dict[str, str](), BINARY),
        ):
            sender = program(f"broker {version}", {**settings, **jvm_properties})
            with recorder.listen(producer, sender) as listening:
                broker = recorder.launcher.broker(
                    version,
                    listening.namesrv,
                    settings=settings,
                    jvm_properties=jvm_properties,
                    registered=False,
                )
                listening.keep(name, "first registration", has_code(103), answer=True)
                broker.kill()


def record_java_client(recorder: Recorder, broker: Broker) -> None:
    """Record mqadmin and the client library, while ``broker`` is there."""
    kv = ["-s", "golden", "-k", "colour"]
    make_topic(recorder, broker, "doomed")
    order = ["-t", TOPIC, "-m", "put", "-v", f"{broker.name}:4"]
    recorder.admin.run(recorder.namesrv, "updateOrderConf", *order)
    for code, name, words in [
        (106, "get-broker-cluster-info", ["clusterList"]),
        (206, "get-all-topic-list", ["topicList"]),
        (100, "put-kv-config", ["updateKvConfig", *kv, "-v", "grün"]),
        (102, "delete-kv-config", ["deleteKvConfig", *kv]),
        (101, "get-kv-config", ["updateOrderConf", "-t", TOPIC, "-m", "get"]),
        (101, "get-kv-config-missing", ["updateOrderConf", "-t", "unknown", "-m", "get"]),
        (105, "get-route-ordered-topic", ["topicRoute", "-t", TOPIC]),
        (105, "get-route-static-topic", ["topicRoute", "-t", STATIC_TOPIC]),
        (105, "get-route-unknown-topic", ["topicRoute", "-t", "unknown"]),
        (205, "wipe-write-perm-of-broker", ["wipeWritePerm", "-b", broker.name]),
        (327, "add-write-perm-of-broker", ["addWritePerm", "-b", broker.name]),
        (319, "get-namesrv-config", ["getNamesrvConfig"]),
        (318, "update-namesrv-config", ["updateNamesrvConfig", "-k", "colour", "-v", "grün"]),
        (216, "delete-topic-in-namesrv", ["deleteTopic", "-t", "doomed", "-c", broker.cluster]),
    ]:
        with recorder.listen(JAVA_CLIENT, "mqadmin 5.5.0") as listening:
            recorder.admin.run(listening.namesrv, *words)
            listening.keep(name, " ".join(words), has_code(code), answer=True)

    signed = {"acl.accessKey": "golden", "acl.secretKey": "not-so-secret"}
    for producer, client, name, properties in [
        (JAVA_CLIENT, NEW, "get-route", dict[str, str]()),
        (JAVA_CLIENT, NEW, "get-route-signed", signed),
        (JAVA_CLIENT, NEW, "get-route-binary", BINARY),
        ("java-client-4.9.7", OLD, "get-route", dict[str, str]()),
    ]:
        with recorder.listen(producer, program(f"client {client}", properties)) as listening:
            recorder.launcher.driver(
                "Route", listening.namesrv, TOPIC, client=client, properties=properties
            )
            listening.keep(name, "route query", has_code(105), answer=True)


def record_other_clients(recorder: Recorder) -> None:
    for producer, probe in [
        ("go-client-2.1.2", recorder.launcher.go_probe),
        ("node-client-3.12.0", recorder.launcher.node_js_probe),
        ("cpp-client-0.4.4", recorder.launcher.cpp_probe),
    ]:
        with recorder.listen(producer, producer.replace("-", " ")) as listening:
            probe(listening.namesrv, TOPIC, 1)
            listening.keep("get-route", "route query before sending", has_code(105), answer=True)


def program(name: str, settings: Mapping[str, str]) -> str:
    return ", ".join([name, *(f"{key}={value}" for key, value in settings.items())])


def make_topic(recorder: Recorder, broker: Broker, topic: str = TOPIC) -> None:
    options = ["-b", broker.address, "-t", topic, "-r", "4", "-w", "4"]
    printed = recorder.admin.run(recorder.namesrv, "updateTopic", *options)
    assert "success" in printed, printed


def write(vectors: list[Vector]) -> None:
    """Replace the vectors of every producer recorded now."""
    for producer in {vector.producer for vector in vectors}:
        shutil.rmtree(GOLDEN / producer, ignore_errors=True)
    for vector in vectors:
        path = GOLDEN / vector.producer / f"{vector.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "name": vector.name,
            "source": vector.source,
            "hex": vector.recorded.frame.hex(),
            "decoded": vector.recorded.decoded,
        }
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        print(path.relative_to(PROJECT), len(vector.recorded.frame), "bytes")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        launcher = Launcher(Path(folder))
        try:
            recorder = Recorder(launcher)
            for record in (
                record_new_broker,
                record_new_broker_as_acting_master,
                record_old_broker,
                record_other_registrations,
            ):
                print(record.__name__.replace("_", " "))
                record(recorder)
        finally:
            launcher.close()
    write(recorder.vectors)


if __name__ == "__main__":
    main()
