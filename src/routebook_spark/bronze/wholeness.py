"""Whether segments are whole: they are there, of the right length, and what their manifests say."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routebook_spark.bronze.folders import Files, literal
from routebook_spark.bronze.segments import Segment


def faults(spark: SparkSession, segments: Sequence[Segment]) -> dict[str, str]:
    """Why segments cannot be taken, by their paths; those that are not named are whole."""
    files = Files(spark)
    found = {each.path: _missing(files.length(each.path), each.packed_bytes) for each in segments}
    there = [each for each in segments if found[each.path] is None]
    digests = _digests(spark, [each.path for each in there])
    for each in there:
        if digests.get(files.uri_of(each.path)) != each.sha256:
            found[each.path] = "damaged: its sha256 is not the one its manifest names"
    return {path: reason for path, reason in found.items() if reason is not None}


def _missing(length: int | None, wanted: int) -> str | None:
    if length is None:
        return "missing: only its manifest is there"
    if length < wanted:
        return f"half-copied: {length} of {wanted} bytes are there"
    if length > wanted:
        return f"damaged: it has {length} bytes, and its manifest says {wanted}"
    return None


def _digests(spark: SparkSession, paths: Sequence[str]) -> dict[str, str]:
    """SHA-256 of files by what Spark calls them."""
    if not paths:
        return {}
    read = spark.read.format("binaryFile").load([literal(path) for path in paths])
    named = read.select(
        F.col("_metadata.file_path").alias("uri"), F.sha2("content", 256).alias("sha")
    )
    return {row.uri: row.sha for row in named.collect()}
