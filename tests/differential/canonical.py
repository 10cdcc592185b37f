"""Answers in a form in which order that means nothing, and the present time, are gone.

Nothing else is: texts keep their quotes and escapes, numbers their spelling, beans the order of
their members. Maps are sorted by key, the lists that are sets in the reference by element.

    {"brokerAddrs":{1:"b",0:"a"},"cluster":"x"}  ->  {"brokerAddrs":{0:"a",1:"b"},"cluster":"x"}

Lists of everything show the brokers and topics of other sequences as well; what does not carry
the marker of this sequence is left out.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from differential.wire import Reply, binary_members

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^{}\[\]:,"\s]+', re.DOTALL)
_MAPS = {
    "brokerAddrs", "filterServerTable", "topicQueueMappingByBroker", "currIdMap",
    "brokerAddrTable", "clusterAddrTable", "table", "extFields",
}  # fmt: skip
_SETS = {"brokerDatas", "queueDatas", "topicList"}
_MARKED = {"brokerAddrTable", "clusterAddrTable", "topicList"}

NOW = '"<now>"'
SOME_ADDRESS = '"<an address>"'
EXCEPTION = "<exception>"
SENTENCE = "<sentence>"
REASON = "(why)"  # at the end of a remark, for words that hold times
_PAST = 1_750_000_000_000  # every timestamp a sequence sends lies before
_JAVA_EXCEPTION = re.compile(r'"(java|org|com)\.[\w.$]+(Exception|Error)\b')


@dataclass(frozen=True, slots=True)
class Answer:
    """``remark`` and ``body`` as they stand on the wire; None when there is none."""

    binary: bool
    header: str
    remark: str | None
    body: str | None

    def __str__(self) -> str:
        codec = "binary" if self.binary else "JSON"
        return f"{codec} {self.header} remark {self.remark} body {self.body}"


def header_text(*, code: int, ext: str | None, binary: bool) -> str:
    """The header of an answer without opaque and remark; ``ext`` in canonical form."""
    if binary:
        return f"code {code} ext {ext or '{}'} flag 1 language 0 version 513"
    members = {
        "code": str(code),
        "extFields": ext,
        "flag": "1",
        "language": '"JAVA"',
        "serializeTypeCurrentRPC": '"JSON"',
        "version": "513",
    }
    return bean(members)


def answer_of(reply: Reply, marker: str) -> Answer:
    body = canonical(reply.body.decode(), marker) if reply.body else None
    if reply.binary:
        members = binary_members(reply.header)
        ext, remark = members["extFields"], members["remark"]
        assert isinstance(ext, dict)
        entries = {quoted_plain(key): quoted_plain(value) for key, value in ext.items()}
        header = (
            f"code {members['code']} ext {mapping(entries)} flag {members['flag']}"
            f" language {members['language']} version {members['version']}"
        )
        return Answer(True, header, None if remark is None else quoted_plain(str(remark)), body)
    tree = _parsed(reply.header.decode())
    assert isinstance(tree, dict)
    remark_token = tree.pop('"remark"', None)
    assert remark_token is None or isinstance(remark_token, str)
    tree.pop('"opaque"')
    return Answer(False, _rendered(tree, marker), remark_token, body)


def quoted_plain(value: str) -> str:
    """A text of a binary header."""
    return json.dumps(value, ensure_ascii=False)


def is_exception(remark: str | None) -> bool:
    """Whether a remark is what the reference makes of an exception."""
    return remark is not None and _JAVA_EXCEPTION.match(remark) is not None


@lru_cache(maxsize=4096)
def canonical(text: str, marker: str) -> str:
    return _rendered(_parsed(text), marker)


# -- writing, also used by the model


def bean(members: Mapping[str, str | None]) -> str:
    """An object in the order given, nulls left out."""
    inner = ",".join(f'"{name}":{value}' for name, value in members.items() if value is not None)
    return "{" + inner + "}"


def mapping(entries: Mapping[str, str]) -> str:
    """An object in canonical order; keys are written as they are."""
    return "{" + ",".join(f"{key}:{value}" for key, value in sorted(entries.items())) + "}"


def unordered(items: Iterable[str]) -> str:
    return "[" + ",".join(sorted(items)) + "]"


# -- reading

Tree = str | list["Tree"] | dict[str, "Tree"]


def _parsed(text: str) -> Tree:
    """Tokens in the shape of the document, each as it is written."""
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    tree = _value(tokens)
    if tokens:
        raise ValueError(f"more than one value in {text!r}")
    return tree


def _value(tokens: list[str]) -> Tree:
    token = tokens.pop()
    if token == "{":
        members: dict[str, Tree] = {}
        while tokens[-1] != "}":
            key = tokens.pop()
            if key in members or tokens.pop() != ":":
                raise ValueError(f"member {key} is not well formed")
            members[key] = _value(tokens)
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return members
    if token == "[":
        items: list[Tree] = []
        while tokens[-1] != "]":
            items.append(_value(tokens))
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return items
    return token


def _rendered(tree: Tree, marker: str, name: str = "") -> str:
    if isinstance(tree, dict):
        members = [
            (key, _rendered(value, marker, _below(name, key)))
            for key, value in tree.items()
            if name not in _MARKED or marker in key
        ]
        if name in _MAPS:
            members.sort()
        return "{" + ",".join(f"{key}:{value}" for key, value in members) + "}"
    if isinstance(tree, list):
        items = [
            _rendered(item, marker)
            for item in tree
            if name not in _MARKED or not isinstance(item, str) or marker in item
        ]
        return "[" + ",".join(sorted(items) if name in _SETS else items) + "]"
    if name == "timestamp" and int(tree) > _PAST:
        return NOW
    if name == "brokerAddr":
        return SOME_ADDRESS
    return tree


def _below(name: str, key: str) -> str:
    """The name by which a member is treated: broker names of a cluster are a set."""
    return "topicList" if name == "clusterAddrTable" else key.strip('"')
