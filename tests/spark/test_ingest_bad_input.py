"""Whatever is wrong with journals has a clear result or a clear error, and wrong events never."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from routebook_spark.bronze import checks
from routebook_spark.bronze.ingest import IngestResult, ingest
from routebook_spark.bronze.segments import known_segment
from routebook_spark.bronze.taking import Batch, Taker
from routebook_spark.commands.ingest import ingest as command
from routebook_spark.errors import TablesInUse
from routebook_spark.tables import EVENTS, GAPS, QUARANTINE, SEGMENTS, Lake
from support.journals import NOON_MS
from support.spark_journals import SPOILT, altered, chain, manifest_of, records, write_segment
from support.spark_rows import at

DAY_MS = 86_400_000
TWICE = "node id used twice: 000000000001-000000000010 has another record of this number"
NEWER = "schema version 2; this reader knows 1"


@dataclass(frozen=True)
class World:
    """Journals with everything wrong with them, taken, mended a bit, and taken by a later version.

    ``quarantines`` are what was in quarantine after each.
    """

    lake: Lake
    runs: list[IngestResult]
    quarantines: list[list[Any]]
    seqs_of_lines: list[list[int]]


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("bad")
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    _broken_lines(folder)
    _twins(folder)
    _edited(folder)
    over = chain(records("ns-over", 1, 15))
    write_segment(folder / "over", over[:10])
    write_segment(folder / "over", over[5:], first_hash=json.loads(over[4])["hash"])
    write_segment(folder / "count", chain(records("ns-count", 1, 10)), records=12)
    write_segment(folder / "newer", chain(records("ns-newer", 1, 10)), v=2)
    cut = write_segment(folder / "cut", chain(records("ns-cut", 1, 10)))
    whole = manifest_of(cut).read_text()
    manifest_of(cut).write_text(whole[:80])
    damaged = write_segment(folder / "damaged", chain(records("ns-damaged", 1, 10)))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    manifest_of(write_segment(folder / "lonely", chain(records("ns-lonely", 1, 10)))).unlink()
    ahead_ms = NOON_MS + 20_000 * DAY_MS
    write_segment(folder / "ahead", chain(records("ns-ahead", 1, 10, wall_ms=ahead_ms)))
    (folder / "only-active").mkdir()
    (folder / "only-active" / "active.jsonl").write_bytes(chain(records("ns-active", 1, 3))[0])

    runs: list[IngestResult] = []
    quarantines: list[list[Any]] = []
    seqs_of_lines: list[list[int]] = []

    def run() -> None:
        runs.append(ingest(lake, [str(folder)]))
        quarantines.append(lake.read(QUARANTINE).collect())
        seqs_of_lines.append(seqs(lake, "ns-lines"))

    run()
    manifest_of(cut).write_text(whole)
    run()
    lake.delta(SEGMENTS).update("path LIKE '%/lines/%'", {"status": "'waiting'"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "VERSION", 2)
        run()
    return World(lake, runs, quarantines, seqs_of_lines)


def _broken_lines(folder: Path) -> None:
    lines = chain(records("ns-lines", 1, 10))
    bad = [SPOILT + b"\n", altered(lines[4], v=2), altered(lines[5], v=2)]
    painted = altered(lines[7], type="BrokerPainted")
    write_segment(folder / "lines", [*lines[:4], lines[6], painted, *lines[8:]], bad=bad)


def _twins(folder: Path) -> None:
    ours = chain(records("ns-twin", 1, 10))
    theirs = chain(records("ns-twin", 1, 20, wall_ms=NOON_MS + DAY_MS))
    write_segment(folder / "twin-a", ours)
    write_segment(folder / "twin-b", theirs[:10])
    write_segment(folder / "twin-b", theirs[10:], first_hash=json.loads(theirs[9])["hash"])


def _edited(folder: Path) -> None:
    lines = chain(records("ns-edited", 1, 12))
    changed = altered(lines[9], wall_ms=NOON_MS + 10_500, hash="0" * 64)
    write_segment(folder / "edited-a", lines[:10])
    write_segment(folder / "edited-b", [changed, *lines[10:]])


def seqs(lake: Lake, node: str) -> list[int]:
    rows = lake.read(EVENTS).where(f"node = '{node}'").select("seq").collect()
    return sorted(row.seq for row in rows)


def row_of(world: World, folder: str, seq: int = 1) -> Any:
    found = world.lake.read(SEGMENTS).where(f"path LIKE '%/{folder}/%{seq:06d}-%'").collect()
    assert len(found) == 1, found
    return found[0]


def of_lines(rows: list[Any]) -> list[tuple[int, str]]:
    return sorted((row.seq or 0, row.reason) for row in rows if row.node == "ns-lines")


def test_bad_lines_and_newer_ones_are_in_quarantine_and_the_rest_is_taken(world: World) -> None:
    assert world.seqs_of_lines[0] == [1, 2, 3, 4, 7, 8, 9, 10]
    assert of_lines(world.quarantines[0]) == [(0, "not a JSON object"), (5, NEWER), (6, NEWER)]
    raw = [row.raw for row in world.quarantines[0] if row.reason == "not a JSON object"]
    assert raw == [SPOILT.decode()]
    assert world.runs[0].quarantined[NEWER] == 2


def test_records_in_quarantine_are_a_gap(world: World) -> None:
    assert world.runs[0].gaps == {"missing": 2}


def test_a_later_version_takes_what_it_can_read_of_a_segment_that_is_to_be_taken_again(
    world: World,
) -> None:
    assert world.seqs_of_lines[1:] == [[1, 2, 3, 4, 7, 8, 9, 10], list(range(1, 11))]
    third = world.runs[2]
    assert (third.segments, third.events, third.duplicates) == (1, 2, 8)
    assert of_lines(world.quarantines[2]) == [(0, "not a JSON object")]
    assert row_of(world, "lines").quarantined == 1
    assert [row.node for row in world.lake.read(GAPS).collect()] == ["ns-ahead"]


def test_an_event_of_an_unknown_type_is_kept_whole(world: World) -> None:
    rows = world.lake.read(EVENTS).where("type = 'BrokerPainted'").collect()
    assert [json.loads(row.raw)["type"] for row in rows] == ["BrokerPainted"]


def test_two_journals_of_one_name_are_two_witnesses(world: World) -> None:
    rows = world.lake.read(EVENTS).where("node = 'ns-twin'").collect()
    later = f"unsaid-{NOON_MS + DAY_MS + 1000}"
    assert sorted((row.incarnation, row.seq, row.wall_ms >= NOON_MS + DAY_MS) for row in rows) == [
        *(("", seq, False) for seq in range(1, 11)),
        *((later, seq, True) for seq in range(1, 21)),
    ]
    assert not [row for row in world.quarantines[0] if row.node == "ns-twin"]
    assert any("another journal of node ns-twin" in remark for remark in world.runs[0].remarks)


def test_another_record_of_a_number_in_one_journal_is_in_quarantine(world: World) -> None:
    rows = world.lake.read(EVENTS).where("node = 'ns-edited'").orderBy("seq").collect()
    assert [(row.seq, row.wall_ms) for row in rows] == [
        (seq, NOON_MS + seq * 1000) for seq in range(1, 13)
    ]
    assert world.runs[0].quarantined[TWICE] == 1


def test_records_that_are_in_two_segments_are_taken_once(world: World) -> None:
    assert seqs(world.lake, "ns-over") == list(range(1, 16))
    assert world.runs[0].duplicates == 5


def test_a_segment_with_other_than_its_number_of_records_is_reported(world: World) -> None:
    assert seqs(world.lake, "ns-count") == list(range(1, 11))
    assert world.runs[0].quarantined["10 records; its manifest says 12"] == 1


def of_manifests(rows: list[Any]) -> list[tuple[str, str]]:
    return sorted((row.reason, row.raw[:1]) for row in rows if row.node is None)


def test_a_manifest_that_cannot_be_understood_is_kept_with_the_reason(world: World) -> None:
    assert of_manifests(world.quarantines[0]) == [
        ("its manifest is not JSON", "{"),
        ("manifest version 2; this reader knows 1", "{"),
    ]
    assert row_of(world, "newer").status == "refused"
    assert seqs(world.lake, "ns-newer") == []


def test_a_manifest_that_is_mended_is_no_longer_in_quarantine(world: World) -> None:
    assert world.runs[1].segments == 1
    assert seqs(world.lake, "ns-cut") == list(range(1, 11))
    assert of_manifests(world.quarantines[1]) == [("manifest version 2; this reader knows 1", "{")]


def test_a_damaged_segment_waits_and_says_so(world: World) -> None:
    reason = "damaged: its sha256 is not the one its manifest names"
    assert row_of(world, "damaged").reason == reason
    assert reason in world.runs[1].waiting.values()
    assert seqs(world.lake, "ns-damaged") == []


def test_a_packed_file_without_a_manifest_is_mentioned(world: World) -> None:
    said = [remark for remark in world.runs[0].remarks if "no manifest" in remark]
    assert len(said) == 1
    assert "/lonely/" in said[0]


def test_records_of_a_clock_that_is_years_ahead_are_in_quarantine_with_a_remark(
    world: World,
) -> None:
    assert seqs(world.lake, "ns-ahead") == []
    assert world.runs[0].quarantined["time more than a day in the future"] == 10
    assert "ahead of this machine's when it was sealed" in row_of(world, "ahead").reason


def test_a_batch_that_somebody_else_has_taken_is_not_taken(world: World) -> None:
    count = world.lake.read(EVENTS).count()
    segment = known_segment(row_of(world, "count"))
    with pytest.raises(TablesInUse):
        Taker(world.lake).take(Batch(1, "another run", at(0), (segment,)))
    assert world.lake.read(EVENTS).count() == count


# -- on the command line


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Any:
    def invoke(*args: str) -> Result:
        return CliRunner().invoke(command, [*args, "--tables", str(tmp_path / "tables")])

    return invoke


def test_a_folder_that_is_not_there_is_an_error_that_says_what_to_give(
    run: Any, tmp_path: Path
) -> None:
    result = run(str(tmp_path / "nowhere"))
    assert result.exit_code == 1
    assert f"there is no folder {tmp_path}/nowhere; name the journal folder" in result.output


def test_a_file_is_an_error_that_says_what_to_give(run: Any, tmp_path: Path) -> None:
    (tmp_path / "active.jsonl").touch()
    result = run(str(tmp_path / "active.jsonl"))
    assert result.exit_code == 1
    assert "is a file; name the folder it is in" in result.output


def test_folders_without_journals_are_a_clear_result(run: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run(str(tmp_path / "empty"), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["segments"] == told["events"] == 0
    assert told["remarks"] == ["there is no journal in these folders"]


def test_a_node_that_has_sealed_nothing_yet_is_a_clear_result(run: Any, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "active.jsonl").write_bytes(b"")
    result = run(str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    assert "no segment is sealed yet" in result.output
    assert "segments taken" in result.output


def test_an_interval_that_is_none_is_a_usage_error(run: Any, tmp_path: Path) -> None:
    result = run(str(tmp_path), "--every", "often")
    assert result.exit_code == 2
    assert "often is no time of a second or more, such as 30s or 5m" in result.output
