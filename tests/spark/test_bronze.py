"""Lines become events or go to quarantine, and segments are planned."""

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from routebook.events import JournalRecovered, RecordsLost
from routebook_spark import schemas
from routebook_spark.bronze.gaps import (
    KILLED,
    LOST,
    MISSING,
    Gap,
    Hole,
    Span,
    gaps_of,
    holes_between,
    holes_inside,
    told_losses,
)
from routebook_spark.bronze.records import compared, counted, events_of, lines_of, quarantine_of
from routebook_spark.bronze.segments import Segment, manifests_of, plan
from routebook_spark.witnesses import Witness
from support.journals import NOON_MS, chained, every_event, record
from support.spark_histories import events_frame
from support.spark_journals import altered, chain, records
from support.spark_rows import at

NODE = "ns-1"
WHO = Witness("default", NODE, "")
SEALED_MS = NOON_MS + 1_000_000
DAY_MS = 86_400_000
GOOD = chain(records(NODE, 1, 1))[0]

BAD_LINES = {
    "no-json": (b"not json\n", "not a JSON object"),
    "half": (GOOD[:60], "not a JSON object"),
    "blank": (b"\n", "not a JSON object"),
    "list": (b"[1, 2]\n", "not a JSON object"),
    "newer": (altered(GOOD, v=2, seq={"high": 1}), "schema version 2; this reader knows 1"),
    "no-version": (altered(GOOD, v=None), "no v"),
    "no-seq": (altered(GOOD, seq=None), "no seq"),
    "seq-no-number": (altered(GOOD, seq="one"), "no seq"),
    "no-node": (altered(GOOD, node=None), "no node"),
    "no-type": (altered(GOOD, type=None), "no type"),
    "no-time": (altered(GOOD, wall_ms=None), "no wall_ms"),
    "no-data": (altered(GOOD, data=None), "no data"),
    "wrong-member": (
        altered(GOOD, data={"revision": "seven", "cause": "admin", "peer": ""}),
        "a member is not of its type",
    ),
    "other-node": (altered(GOOD, node="ns-2"), "of node ns-2 in the journal of node ns-1"),
    "before-the-first": (altered(GOOD, seq=0), "seq is not one of those its manifest names"),
    "after-the-last": (altered(GOOD, seq=101), "seq is not one of those its manifest names"),
    "clock-not-set": (altered(GOOD, wall_ms=1000), "time before the year 2000"),
    "far-future": (
        altered(GOOD, wall_ms=SEALED_MS + DAY_MS + 1),
        "time more than a day in the future",
    ),
    "absurd": (altered(GOOD, wall_ms=10**17), "time more than a day in the future"),
}
GOOD_LINES = {
    "good": GOOD,
    "a-day-ahead": altered(GOOD, wall_ms=SEALED_MS + DAY_MS),
    "a-member-more": altered(GOOD, colour="green"),
    "unknown-type": altered(GOOD, type="BrokerPainted", data={"revision": "seven", "limit": {}}),
    "unknown-cause": altered(GOOD, data={"revision": 1, "cause": "whim", "peer": ""}),
}


def lines_frame(
    spark: SparkSession, lines: list[tuple[str, bytes]], *, now_ms: int = SEALED_MS
) -> DataFrame:
    """Lines in files of these names, in segments of records 1 to 100."""
    texts = spark.createDataFrame(
        [(name, line.decode().rstrip("\n")) for name, line in lines], "uri string, value string"
    )
    files = sorted({name for name, _ in lines})
    segments = spark.createDataFrame(
        [(f, f, f, *WHO, 1, 100, SEALED_MS + n) for n, f in enumerate(files)],
        "uri string, path string, segment string, fleet string, node string,"
        " incarnation string, first_seq bigint, last_seq bigint, sealed_at_ms bigint",
    )
    return lines_of(texts, segments, now_ms=now_ms)


def test_every_event_has_its_values_in_typed_columns(spark: SparkSession) -> None:
    written = [replace(record(seq, event), node=NODE) for seq, event in enumerate(every_event(), 1)]
    texts = [("a", line) for line in chained(written)]

    events = events_of(lines_frame(spark, texts)).drop("segment")

    expected = events_frame(spark, written).drop("segment")
    assert events.schema.simpleString() == expected.schema.simpleString()
    found = {row.seq: row for row in events.collect()}
    for row in expected.collect():
        assert found[row.seq] == row, row.type
    assert len(found) == len(written)
    assert found[3].data.changes[0].topics == ["orders", "refunds"]
    assert found[5].data.topic_count == 3
    assert [tuple(query) for query in found[13].data.queries] == [
        ("orders", 20, 0, 1),
        ("typo", 0, 3, 0),
    ]
    assert json.loads(found[6].data.after) == {"zone": "z2", "filter_servers": []}


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> dict[str, Any]:
    cases = {**{name: line for name, (line, _) in BAD_LINES.items()}, **GOOD_LINES}
    lines = lines_frame(spark, list(cases.items()))
    return {
        "problems": {row.uri: row.problem for row in lines.collect()},
        "events": {row.segment: row for row in events_of(lines).collect()},
        "quarantine": {row.segment: row for row in quarantine_of(lines, at(0)).collect()},
    }


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_says_why_it_is_bad(case: str, judged: dict[str, Any]) -> None:
    assert judged["problems"][case] == BAD_LINES[case][1]


