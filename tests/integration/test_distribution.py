"""What is built and installed elsewhere: complete, quick to say what it lacks, and free of tests.

The wheel is made from the source distribution, so whatever the one lacks the other lacks too.
"""

import ast
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from routebook.version import __version__
from support.deploying import DEPLOY, container_stages
from support.ports import free_port
from support.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PAGE = "routebook/gateway/page/"
CONTAINER = DEPLOY / "container" / "Containerfile"
NOT_SHIPPED = ("__pycache__", "*.egg-info", "*.pyc")


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path

    def metadata(self) -> str:
        name = f"routebook-{__version__}.dist-info/METADATA"
        return zipfile.ZipFile(self.wheel).read(name).decode()


def copied(tree: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        copy(ROOT / name, tree)
    copytree(SRC, tree / "src", ignore=ignore_patterns(*NOT_SHIPPED))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    tree = tmp_path_factory.mktemp("tree")
    copied(tree)
    copytree(ROOT / "tests" / "unit", tree / "tests" / "unit")  # which nobody is to get
    out = tree / "dist"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree)
    [sdist], [wheel] = out.glob("*.tar.gz"), out.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def clean(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with nothing in it but the wheel and what it needs.

    It is made as the container file makes it, by the same command with the Python of here.
    """
    folder = tmp_path_factory.mktemp("environment")
    *_, command = [step.rest for step in container_stages(CONTAINER)[0] if step.word == "RUN"]
    here = {
        "python -m": f"{sys.executable} -m",
        "/opt/routebook": str(folder),
        "constraints.txt": str(ROOT / "constraints.txt"),
        "/wheels/*.whl": str(built.wheel),
    }
    for there, path in here.items():
        assert there in command
        command = command.replace(there, path)
    run("sh", "-ec", command, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore")
    return folder / "bin"


def run(*command: str | Path, **environment: str) -> str:
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**without_ours(), **environment},
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def without_ours() -> dict[str, str]:
    ours = ("ROUTEBOOK_", "NAMESRV", "PYTHONPATH", "SPARK_", "PYSPARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def sources() -> set[str]:
    paths = (path for path in SRC.rglob("*") if path.is_file())
    names = (path.relative_to(SRC).as_posix() for path in paths)
    return {name for name in names if not re.search(r"__pycache__|\.egg-info|\.pyc$", name)}


# -- what is in it


def test_the_wheel_holds_every_file_of_the_source_and_no_other(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    described = {name for name in names if ".dist-info/" in name}
    assert names - described == sources()
    data = {name for name in names - described if not name.endswith(".py")}
    assert {"routebook/py.typed", "routebook_spark/py.typed"} < data
    assert {"routebook_spark/report/page.css", "routebook_spark/log4j2.properties"} < data
    assert any(name.endswith("licenses/LICENSE") for name in described)
    assert any(name.endswith("vendor/THIRD-PARTY.txt") for name in described)


def test_the_page_is_in_it_with_its_libraries_and_their_licences(built: Built) -> None:
    archive = zipfile.ZipFile(built.wheel)
    page = {Path(name).name for name in archive.namelist() if name.startswith(PAGE)}
    assert {"index.html", "page.css", "main.mjs", "preact.mjs", "htm.mjs", "uplot.js"} < page
    licences = archive.read(f"{PAGE}vendor/THIRD-PARTY.txt").decode()
    for line in archive.read(f"{PAGE}assets.lock").decode().splitlines():
        if not line.startswith("#"):
            name, version, *_ = line.split()
            assert f"{name} {version}\n" in licences
    assert licences.count("Permission is hereby granted") == 4  # MIT; htm has another
    assert "Apache License" in licences


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_nothing_is_built_without_the_libraries_of_the_page(tmp_path: Path, kind: str) -> None:
    copied(tmp_path)
    (tmp_path / "src" / PAGE / "vendor" / "htm.mjs").unlink()
    ran = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", f"--{kind}", tmp_path],
        capture_output=True,
        text=True,
        env=without_ours(),
        timeout=280,
        check=False,
    )
    assert ran.returncode != 0
    assert "the live page lacks htm.mjs; run `sh scripts/assets.sh`" in ran.stdout + ran.stderr


def test_the_source_distribution_holds_no_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in sources()} < names
    assert {"README.md", "LICENSE", "pyproject.toml"} < names
    assert [name for name in names if "/test_" in name or name.startswith("tests")] == []


def imported(package: str) -> Iterator[str]:
    """Top-level modules that the code of a package imports, wherever it does."""
    for path in (SRC / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]


# That only traces need what is in otel, import-linter says.
@pytest.mark.parametrize(
    ("package", "extra"), [("routebook", "otel"), ("routebook_spark", "spark")]
)
def test_all_that_is_imported_is_asked_for(built: Built, package: str, extra: str) -> None:
    asked = [
        requirement
        for line in re.findall(r"^Requires-Dist: (.*)$", built.metadata(), re.MULTILINE)
        if (requirement := Requirement(line)).marker is None
        or requirement.marker.evaluate({"extra": extra})
    ]
    # The plugin is for who has pytest; py4j is a part of pyspark, which says of which version.
    own = {"routebook", "routebook_spark", "pytest", "py4j"}
    modules = set(imported(package)) - sys.stdlib_module_names - own
    owners = {name: packages_distributions()[name] for name in modules}
    names = {canonicalize_name(requirement.name) for requirement in asked}
    assert {
        module for module, of in owners.items() if not names & set(map(canonicalize_name, of))
    } == set()
    for requirement in asked:  # and what the tests run with is what it asks for
        assert requirement.specifier.contains(version(requirement.name)), requirement


# -- installed, without Spark


def test_the_version_is_the_one_of_the_code(clean: Path, built: Built) -> None:
    assert run(clean / "routebook", "--version") == f"routebook, version {__version__}\n"
    assert f"\nVersion: {__version__}\n" in built.metadata()


def image_environment(volume: Path) -> dict[str, str]:
    """The variables of the container file, with its volume elsewhere."""
    [variables] = [step.rest for step in container_stages(CONTAINER)[1] if step.word == "ENV"]
    named = dict(word.split("=", 1) for word in shlex.split(variables))
    moved = {name: text.replace("/var/lib/routebook", str(volume)) for name, text in named.items()}
    return {**without_ours(), **moved, "PATH": os.environ["PATH"]}


def test_a_node_serves_without_spark_and_writes_to_its_volume_alone(
    clean: Path, tmp_path: Path
) -> None:
    command = [str(clean / "routebook"), "serve", "--listen-port", "0", "--bind-address=127.0.0.1"]
    command += ["--gateway-port", str(free_port())]
    log, volume = tmp_path / "output", tmp_path / "volume"
    volume.mkdir(mode=0o700)
    installed = set(clean.parent.rglob("*"))
    with log.open("w") as output:
        node = subprocess.Popen(
            command, cwd=volume, stdout=output, stderr=output, env=image_environment(volume)
        )
    try:
        said = wait_for(
            "the node and its gateway", log.read_text, until=lambda text: "metrics on" in text
        )
        [address] = re.findall(r"ready on (\S+) ", said)
        assert run(clean / "routebook", "kv", "put", "shop", "open", "yes", "-n", address)
        assert "yes" in run(clean / "routebook", "kv", "get", "shop", "open", "-n", address)
    finally:
        node.terminate()
        assert node.wait(60) == 0
    assert {"journal", "kvConfig.json"} <= {path.name for path in volume.iterdir()}
    assert set(clean.parent.rglob("*")) == installed  # bytecode was there already


def test_without_spark_the_pipeline_says_what_to_install(clean: Path) -> None:
    ran = subprocess.run(
        [clean / "routebook", "spark", "ingest", "journal", "--tables", "tables"],
        capture_output=True,
        text=True,
        env=without_ours(),
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "Error: pyspark is not installed; `pip install 'routebook[spark]'` brings Spark and Delta"
        " Lake\n"
    )


# -- installed, with Spark: that of this environment, which has what the extra asks for


def with_spark() -> dict[str, str]:
    return {"PYTHONPATH": sysconfig.get_path("purelib")}


def test_with_spark_every_module_of_the_pipeline_is_there(clean: Path) -> None:
    code = """
import importlib, pkgutil, routebook, routebook_spark
for module in pkgutil.walk_packages(routebook_spark.__path__, "routebook_spark."):
    importlib.import_module(module.name)
print(routebook.__file__, routebook_spark.__file__)
from routebook_spark import Lake, Routebook, build_session, register
"""
    files = run(clean / "python", "-c", code, **with_spark()).split()
    assert [Path(file).is_relative_to(clean.parent) for file in files] == [True, True]
    assert "ingest" in run(clean / "routebook", "spark", "--help", **with_spark())


def test_jars_that_cannot_be_had_are_named_and_so_is_the_remedy(
    clean: Path, tmp_path: Path
) -> None:
    (tmp_path / "journal").mkdir()
    nowhere = (
        f"-D{scheme}.proxy{key}={value}"
        for scheme in ("http", "https")
        for key, value in (("Host", "127.0.0.1"), ("Port", "1"))
    )
    ran = subprocess.run(
        [clean / "routebook", "spark", "ingest", tmp_path / "journal", "--tables", tmp_path / "t"],
        capture_output=True,
        text=True,
        env={
            **without_ours(),
            **with_spark(),
            "HOME": str(tmp_path),
            "JAVA_TOOL_OPTIONS": " ".join([f"-Duser.home={tmp_path}", *nowhere]),
        },
        timeout=280,
        check=False,
    )
    assert ran.returncode == 1
    said = ran.stderr.splitlines()[-1]
    jars = clean.parent / "share" / "routebook" / "jars"
    assert said.startswith(
        f"Error: Spark did not start: the jars of Delta Lake are not in {jars}, and could not be"
        " fetched from Maven Central; get io.delta:delta-spark_"
    )
    assert "name the folder they are in with ROUTEBOOK_SPARK_JARS" in said
