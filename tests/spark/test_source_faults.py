"""What is wrong with one folder of journals stays with it, and is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from routebook.journal.folder import ACTIVE
from routebook_spark.source.offsets import place_in
from support.journals import NODE, chained, lay, opened, record, span_of, topics_changed, written
from support.waiting import wait_for
from support.watch_streams import ALL, notes, reached, rows_of, stream_of, taken


def cut_off(folder: Path) -> str:
    packed = folder / "000000000006-000000000010.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    return f"{packed} is cut off"


def damaged(folder: Path) -> str:
    packed = folder / "000000000006-000000000010.jsonl.gz"
    content = bytearray(packed.read_bytes())
    content[20:24] = b"\0\xff\0\xff"
    packed.write_bytes(bytes(content))
    return f"{packed} cannot be read after line"


def without_its_segment(folder: Path) -> str:
    (folder / "000000000006-000000000010.jsonl.gz").unlink()
    return "000000000006-000000000010.jsonl.gz is missing"


def without_its_manifest(folder: Path) -> str:
    (folder / "000000000006-000000000010.manifest.json").unlink()
    return "000000000006-000000000010.manifest.json is missing"


def with_half_a_manifest(folder: Path) -> str:
    manifest = folder / "000000000006-000000000010.manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:50])
    return f"{folder}: {manifest.name} cannot be understood"


def with_a_folder_for_a_file(folder: Path) -> str:
    (folder / ACTIVE).unlink()
    (folder / ACTIVE).mkdir()
    return f"cannot read {folder / ACTIVE}: Is a directory"


def of_a_newer_schema(folder: Path) -> str:
    lines = [line.replace(b'"v":1', b'"v":2') for line in chained(span_of(11, 12))]
    (folder / ACTIVE).write_bytes(b"".join(lines))
    return f"{folder / ACTIVE} line 1 is of schema version 2"


def of_a_newer_schema_that_cannot_be_placed(folder: Path) -> str:
    (folder / ACTIVE).write_bytes(b'{"v":7,"number":11}\n')
    return f"{folder / ACTIVE} line 1 is of schema version 7"


def closed_and_cut_off(folder: Path) -> str:
    closed = folder / "000000000011-000000000012.jsonl"
    closed.write_bytes((folder / ACTIVE).read_bytes()[:-30])
    (folder / ACTIVE).unlink()
    return f"{closed} is cut off after line 1"


def gone(folder: Path) -> str:
    shutil.rmtree(folder)
    return f"the folder {folder} is gone"


def a_file(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.write_text("")
    return f"the folder {folder} is gone"


def a_link_to_itself(folder: Path) -> str:
    shutil.rmtree(folder)
    folder.symlink_to(folder)
    return f"the folder {folder} is gone"


def an_older_copy(folder: Path) -> str:
    for path in (folder / ACTIVE, *folder.glob("000000000006*")):
        path.unlink()
    return f"the journal {folder} ends with record 5, and 7 had been read"


FAULTS = [
    cut_off,
    damaged,
    without_its_segment,
    without_its_manifest,
    with_half_a_manifest,
    with_a_folder_for_a_file,
    of_a_newer_schema,
    of_a_newer_schema_that_cannot_be_placed,
    closed_and_cut_off,
    gone,
    a_file,
    a_link_to_itself,
    an_older_copy,
]


@pytest.mark.parametrize("happens", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_of_one_folder_is_told_and_stays_with_it(
    tmp_path: Path, happens: Callable[[Path], str]
) -> None:
    """The other folder is followed, the fault is told once, and once when it is over."""
    root, kept = tmp_path / "journals", tmp_path / "kept"
    root.mkdir()
    bad, good = root / "ns-1", root / "ns-2"
    lay(bad, span_of(1, 5), span_of(6, 10), active=span_of(11, 12))
    shutil.copytree(bad, kept)
    lay(good, active=span_of(1, 3))
    start = {"ns-1": 7, "ns-2": 3}
    lay(good, active=span_of(1, 4))
    reason = happens(bad)
    stream = stream_of(root, on_fault="tell")
    stream.prepareForTriggerAvailableNow()  # nothing is waited for
    [(kind, node, said)] = notes(stream, start)
    assert kind == "JournalUnreadable"
    assert node in (NODE, "ns-1")  # as far as anything says whose it is
    assert said is not None
    assert reason in said
    seqs, told = taken(stream, start)
    assert reached(told)["ns-2"] == 4
    assert 4 in seqs
    assert notes(stream, told) == []  # it is known
    assert stream.latestOffset(told, ALL) == told
    if bad.is_dir():
        shutil.rmtree(bad)
    else:
        bad.unlink(missing_ok=True)
    shutil.copytree(kept, bad)
    again = stream_of(root, on_fault="tell")
    assert notes(again, told) == [("JournalReadable", node, None)]
    rest, end = taken(again, told)
    assert [*[seq for seq in seqs if seq > 7], *rest][-1] == 12
    assert reached(end) == {"ns-1": 12, "ns-2": 4}


def test_what_was_planned_and_is_gone_ends_no_stream(tmp_path: Path) -> None:
    lay(tmp_path / "ns-1", span_of(1, 5), active=span_of(6, 7))
    lay(tmp_path / "ns-2", active=span_of(1, 3))
    stream = stream_of(tmp_path, on_fault="tell")
    end = stream.latestOffset({}, ALL)
    shutil.rmtree(tmp_path / "ns-1")
    for again in (stream, stream_of(tmp_path, on_fault="tell")):
        parts = again.partitions({}, end)
        assert [row["seq"] for part in parts for row in rows_of(again.read(part))] == [1, 2, 3]


def test_what_retention_removed_is_passed_over_where_faults_are_told(tmp_path: Path) -> None:
    with opened(tmp_path, rotate_records=5, retain_bytes=1) as writer:
        for number in range(1, 30):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        wait_for("retention", lambda: (tmp_path / "removed.json").exists())
        assert taken(stream_of(tmp_path, on_fault="tell"), {".": 2})[0][-1] == 29


def test_a_disk_that_was_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "ns-1"
    with opened(folder) as writer:
        for number in range(1, 10):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        stream = stream_of(tmp_path, on_fault="tell")
        before, start = taken(stream, {})
    shutil.rmtree(folder)
    with opened(folder) as writer:
        for number in range(1, 4):
            assert writer.append(topics_changed(f"t{number}")) is not None
        written(writer)
        end = stream.latestOffset(start, ALL)
        rows = [row for part in stream.partitions(start, end) for row in rows_of(stream.read(part))]
    assert before == list(range(1, 10))
    assert [row["seq"] for row in rows] == [1, 2, 3]
    lives = {place_in(start, "ns-1").incarnation, *(row["incarnation"] for row in rows)}
    assert len(lives) == 2


def test_a_replaced_journal_without_an_identity_is_known_by_its_first_line(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 9))
    stream = stream_of(tmp_path, on_fault="tell")
    _, start = taken(stream, {})
    (tmp_path / ACTIVE).write_bytes(b"".join(chained([record(1, topics_changed("new"))])))
    assert taken(stream, start)[0] == [1]


def test_an_identity_that_comes_after_its_segments_is_no_other_journal(tmp_path: Path) -> None:
    lay(tmp_path, active=span_of(1, 9))
    stream = stream_of(tmp_path, on_fault="tell")
    _, start = taken(stream, {})
    identity = b'{"v":1,"node":"ns-1","fleet":"shop","incarnation":"9f86d081884c7d65"}'
    (tmp_path / "identity.json").write_bytes(identity)
    assert taken(stream, start)[0] == []


@pytest.mark.parametrize(
    ("identity", "option", "fleet"),
    [("", "", "default"), ("shop", "", "shop"), ("shop", "mine", "mine"), ("", "mine", "mine")],
)
def test_rows_say_their_fleet(tmp_path: Path, identity: str, option: str, fleet: str) -> None:
    lay(tmp_path, active=span_of(1, 2))
    text = f'{{"v":1,"node":"ns-1","fleet":"{identity}","incarnation":"abc"}}'
    (tmp_path / "identity.json").write_text(text)
    stream = stream_of(tmp_path, **({"fleet": option} if option else {}))
    end = stream.latestOffset({}, ALL)
    rows = [row for part in stream.partitions({}, end) for row in rows_of(stream.read(part))]
    assert {(row["fleet"], row["incarnation"]) for row in rows} == {(fleet, "abc")}