def test_bad_lines_are_quarantined_as_they_are_and_others_are_events(
    judged: dict[str, Any],
) -> None:
    assert judged["quarantine"].keys() == BAD_LINES.keys()
    assert judged["events"].keys() == GOOD_LINES.keys()
    for name, (line, reason) in BAD_LINES.items():
        row = judged["quarantine"][name]
        assert (row.raw, row.reason) == (line.decode().rstrip("\n"), reason)
    assert judged["quarantine"]["other-node"].node == "ns-2"
    assert judged["quarantine"]["no-json"].node == NODE
    assert judged["quarantine"]["far-future"].seq == 1


def test_an_event_of_an_unknown_type_keeps_its_line(judged: dict[str, Any]) -> None:
    unknown = judged["events"]["unknown-type"]
    assert unknown.type == "BrokerPainted"
    assert json.loads(unknown.raw)["data"] == {"revision": "seven", "limit": {}}
    assert judged["events"]["good"].raw is None


def test_the_same_record_is_kept_once_and_another_of_its_number_is_refused(
    spark: SparkSession,
) -> None:
    ours = chain(records(NODE, 1, 6))
    theirs = chain(records(NODE, 1, 6, wall_ms=NOON_MS + 5))
    known = events_of(lines_frame(spark, [("known", line) for line in ours[:2]]))
    lines = lines_frame(
        spark,
        [
            *(("mine", line) for line in ours[:4]),  # 1 and 2 are known
            *(("same", line) for line in ours[2:5]),  # 3 and 4 are in mine, sealed before
            *(("twin", line) for line in [theirs[0], theirs[3], theirs[5]]),  # 6 is nobody's
            ("twin", b"not json\n"),
        ],
    )

    judged = compared(lines, known)

    assert sorted((row.seq, row.segment) for row in events_of(judged).collect()) == [
        (3, "mine"),
        (4, "mine"),
        (5, "same"),
        (6, "twin"),
    ]
    reasons = {row.seq: row.reason for row in quarantine_of(judged, at(0)).collect()}
    assert reasons == {
        1: "node id used twice: known has another record of this number",
        4: "node id used twice: mine has another record of this number",
        None: "not a JSON object",
    }
    again = counted(judged).where("again").groupBy().agg(F.sum("lines")).collect()
    assert again[0][0] == 4


def test_manifests_that_cannot_be_used_say_why(spark: SparkSession) -> None:
    good = _manifest()
    cases = {
        "good": json.dumps(good, indent=2),
        "cut": json.dumps(good)[:50],
        "newer": json.dumps(good | {"v": 2, "records": "many"}),
        "older": json.dumps({k: v for k, v in good.items() if k != "sha256"}),
        "other": json.dumps(good | {"last_seq": 11}),
    }
    rows = [
        (f"file:/{case}/000000000001-000000000010.manifest.json", t) for case, t in cases.items()
    ]
    found = manifests_of(spark.createDataFrame(rows, "uri string, value string")).collect()
    assert {row.uri.split("/")[1]: row.problem for row in found} == {
        "good": None,
        "cut": "its manifest is not JSON",
        "newer": "manifest version 2; this reader knows 1",
        "older": "its manifest says no sha256",
        "other": "its manifest is about the records 000000000001-000000000011",
    }


def _manifest() -> dict[str, Any]:
    names = [name for name in schemas.MANIFEST.names if name != "_corrupt"]
    texts = {
        "node": NODE,
        "sha256": "a",
        "previous_sha256": "",
        "first_hash": "b",
        "last_hash": "c",
    }
    return dict.fromkeys(names, 1) | texts | {"last_seq": 10}


# -- plans


def segment(first_seq: int, last_seq: int, folder: str = "a", **others: Any) -> Segment:
    said: dict[str, Any] = {
        "path": f"/{folder}/{first_seq:012d}-{last_seq:012d}.jsonl.gz",
        "node": NODE,
        "first_seq": first_seq,
        "last_seq": last_seq,
        "records": last_seq - first_seq + 1,
        "first_wall_ms": NOON_MS + first_seq,
        "last_wall_ms": NOON_MS + last_seq,
        "min_wall_ms": NOON_MS + first_seq,
        "max_wall_ms": NOON_MS + last_seq,
        "first_hash": f"after {first_seq - 1}",
        "last_hash": f"after {last_seq}",
        "sha256": f"{first_seq} to {last_seq}",
        "sealed_at_ms": NOON_MS,
        "packed_bytes": 100,
    }
    return Segment(**said | others)


def test_segments_that_follow_each_other_are_fresh() -> None:
    first, second, late = segment(1, 10), segment(11, 20), segment(41, 50)
    planned = plan([late, second], [first], now_ms=NOON_MS)
    assert set(planned.fresh) == {second, late}
    assert (planned.overlapping, planned.copies, planned.remarks) == ((), (), {})


