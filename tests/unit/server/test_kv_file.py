import random
from itertools import islice
from pathlib import Path

import pytest

from routebook.server import kv_file
from routebook.settings import SettingsError
from routebook.slices import finished
from routebook.state.kv import KvChange, KvStore, Tables
from routebook.state.revision import Revision


def test_a_file_of_rocketmq_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(
        '{"configTable":{"NSX":{},"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4","n":5}},"x":1}'
    )
    assert kv_file.load(path) == {"NSX": {}, "ORDER_TOPIC_CONFIG": {"T1": "broker-a:4", "n": "5"}}


def test_what_is_written_is_what_rocketmq_writes_and_reads_back(tmp_path: Path) -> None:
    tables: Tables = {"NSX": {}, "n": {"k": 'v"\n', "ü": "x"}}
    path = tmp_path / "kvConfig.json"
    path.write_bytes(finished(kv_file.encode((n, t.items()) for n, t in tables.items())))
    assert path.read_text() == '{"configTable":{"NSX":{},"n":{"k":"v\\"\\n","ü":"x"}}}'
    assert kv_file.load(path) == tables


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_nothing_is_no_pairs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kvConfig.json"
    assert kv_file.load(path) == {}
    path.write_text(text)
    assert kv_file.load(path) == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b'{"configTable":\n{"a":{\n"k":"v"', 3),
        (b"[]", 1),
        (b'{"configTable":5}', 1),
        (b'{"configTable":{"a":"b"}}', 1),
        (b'{"configTable":{}}\n\xff', 2),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, text: bytes, line: int) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_bytes(text)
    with pytest.raises(SettingsError, match=f"kvConfig.json line {line} is damaged"):
        kv_file.load(path)
    assert path.read_bytes() == text


def test_what_is_written_before_changes_is_what_there_is_after_them() -> None:
    chance = random.Random(7)
    store = KvStore(Revision(), 1_000_000, {"a": {"k1": "v"}, "b": {}})
    for _ in range(300):
        changes = [
            KvChange(
                chance.choice("abcd"), f"k{chance.randrange(6)}", chance.choice([None, "v", "w"])
            )
            for _ in range(chance.randrange(8))
        ]
        written = {namespace: dict(pairs) for namespace, pairs in store.preview(changes)}
        store.apply(changes)
        assert written == store.tables


def test_many_pairs_are_encoded_a_few_a_slice_and_not_copied() -> None:
    waiting = [(f"k{number}", "v") for number in reversed(range(20_000))]
    pairs = iter(waiting.pop, None)
    slices = kv_file.encode([("n", islice(pairs, 20_000))])
    next(slices)
    assert len(waiting) > 15_000, "the rest is not looked at yet"
    assert sum(1 for _ in slices) >= 5
    assert waiting == []
