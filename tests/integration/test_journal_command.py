"""``routebook journal`` on folders, running nodes' and others'."""

import gzip
import json
import re
import signal
from pathlib import Path

import pytest

from routebook.events import BrokerConflict, Cause, RequestRefused
from routebook.journal.folder import ACTIVE, Span
from routebook.journal.reader import read
from routebook.journal.record import decode
from support.fleet import Ran, run_program
from support.journals import (
    DAY_MS,
    NOON_MS,
    every_event,
    lay,
    numbered,
    opened,
    record,
    recovered,
    seqs,
    span_of,
    topics_changed,
    write_journal,
    written,
)
from support.programs import Program


def run(folder: Path, *words: str) -> Ran:
    return run_program("journal", *words, "--journal", str(folder))


def numbers(ran: Ran) -> list[int]:
    """Sequence numbers of the records shown."""
    if ran.stdout.startswith("{"):
        return [json.loads(line)["seq"] for line in ran.lines]
    return [int(line.split()[1]) for line in ran.lines]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records 1 to 9 in four files."""
    spans = span_of(1, 3), span_of(4, 5)
    return lay(tmp_path / "journal", *spans, closed=span_of(6, 7), active=span_of(8, 9))


# -- verify


def test_verify_says_that_a_journal_is_sound(folder: Path) -> None:
    ran = run(folder, "verify")
    assert (ran.exit_code, ran.lines) == (0, ["9 records in 4 segments, up to 9: sound"])
    (folder / "notes.txt").touch()
    ran = run(folder, "verify")
    assert ran.exit_code == 0
    assert ran.lines[0] == "remark notes.txt: is none of the journal's files"


def test_verify_says_what_is_wrong_and_where(folder: Path) -> None:
    active = folder / ACTIVE
    active.write_bytes(active.read_bytes().replace(b"key-9", b"key-0"))
    (folder / Span(4, 5).packed).unlink()
    ran = run(folder, "verify")
    assert ran.exit_code == 1
    assert ran.lines == [
        f"fault {Span(4, 5).packed}, record 4: is missing, and with it the records 4 to 5",
        "fault active.jsonl line 2, record 9: was changed, or a line before it: its hash does not"
        " fit",
        "7 records in 3 segments, up to 9: 2 faults",
    ]
    assert ran.stderr == f"Error: 2 faults found in {folder}\n"


def test_verify_for_programs(folder: Path) -> None:
    (folder / ACTIVE).write_bytes(b"")
    (folder / Span(4, 5).packed).unlink()
    ran = run(folder, "verify", "--json")
    assert ran.exit_code == 1
    assert ran.document == {
        "journal": str(folder),
        "sound": False,
        "being_written": False,
        "records": 5,
        "segments": 3,
        "last_seq": 7,
        "leaps": 0,
        "findings": [
            {
                "file": Span(4, 5).packed,
                "line": None,
                "seq": 4,
                "what": "is missing, and with it the records 4 to 5",
                "serious": True,
            }
        ],
    }


def test_verify_tells_of_kills_and_of_a_node_at_work(tmp_path: Path) -> None:
    lay(tmp_path, span_of(1, 3), [record(2**21, recovered(3))])
    with opened(tmp_path):
        ran = run(tmp_path, "verify")
    assert ran.lines == [
        "4 records in 2 segments, up to 2097152, 1 time not stopped in order, being written: sound"
    ]


@pytest.mark.parametrize("command", ["verify", "tail", "cat", "stats", "export out"])
def test_a_folder_that_cannot_be_read_is_told_in_a_sentence(tmp_path: Path, command: str) -> None:
    ran = run(tmp_path / "missing", *command.split())
    assert ran.exit_code == 1
    assert ran.stderr == (
        f"Error: cannot read the journal {tmp_path / 'missing'}: No such file or directory\n"
    )


COMMANDS = ["verify", "tail", "cat", "stats", "export out"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_without_a_journal_is_not_called_sound(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.mkdir()
    (other / "lock").mkdir(parents=True)  # as /var has
    (other / "journal").mkdir()
    (other / "journal" / "lock").write_text("1234\n")  # of another program
    (other / "journal" / "system.journal").touch()
    for folder in (empty, other, other / "journal"):
        ran = run(folder, *command.split())
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr.startswith(f"Error: there is no journal in {folder}; a node keeps it in")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "other"]


@pytest.mark.parametrize("command", ["verify", "tail", "cat", "stats", "export -"])
def test_the_journal_of_a_data_folder_is_found(folder: Path, command: str) -> None:
    data = folder.parent
    (data / "kvConfig.json").touch()

    ran = run(data, *command.split())

    assert (ran.exit_code, ran.stdout) == (0, run(folder, *command.split()).stdout)
    assert ran.stderr == f"Note: {data} is no journal; this is {folder}\n"


def test_of_several_journals_in_a_folder_one_has_to_be_named(folder: Path) -> None:
    copies = folder.parent
    folder.rename(copies / "ns-1")
    assert numbers(run(copies, "cat", "--from", "9")) == [9]  # whatever its name
    write_journal(copies / "ns-2", [numbered(1)])

    ran = run(copies, "verify")

    assert ran.exit_code == 1
    assert ran.stderr == (
        f"Error: {copies} is no journal, and has several in it; name one of ns-1 and ns-2\n"
    )


def test_a_journal_that_lost_all_its_segments_is_one_and_not_sound(tmp_path: Path) -> None:
    write_journal(tmp_path, [numbered(1), numbered(2)])
    for path in tmp_path.iterdir():
        if path.name not in ("lock", "identity.json"):
            path.unlink()
    (tmp_path / "identity.json").unlink(missing_ok=True)

    ran = run(tmp_path, "verify")

    assert ran.exit_code == 1
    assert "records 1 to 2 are missing at the end" in ran.stdout


# -- tail and cat


def test_cat_shows_all_records_in_sentences(tmp_path: Path) -> None:
    write_journal(tmp_path, every_event())
    ran = run(tmp_path, "cat")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert numbers(ran) == list(range(1, len(every_event()) + 1))
    assert re.match(r"2026-01-01T12:00:00\.\d{3}Z 9 KvChanged: key orders of", ran.lines[8])


def test_cat_for_programs_gives_the_lines_as_they_are(folder: Path) -> None:
    ran = run(folder, "cat", "--json", "--from", "seq:8", "--values")
    assert ran.stdout.encode() == (folder / ACTIVE).read_bytes()


def test_values_of_pairs_are_told_by_their_length_unless_they_are_asked_for(tmp_path: Path) -> None:
    write_journal(tmp_path, every_event())
    shown = run(tmp_path, "cat", "--type", "KvChanged").stdout
    assert "was set to (10 characters) by an administrator" in shown
    assert 'was set to "broker-a:8"' in run(tmp_path, "tail", "-n", "99", "--values").stdout
    for kind in ("KvChanged", "StateRestated"):
        [line] = run(tmp_path, "cat", "--json", "--type", kind).lines
        [whole] = run(tmp_path, "cat", "--json", "--type", kind, "--values").lines
        assert "broker-a:8" in whole
        assert line == whole.replace("broker-a:8", "(10 characters)")  # its hash stays
    out = tmp_path.parent / "out.jsonl"
    run(tmp_path, "export", str(out))
    assert len(list(map(decode, out.read_bytes().splitlines()))) == len(every_event())
    assert b"broker-a:8" not in out.read_bytes()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--from seq:4 --to seq:6", [4, 5, 6]),
        ("--from 4 --to 2026-01-01T12:00:06Z", [4, 5, 6]),
        ("--from 2026-01-01T12:00:08Z", [8, 9]),
        ("--to 2026-01-01", []),
        ("--to now --type kvchanged --from 9", [9]),
        ("--type BrokerLeft", []),
        ("--topic key-5", [5]),
        ("--broker broker-a", []),
    ],
)
def test_cat_shows_what_is_asked_for(folder: Path, options: str, expected: list[int]) -> None:
    assert numbers(run(folder, "cat", *options.split())) == expected


def test_times_may_be_before_now(folder: Path) -> None:
    assert numbers(run(folder, "cat", "--from", "-1h")) == []


@pytest.mark.parametrize("word", ["yesterday", "seq:x", "-1x"])
def test_a_time_that_is_none_is_wrong_usage(folder: Path, word: str) -> None:
    ran = run(folder, "cat", "--from", word)
    assert ran.exit_code == 2
    assert "is no moment" in ran.stderr


def test_a_topic_is_told_of_alone(tmp_path: Path) -> None:
    write_journal(tmp_path, [topics_changed("orders", "refunds"), topics_changed("payments")])
    ran = run(tmp_path, "cat", "--topic", "refunds")
    assert numbers(ran) == [1]
    assert "refunds appeared on broker-a" in ran.stdout
    assert "orders" not in ran.stdout


def test_what_was_refused_to_a_broker_is_told_of_it(tmp_path: Path) -> None:
    def refused(request: str, subject: str) -> RequestRefused:
        return RequestRefused(
            revision=1,
            cause=Cause.REFUSED,
            peer="10.0.0.9:5",
            request=request,
            subject=subject,
            reason="no",
            answered_success=False,
        )

    events = [
        refused("REGISTER_BROKER", "c1/broker-a:0 10.0.0.1:10911"),  # understood
        refused("REGISTER_BROKER", "c1 broker-a 10.0.0.1:10911"),  # its body was not
        refused("REGISTER_BROKER", "broker-a 10.0.0.1:10911"),
        refused("UNREGISTER_BROKER", "c1/broker-a 10.0.0.1:10911"),
        refused("WIPE_WRITE_PERM_OF_BROKER", "broker-a"),
        refused("REGISTER_BROKER", "c1/broker-aa:0 10.0.0.1:10911"),
        refused("REGISTER_BROKER", "c1/my-broker-a:0 broker-a-host:10911"),
        refused("REGISTER_BROKER", "broker-a broker-b 10.0.0.1:10911"),  # a cluster of that name
        refused("PUT_KV_CONFIG", "namespace broker-a"),
        refused("DELETE_TOPIC_IN_NAMESRV", "c1 orders"),
        refused("REGISTER_TOPIC_IN_NAMESRV", "orders"),
        BrokerConflict(
            revision=1,
            cause=Cause.CONFLICT,
            peer="",
            cluster="c1",
            broker="broker-a",
            broker_id=0,
            kept="10.0.0.1:10911",
            other="10.0.0.2:10911",
            reason="its epoch is older",
        ),
    ]
    write_journal(tmp_path, events)

    assert numbers(run(tmp_path, "cat", "--broker", "broker-a")) == [1, 2, 3, 4, 5, 12]
    assert numbers(run(tmp_path, "cat", "--broker", "broker-b")) == [8]
    assert numbers(run(tmp_path, "tail", "--topic", "orders")) == [10, 11]


def test_tail_shows_the_last_records(folder: Path) -> None:
    assert numbers(run(folder, "tail")) == list(range(1, 10))
    assert numbers(run(folder, "tail", "-n", "4")) == [6, 7, 8, 9]
    assert numbers(run(folder, "tail", "-n", "0")) == []
    assert numbers(run(folder, "tail", "--json", "-n", "1")) == [9]


def test_tail_counts_those_that_are_asked_for(tmp_path: Path) -> None:
    events = [topics_changed("orders") if n % 10 == 0 else numbered(n) for n in range(1, 101)]
    write_journal(tmp_path, events, rotate_records=7)
    assert numbers(run(tmp_path, "tail", "-n", "3", "--topic", "orders")) == [80, 90, 100]


def test_tail_follows_a_node_at_work(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    with opened(folder, rotate_records=5) as writer:
        for number in range(1, 4):
            writer.append(numbered(number))
        written(writer)
        words = ("journal", "tail", "-f", "-n", "2", "--json", "--journal", folder)
        with Program(tmp_path / "home", *words, ready="key-3") as program:
            for number in range(4, 20):
                writer.append(numbered(number))
            program.wait_for_output("key-19")
            program.signal(signal.SIGINT)
            assert program.ended() == 0
            shown = [json.loads(line)["seq"] for line in program.stdout.splitlines()]
    assert shown == list(range(2, 20))


@pytest.mark.parametrize("command", ["cat", "tail", "stats", "export -"])
def test_damage_is_told_and_passed_over(folder: Path, command: str) -> None:
    with (folder / ACTIVE).open("ab") as file:
        file.write(b"garbage\n")
    ran = run(folder, *command.split())
    assert ran.exit_code == 1
    assert "Warning: active.jsonl line 3: not a record" in ran.stderr
    if command != "stats":
        assert numbers(ran) == list(range(1, 10))


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    write_journal(tmp_path, [topics_changed("red\x1b[31m\u2028")])
    for words in (["cat"], ["cat", "--json"], ["tail"], ["stats"]):
        assert all(line.isprintable() for line in run(tmp_path, *words).stdout.split("\n")), words
    shown = json.loads(run(tmp_path, "cat", "--json").stdout)
    assert shown["data"]["changes"][0]["topics"] == ["red\x1b[31m\u2028"]


# -- stats and export


def test_stats_count_types_and_days(tmp_path: Path) -> None:
    later = [record(2**21, recovered(3), wall_ms=NOON_MS + DAY_MS)]
    lay(tmp_path, span_of(1, 3), later)
    ran = run(tmp_path, "stats")
    assert ran.exit_code == 0
    assert "records               4, from 1 to 2097152" in ran.lines
    assert "not stopped in order  1 time" in ran.lines
    assert ["KvChanged", "3"] in [line.split()[:2] for line in ran.lines]
    assert ["2026-01-02", "1"] in [line.split() for line in ran.lines]
    document = run(tmp_path, "stats", "--json").document
    assert document["days"] == {"2026-01-01": 3, "2026-01-02": 1}
    assert document["types"]["JournalRecovered"]["records"] == 1
    assert (document["first_seq"], document["last_seq"]) == (1, 2**21)


def test_stats_of_nothing(tmp_path: Path) -> None:
    (tmp_path / ACTIVE).touch()  # of a node that has just started
    assert run(tmp_path, "stats").lines == [f"{tmp_path} holds no records"]
    assert run(tmp_path, "stats", "--json").document["first_seq"] is None


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_export_writes_lines_packed_by_name(folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    ran = run(folder, "export", str(out), "--from", "seq:8", "--values")
    assert (ran.exit_code, ran.lines) == (0, [f"2 records written to {out}"])
    content = out.read_bytes()
    text = gzip.decompress(content) if name.endswith(".gz") else content
    assert text == (folder / ACTIVE).read_bytes()
    assert run(folder, "export", str(out), "--force", "--json").document == {
        "file": str(out),
        "records": 9,
    }


def test_export_does_not_replace_a_file_unasked(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    ran = run(folder, "export", str(out))
    assert (ran.exit_code, out.read_text()) == (1, "precious")
    assert ran.stderr == f"Error: {out} is there already; --force replaces it\n"


def test_export_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    ran = run(folder, "export", str(tmp_path / "nowhere" / "out.jsonl"))
    assert ran.exit_code == 1
    assert "out.jsonl: No such file or directory" in ran.stderr
    (folder / Span(1, 3).packed).chmod(0o600)
    ran = run(tmp_path / "missing", "export", str(tmp_path / "out.jsonl"))
    assert ran.exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_the_journal_is_that_of_a_node_of_yours_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROUTEBOOK_DATA_DIR", raising=False)
    write_journal(tmp_path / "namesrv" / "routebook" / "journal", [numbered(1)])
    write_journal(tmp_path / "elsewhere" / "journal", [numbered(1), numbered(2)])
    assert numbers(run_program("journal", "cat")) == [1]
    monkeypatch.setenv("ROUTEBOOK_DATA_DIR", str(tmp_path / "elsewhere"))
    assert numbers(run_program("journal", "cat")) == [1, 2]
    assert seqs(read(tmp_path / "elsewhere" / "journal")) == [1, 2]