def test_the_same_segment_in_another_folder_is_a_copy_known_or_not() -> None:
    taken, other = segment(1, 10), segment(11, 20)
    copy, twin = segment(1, 10, "b"), segment(11, 20, "b")
    planned = plan([twin, copy, other], [taken], now_ms=NOON_MS)
    assert planned.fresh == (other,)
    assert planned.copies == ((copy, taken), (twin, other))


def test_segments_that_share_numbers_are_compared() -> None:
    taken = segment(1, 10)
    shared, apart = segment(10, 20, "b"), segment(1, 20, "b", node="ns-2")
    planned = plan([shared, apart], [taken], now_ms=NOON_MS)
    assert planned.fresh == (apart,)
    assert planned.overlapping == (shared,)
    assert planned.overlapped == (taken,)


def test_new_segments_that_share_numbers_with_each_other_are_compared() -> None:
    one, other = segment(1, 10, "b"), segment(5, 20, "b")
    planned = plan([one, other], [], now_ms=NOON_MS)
    assert set(planned.overlapping) == set(planned.overlapped) == {one, other}


@pytest.mark.parametrize(
    ("taken", "found", "said"),
    [
        (segment(1, 10), segment(11, 20, first_hash="else"), "does not follow /a/000000000001-"),
        (segment(11, 20), segment(1, 10, last_hash="else"), "is not what /a/000000000011-"),
    ],
    ids=["before", "after"],
)
def test_a_neighbour_that_does_not_fit_shows_a_node_id_used_twice(
    taken: Segment, found: Segment, said: str
) -> None:
    planned = plan([found], [taken], now_ms=NOON_MS)
    assert planned.fresh == (found,)
    remark = planned.remarks[found.path]
    assert remark.startswith(said)
    assert "the node id ns-1 is used twice" in remark


def test_a_segment_sealed_in_the_future_has_a_remark() -> None:
    found = segment(1, 10, sealed_at_ms=NOON_MS + 400 * DAY_MS)
    assert plan([found], [], now_ms=NOON_MS).remarks == {
        found.path: "the clock of node ns-1 was 400 days ahead of this machine's when it was sealed"
    }


# -- gaps


def span(first_seq: int, last_seq: int, node: str = NODE) -> Span:
    return Span(WHO._replace(node=node), first_seq, last_seq, first_seq * 1000, last_seq * 1000)


def test_holes_are_between_segments_of_one_node_however_they_overlap() -> None:
    spans = [span(41, 50), span(5, 30), span(1, 40), span(61, 70), span(7, 9, "ns-2")]
    assert list(holes_between(spans)) == [Hole(*WHO, 50, 61, 50_000, 61_000)]


def test_a_leap_after_a_kill_is_explained_and_what_else_is_missing_is_not() -> None:
    holes = [
        Hole(*WHO, 10, 100, 1, 2),  # the whole leap
        Hole(*WHO, 110, 200, 3, 4),  # and two segments before it
        Hole(*WHO, 210, 220, 5, 6),
    ]
    losses = [
        Gap(*WHO, 10, 100, None, KILLED, None, 2),
        Gap(*WHO, 130, 200, None, KILLED, None, 4),
        Gap(*WHO, 204, 205, 7, LOST, 8, 9),
    ]
    assert gaps_of(holes, losses) == [
        Gap(*WHO, 10, 100, None, KILLED, 1, 2),
        Gap(*WHO, 130, 200, None, KILLED, 3, 4),
        Gap(*WHO, 110, 200, 20, MISSING, 3, 4),
        Gap(*WHO, 204, 205, 7, LOST, 8, 9),
        Gap(*WHO, 210, 220, 9, MISSING, 5, 6),
    ]


def test_events_tell_of_losses_and_of_numbers_left_out(spark: SparkSession) -> None:
    kept = [one for one in records(NODE, 1, 12) if one.seq not in (1, 4, 5, 12)]
    kept[0] = replace(kept[0], event=_event(JournalRecovered))
    kept[-1] = replace(kept[-1], event=_event(RecordsLost))
    events = events_frame(spark, kept)
    spans = spark.createDataFrame(
        [(*WHO, 1, 8), (*WHO, 9, 12)],
        "fleet string, node string, incarnation string, first_seq bigint, last_seq bigint",
    )

    def ms(seq: int) -> int:
        return NOON_MS + seq * 1000

    assert sorted(Hole(*row) for row in holes_inside(spans, events).collect()) == [
        Hole(*WHO, 0, 2, ms(2), ms(2)),
        Hole(*WHO, 3, 6, ms(3), ms(6)),
        Hole(*WHO, 11, 13, ms(11), ms(11)),
    ]
    assert [Gap(*row) for row in told_losses(events).orderBy("seq").collect()] == [
        Gap(*WHO, 16, 2, None, KILLED, None, ms(2)),
        Gap(*WHO, 10, 11, 5, LOST, NOON_MS, ms(11)),
    ]


def _event(kind: type) -> Any:
    return next(event for event in every_event() if isinstance(event, kind))
