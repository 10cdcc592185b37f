"""Folders of journals, on any file system Hadoop can reach, as the driver sees them."""

import fcntl
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from routebook_spark.errors import NoSuchFolder, NotAFolder, TablesInUse

MANIFEST = ".manifest.json"
PACKED = ".jsonl.gz"

_GLOB = re.compile(r"[\\{}\[\]*?^]")
_NAMES = "{*.manifest.json,*.jsonl,*.jsonl.gz}"


@dataclass(frozen=True, slots=True)
class Survey:
    """Files by their names: ``manifests`` and ``lonely`` (packed, without one) are paths."""

    manifests: tuple[str, ...]
    lonely: tuple[str, ...]
    unsealed: int


class Files:
    """Files by their paths, such as ``/data/x`` or ``hdfs://host/x``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._settings: Any = spark._jsc.hadoopConfiguration()

    def qualified(self, path: str) -> str:
        """``path`` with its file system, such as ``file:/data/x``."""
        found = self._path(path)
        return str(self._system(found).makeQualified(found).toString())

    def path_of(self, uri: str) -> str:
        """The path of what Spark calls ``uri``, which has percent signs in it."""
        return str(self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.net.URI(uri)).toString())

    def uri_of(self, path: str) -> str:
        return str(self._path(path).toUri().toString())

    def length(self, path: str) -> int | None:
        """In bytes; None when there is no such file."""
        found = self._path(path)
        try:
            return int(self._system(found).getFileStatus(found).getLen())
        except Py4JJavaError as error:
            if _is(error, "java.io.FileNotFoundException"):
                return None
            raise

    def pattern_of(self, folder: str) -> str:
        """What Spark is to be told to find ``folder``, itself or as a pattern.

        Raises NoSuchFolder and NotAFolder.
        """
        found = self._path(folder)
        system = self._system(found)
        if system.exists(found):
            if system.getFileStatus(found).isFile():
                raise NotAFolder(folder)
            return literal(self.qualified(folder))
        if not system.globStatus(found):
            raise NoSuchFolder(folder)
        return self.qualified(folder)

    def survey(self, patterns: Sequence[str]) -> Survey:
        """What is in folders, and in those below them. No Spark job: names are listed only."""
        listed = (
            self._spark.read.format("binaryFile")
            .option("recursiveFileLookup", True)
            .option("pathGlobFilter", _NAMES)
            .load(list(patterns))
        )
        # One call for all names: a call for each takes a minute for a year of journals.
        texts = self._jvm.org.apache.hadoop.util.StringUtils
        joined = texts.join("\n", listed._jdf.inputFiles())
        names = str(joined).split("\n") if joined else []
        manifests = [name for name in names if name.endswith(MANIFEST)]
        sealed = {name.removesuffix(MANIFEST) for name in manifests}
        packed = [name for name in names if name.endswith(PACKED)]
        lonely = [name for name in packed if name.removesuffix(PACKED) not in sealed]
        unsealed = len(names) - len(manifests) - len(packed)
        return Survey(tuple(manifests), tuple(lonely), unsealed)

    def text_of(self, path: str) -> str | None:
        """What ``write_text`` has written; None when there is none, or half of it."""
        found = self._path(path)
        try:
            stream = self._system(found).open(found)
        except Py4JJavaError as error:
            if _is(error, "java.io.FileNotFoundException"):
                return None
            raise
        try:
            return str(stream.readUTF())
        except Py4JJavaError as error:
            if _is(error, "java.io.EOFException"):
                return None
            raise
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        found = self._path(path)
        stream = self._system(found).create(found, True)
        stream.writeUTF(text)
        stream.close()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: Any) -> Any:
        return path.getFileSystem(self._settings)


def _is(error: Py4JJavaError, name: str) -> bool:
    return bool(error.java_exception.getClass().getName() == name)


def literal(path: str) -> str:
    """``path`` as a pattern that fits nothing else."""
    return _GLOB.sub(r"\\\g<0>", path)


@contextmanager
def tables_locked(root: str) -> Iterator[None]:
    """No other ingest on this machine writes the tables in ``root``, a qualified path.

    Elsewhere than on a local disk nobody is kept out. Raises TablesInUse.
    """
    if not root.startswith("file:"):
        yield
        return
    folder = Path(root.removeprefix("file:")) / "_checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "ingest.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TablesInUse(root.removeprefix("file:")) from error
        yield  # the lock ends with the file, or with the process however it dies
