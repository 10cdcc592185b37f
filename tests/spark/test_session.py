"""What is in the way of Spark is said as it is."""

import socket
from pathlib import Path

import pytest

from routebook_spark.errors import BadMemory, NoMaster, SparkNotStarted
from routebook_spark.session import build_session, check_master, check_memory, why_not


@pytest.mark.parametrize("memory", ["512m", "2g", "900M", "4gb", "1T"])
def test_sizes_that_spark_can_work_with_are_fine(memory: str) -> None:
    check_memory(memory)


@pytest.mark.parametrize("memory", ["10", "10m", "2 g", "lots", "", "-2g"])
def test_memory_that_is_none_is_said_to_be(memory: str) -> None:
    with pytest.raises(BadMemory) as caught:
        check_memory(memory)
    assert f"{memory} is no memory it can work with; give it 512m or more" in str(caught.value)


def test_a_master_that_is_not_there_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(NoMaster) as caught:
        check_master(f"spark://127.0.0.1:{port}")
    said = str(caught.value)
    assert f"no master answers at spark://127.0.0.1:{port}" in said
    assert "Connection refused" in said


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("master", ["spark://nowhere", "http://127.0.0.1:8080", "cluster"])
def test_what_is_no_master_is_said_to_be(master: str) -> None:
    with pytest.raises(NoMaster, match="no master answers at"):
        check_master(master)


def test_a_folder_without_jars_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUTEBOOK_SPARK_JARS", str(tmp_path))
    with pytest.raises(SparkNotStarted, match="there are no jars in it"):
        build_session("test")


def test_java_that_is_too_old_and_jars_nobody_has_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for version, said in (("1.8.0_392", "is 8; Spark needs Java 17"), ("21.0.1", "could not be")):
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        assert said in why_not(tmp_path)
