"""The scripts of the Makefile on machines that lack something; the programs they call are stubs."""

import io
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha512
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
"""
APT = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *openjdk-17-jdk-headless) cp -p {java} {bin} ;; esac
"""


class Machine:
    """A PATH with the shell's tools, a user, and Debian's packages or none."""

    def __init__(self, folder: Path, *, user: int, debian: bool = True) -> None:
        self._bin = folder / "bin"
        self._log = folder / "apt.log"
        self._bin.mkdir()
        for tool in ("sh", "grep", "cp"):
            (self._bin / tool).symlink_to(str(shutil.which(tool)))
        self._program("id", f"#!/bin/sh\necho {user}\n")
        if debian:
            self._program("apt-get", APT.format(log=self._log, java=folder / "java", bin=self._bin))
        self._program("../java", JAVA)
        self._venv = folder / "venv"
        (self._venv / "bin").mkdir(parents=True)
        self._program("../venv/bin/pip", "#!/bin/sh\nexit 1\n")

    def _program(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(text)
        path.chmod(0o755)

    def spark(self) -> "subprocess.CompletedProcess[str]":
        """``make spark`` up to the packages of Python, which cannot be had here."""
        return subprocess.run(
            ["sh", "scripts/spark.sh", str(self._venv)],
            cwd=ROOT,
            env={"PATH": str(self._bin)},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def installed(self) -> list[str]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.split()[-1] for line in lines if line.startswith("install")]


def test_spark_gets_its_java_from_debian_where_it_may(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    ran = machine.spark()
    assert machine.installed == ["openjdk-17-jdk-headless"]
    assert "pip could not install Spark" in ran.stderr  # it went on to the next step
    machine.spark()
    assert machine.installed == ["openjdk-17-jdk-headless"]  # and is not asked for again


@pytest.mark.parametrize(("user", "debian"), [(1000, True), (0, False)], ids=["user", "no-apt"])
def test_who_cannot_install_java_is_told_which(tmp_path: Path, *, user: int, debian: bool) -> None:
    machine = Machine(tmp_path, user=user, debian=debian)
    ran = machine.spark()
    assert (ran.returncode, machine.installed) == (2, [])
    assert "Spark needs Java 17 or newer" in ran.stderr


# -- the libraries of the live page


NPM = """#!/bin/sh
shift 2  # pack --silent
[ "$1" = --pack-destination ]
cp {packages}/*.tgz "$2"
"""


class PageSources:
    """A copy of what fetches the libraries of the page, and an npm that has one of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.page = folder / "src" / "routebook" / "gateway" / "page"
        self.page.mkdir(parents=True)
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        packages = folder / "packages"
        packages.mkdir()
        with tarfile.open(packages / "owner-thing-1.2.3.tgz", "w:gz") as archive:
            for name, text in (("dist/thing.mjs", "export {}"), ("LICENSE", "do what you like")):
                member = tarfile.TarInfo(f"package/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        self._sha512 = sha512((packages / "owner-thing-1.2.3.tgz").read_bytes()).hexdigest()
        self._bin = folder / "bin"
        self._bin.mkdir()
        npm = self._bin / "npm"
        npm.write_text(NPM.format(packages=packages))
        npm.chmod(0o755)

    def lock(self, sha512: str | None = None) -> None:
        line = f"@owner/thing 1.2.3 {sha512 or self._sha512} dist/thing.mjs=thing.mjs"
        (self.page / "assets.lock").write_text(f"# a comment\n{line}\n")

    def fetch(self) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["sh", "scripts/assets.sh", sys.executable],
            cwd=self._folder,
            env={"PATH": f"{self._bin}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )


def test_libraries_of_the_page_are_unpacked_with_their_licence(tmp_path: Path) -> None:
    sources = PageSources(tmp_path)
    sources.lock()
    assert sources.fetch().returncode == 0
    assert (sources.page / "vendor" / "thing.mjs").read_text() == "export {}"
    licences = (sources.page / "vendor" / "THIRD-PARTY.txt").read_text()
    assert "@owner/thing 1.2.3\n" in licences
    assert "do what you like" in licences
    assert sources.fetch().stdout == ""  # what is there is not fetched again


def test_a_library_that_is_another_one_is_not_unpacked(tmp_path: Path) -> None:
    sources = PageSources(tmp_path)
    sources.lock("0" * 128)
    ran = sources.fetch()
    assert ran.returncode != 0
    assert "@owner/thing 1.2.3 is not what assets.lock says" in ran.stderr
    assert not (sources.page / "vendor" / "thing.mjs").exists()
