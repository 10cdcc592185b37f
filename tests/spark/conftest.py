"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from routebook_spark.session import QUIET, build_session
from routebook_spark.tables import Lake
from support.made_tables import AtOnce, InSteps, made_at_once, made_in_steps
from support.real_and_generated import Journals, real_and_generated
from support.small_spark import JAVA, PATIENT, SETTINGS

ROOT = Path(__file__).parents[2]
PATIENCE_S = 3000  # for a test with what is made for the others of its module, on busy cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = build_session(
        "pipeline-tests",
        master="local[2]",
        memory="1g",
        settings={
            **SETTINGS,
            **PATIENT,
            "spark.executorEnv.PYTHONPATH": str(ROOT),  # the generator of benchmarks
            "spark.driver.extraJavaOptions": f"{QUIET} {JAVA} -Xms1g",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.ui.showConsoleProgress": "false",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """Tables of one test."""
    return Lake(spark, str(tmp_path / "tables"))


@pytest.fixture(scope="session")
def journals(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journals]:
    """Of a generated fleet, and of one with real brokers."""
    with real_and_generated(spark, tmp_path_factory.mktemp("fleets")) as made:
        yield made


@pytest.fixture(scope="session")
def in_steps(
    spark: SparkSession, journals: Journals, tmp_path_factory: pytest.TempPathFactory
) -> InSteps:
    """Tables that tests only read, made by ``ingest`` and several times ``build``."""
    return made_in_steps(spark, journals, tmp_path_factory.mktemp("in-steps"))


@pytest.fixture(scope="session")
def at_once(
    spark: SparkSession, in_steps: InSteps, tmp_path_factory: pytest.TempPathFactory
) -> AtOnce:
    """The same tables, made by a cluster."""
    return made_at_once(spark, in_steps, tmp_path_factory.mktemp("at-once"))
