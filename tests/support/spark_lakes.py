"""Tables made from journals, for tests that ask them questions.

The functions of bronze and silver make the rows, all at once: ``ingest`` and ``build`` do the same
in more steps, which take a minute more and are tested elsewhere.
"""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routebook.journal.manifest import Manifest
from routebook.journal.reader import segments
from routebook_spark import schemas, tables
from routebook_spark.bronze.folders import Files
from routebook_spark.bronze.gap_table import bring_up_gaps
from routebook_spark.bronze.records import events_of, lines_of
from routebook_spark.schemas import DEFAULT_FLEET
from routebook_spark.silver.build import silver_of
from routebook_spark.tables import Lake
from support.spark_rows import frame


def build_lake(lake: Lake, journals: Path) -> Lake:
    """The tables that questions are asked, of all sealed segments in folders of ``journals``."""
    manifests = {
        folder / manifest.span.packed: manifest
        for folder in sorted(journals.iterdir())
        for manifest in segments(folder)
    }
    rows = [_segment(path, manifest) for path, manifest in manifests.items()]
    lake.replace(tables.SEGMENTS, frame(lake.spark, schemas.SEGMENTS, rows))
    lake.replace(tables.EVENTS, _events(lake, manifests))
    bring_up_gaps(lake)
    events = lake.read(tables.EVENTS).persist()  # asked for again and again, and few
    silver = silver_of(events, lake.read(tables.GAPS))
    lake.replace(tables.NODE_COVERAGE, silver.coverage)
    lake.replace(tables.BROKER_SESSIONS, silver.sessions)
    lake.replace(tables.SUSPECT_TIMES, silver.suspects)
    lake.replace(tables.ROUTE_VERSIONS, silver.versions)
    lake.replace(tables.CLOCK_SKEW, silver.skew)
    events.unpersist()
    return lake


def _segment(path: Path, manifest: Manifest) -> dict[str, Any]:
    names = ("node", "first_seq", "last_seq", "records", "first_hash", "last_hash")
    times = ("first_wall_ms", "last_wall_ms", "min_wall_ms", "max_wall_ms", "sealed_at_ms")
    told = {name: getattr(manifest, name) for name in (*names, *times)}
    told["fleet"], told["incarnation"] = manifest.fleet or DEFAULT_FLEET, manifest.incarnation
    return {**told, "path": str(path), "status": "taken", "quarantined": 0, "batch": 1}


def _events(lake: Lake, manifests: dict[Path, Manifest]) -> DataFrame:
    files = Files(lake.spark)
    found = [
        (
            files.qualified(str(path)),
            str(path),
            each.span.stem,
            each.fleet or DEFAULT_FLEET,
            each.node,
            each.incarnation,
            *each.span,
            each.sealed_at_ms,
        )
        for path, each in manifests.items()
    ]
    segments_found = lake.spark.createDataFrame(
        found,
        "uri STRING, path STRING, segment STRING, fleet STRING, node STRING,"
        " incarnation STRING, first_seq LONG, last_seq LONG,"
        " sealed_at_ms LONG",
    )
    texts = lake.spark.read.text([str(path) for path in manifests])
    named = texts.select(F.col("_metadata.file_path").alias("uri"), "value")
    last_ms = max(manifest.max_wall_ms for manifest in manifests.values())
    return events_of(lines_of(named, segments_found, now_ms=last_ms))
