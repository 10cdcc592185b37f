"""What all commands on Spark share: where the tables are, where Spark runs, errors as sentences.

    @click.command()
    @spark_options
    def flaps(engine: Engine) -> None:
        with engine.lake("flaps") as lake:
            lake.read(FLAPS)...

Spark is loaded and started by ``engine.lake``, not before: ``--help`` is fast, and a machine
without Spark or Java gets a sentence.
"""

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from routebook.cli.output import console
from routebook.plain import one_line
from routebook_spark.commands.spark_noise import without_spark_noise
from routebook_spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from routebook_spark.tables import Lake

_LONGEST = 400  # characters of somebody else's message
_SEE_MORE = "--debug shows the whole error"


class JobFailed(click.ClickException):
    """One sentence, and exit code 1."""

    def format_message(self) -> str:
        return one_line(self.message)


@dataclass(frozen=True, slots=True)
class Engine:
    """Where Spark runs and where its tables are, as the command line says."""

    tables: str
    master: str | None = None
    memory: str = "2g"
    debug: bool = False

    @contextmanager
    def lake(self, name: str, *, settings: dict[str, str] | None = None) -> Iterator["Lake"]:
        """The tables, in a session that is stopped at the end; one that runs already goes on."""
        with self.sentences(), self.session(name, settings=settings) as spark:
            from routebook_spark.tables import Lake

            yield Lake(spark, self.tables)

    @contextmanager
    def existing_lake(self, name: str) -> Iterator["Lake"]:
        """The same, of tables that are there. Raises JobFailed when nothing was ever ingested."""
        with self.lake(name) as lake:
            from routebook_spark.errors import NoTables
            from routebook_spark.tables import SEGMENTS

            if not lake.exists(SEGMENTS):
                raise NoTables(self.tables)
            yield lake

    @contextmanager
    def session(
        self, name: str, *, settings: dict[str, str] | None = None
    ) -> Iterator["SparkSession"]:
        """Raises JobFailed when there is no Spark, no Java, or no such master."""
        try:
            from pyspark.sql import SparkSession

            from routebook_spark.session import build_session
        except ImportError as error:
            raise JobFailed(
                f"{error.name} is not installed; `pip install 'routebook[spark]'` brings Spark and"
                " Delta Lake"
            ) from error
        running = SparkSession.getActiveSession()
        if running is not None:
            yield running
            return
        _check_java()
        quiet = nullcontext() if self.debug else without_spark_noise()
        with _spinner("starting Spark"), quiet:
            spark = build_session(
                f"routebook {name}", master=self.master, memory=self.memory, settings=settings
            )
        try:
            yield spark
        finally:
            if not self.debug:
                _hush(spark)
            spark.stop()

    @contextmanager
    def sentences(self) -> Iterator[None]:
        """Errors of Spark and of the pipeline as one sentence each; as they are with --debug."""
        try:
            yield
        except click.ClickException:
            raise
        except Exception as error:  # raised again: as a sentence where we have one
            reason = None if self.debug else _sentence(error)
            if reason is None:
                raise
            raise JobFailed(reason) from error


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` --tables, --master, --memory, --debug and an ``engine: Engine``."""

    @functools.wraps(command)
    def wrapped(tables: str, master: str | None, memory: str, debug: bool, **others: Any) -> Any:
        return command(engine=Engine(tables, master, memory, debug), **others)

    wrapped = click.option(
        "--debug", is_flag=True, help="Show an error as Spark tells it, with its stack."
    )(wrapped)
    wrapped = click.option(
        "--memory",
        default="2g",
        show_default=True,
        metavar="SIZE",
        help="Memory of Spark in this process.",
    )(wrapped)
    wrapped = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs, such as spark://host:7077. Default: all cores of this machine.",
    )(wrapped)
    return click.option(
        "--tables",
        required=True,
        envvar="ROUTEBOOK_TABLES",
        metavar="DIR",
        help="The folder of the tables: any path Hadoop can reach. Default: $ROUTEBOOK_TABLES.",
    )(wrapped)


def _hush(spark: "SparkSession") -> None:
    """Before a session is stopped: what it says of work nobody waits for any more is no news.

    An answer that needs no more rows leaves tasks behind, which fail when their blocks are gone.
    """
    with suppress(Exception):  # a session that ended by itself has nothing more to say
        spark.sparkContext.cancelAllJobs()
        spark.sparkContext.setLogLevel("OFF")


def _spinner(text: str) -> Any:
    screen = console(stderr=True)
    return screen.status(text) if screen.is_terminal else nullcontext()


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        raise JobFailed(f"JAVA_HOME is {home}, and there is no bin/java in it; Spark needs Java 17")
    if not home and shutil.which("java") is None:
        raise JobFailed(
            "there is no Java; install Java 17 or set JAVA_HOME to where it is (Spark runs on it)"
        )


def _sentence(error: Exception) -> str | None:
    """None for what is neither the pipeline's nor Spark's."""
    if isinstance(error, PipelineError):
        return str(error)
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JJavaError):
        return f"Spark failed: {_shortened(_root_cause(error))}; {_SEE_MORE}"
    if isinstance(error, Py4JError | ConnectionError):
        return (
            "Spark ended before its work was done, perhaps for want of memory (--memory 4g gives it"
            f" more); {_SEE_MORE}"
        )
    if isinstance(error, PySparkException):
        if error.getCondition() == "JAVA_GATEWAY_EXITED":
            return "Spark did not start; it needs Java 17 or newer, see `java -version`"
        return f"Spark failed: {_shortened(str(error))}; {_SEE_MORE}"
    return None


def _root_cause(error: Any) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString())


def _shortened(message: str) -> str:
    """Without the plan and the stack that follow the message proper."""
    text = one_line(message.split("JVM stacktrace:")[0].split(";\n")[0])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
