"""Checks as columns: null, or the reason a row is bad.

Lines are judged by themselves and by the manifest of the segment they are in. An event of a type
this version does not know is fine: it is kept with its whole line.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from routebook.journal.record import VERSION, event_types

MANIFEST_VERSION = 1
EARLIEST_MS = 946_684_800_000  # 2000-01-01: a clock before it was never set
LATEST_MS = 4_102_444_800_000  # 2100-01-01
DAY_MS = 86_400_000

_NEEDED = ("v", "seq", "node", "type", "wall_ms")
_OF_A_MANIFEST = (
    "node",
    "first_seq",
    "last_seq",
    "records",
    "first_wall_ms",
    "last_wall_ms",
    "min_wall_ms",
    "max_wall_ms",
    "packed_bytes",
    "sha256",
    "first_hash",
    "last_hash",
    "sealed_at_ms",
)


def line_problem(line: Column, manifest: Column, *, now_ms: int) -> Column:
    """What is wrong with ``line``, a LINE, in the segment of which ``manifest`` tells.

    A time in the future is none that can be told about: tables go up to the last record, and one
    of the year 2090 would have all brokers up until then.
    """
    corrupt, version, kind = line["_corrupt"], line["v"], line["type"]
    problem = F.when(
        line.isNull() | (corrupt.isNotNull() & version.isNull() & kind.isNull()),
        "not a JSON object",
    ).when(version > VERSION, _newer("schema", version, VERSION))
    for name in _NEEDED:
        problem = problem.when(line[name].isNull(), f"no {name}")
    return (
        problem.when(corrupt.isNotNull() & is_known(kind), "a member is not of its type")
        .when(line["data"].isNull(), "no data")
        .when(
            line["node"] != manifest["node"],
            F.concat(
                F.lit("of node "),
                line["node"],
                F.lit(" in the journal of node "),
                manifest["node"],
            ),
        )
        .when(
            ~line["seq"].between(manifest["first_seq"], manifest["last_seq"]),
            "seq is not one of those its manifest names",
        )
        .when(line["wall_ms"] < EARLIEST_MS, "time before the year 2000")
        .when(line["wall_ms"] > now_ms + DAY_MS, "time more than a day in the future")
    )


def manifest_problem(manifest: Column, stem: Column) -> Column:
    """What is wrong with a MANIFEST whose file is named ``stem``."""
    corrupt, version = manifest["_corrupt"], manifest["v"]
    named = F.format_string(
        "%012d-%012d", manifest["first_seq"].cast("long"), manifest["last_seq"].cast("long")
    )
    problem = F.when(
        manifest.isNull() | (corrupt.isNotNull() & version.isNull()), "its manifest is not JSON"
    ).when(version > MANIFEST_VERSION, _newer("manifest", version, MANIFEST_VERSION))
    for name in ("v", *_OF_A_MANIFEST):
        problem = problem.when(manifest[name].isNull(), f"its manifest says no {name}")
    return problem.when(named != stem, F.concat(F.lit("its manifest is about the records "), named))


def is_known(kind: Column) -> Column:
    """Whether this version knows events of the type ``kind``."""
    return kind.isin(*event_types())


def _newer(what: str, found: Column, known: int) -> Column:
    return F.concat(
        F.lit(f"{what} version "), found.cast("string"), F.lit(f"; this reader knows {known}")
    )
