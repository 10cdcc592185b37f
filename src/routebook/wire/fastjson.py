r"""The JSON dialect of fastjson, which RocketMQ's peers write and expect.

Reading: text is first tried as JSON. If that fails it is rewritten into JSON and tried
again: bare keys (``{0:1,name:2}``) and single-quoted strings get double quotes,
needless commas go, escapes JSON does not know become ones it does. The rewriting is one
regular expression that swallows ordinary stretches whole and stops only at oddities,
so it costs by the number of oddities; ``normalised_slices`` gives control back
in between, since a broker with static topics sends tens of thousands of bare keys.

``{"$ref":"$.path"}`` stands for the value at that path of the same document.

Writing: ``quoted`` is fastjson's default form, ``quoted_standard`` the browser-compatible
form of route answers for 4.9.4 and later.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Any, Final

import msgspec

from routebook.slices import Slices, finished
from routebook.wire.errors import DialectError
from routebook.wire.text import grown, whole

# A stretch fastjson and JSON agree on, then (optionally) one oddity. Possessive
# quantifiers: no text makes this backtrack. Bounded ones: no match takes long.
_UNICODE = rb"\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}"  # halves of surrogate pairs may stand alone
_STRICT_STRING = rb'"(?:[^"\\\x00-\x1f]{1,512}+|\\["\\/bfnrt]|' + _UNICODE + rb'){0,8}+"'
_ODD_STRING = rb"\"(?:[^\"\\]{1,64}+|\\.){0,4096}+\"|'(?:[^'\\]{1,64}+|\\.){0,4096}+'"
_SPACE = rb"\s{0,1000}+"
_BARE_KEY = rb"-?[\w$.]{1,1000}+(?=" + _SPACE + rb":)"
_COMMAS = rb"(?:" + _SPACE + rb",){0,1000}+" + _SPACE
_TOKEN = re.compile(
    rb"(?P<plain>(?:"
    + _STRICT_STRING
    + rb"|[^\"'{,\[]{1,512}+|\[(?!"
    + _SPACE
    + rb",)|[{,](?!"
    + _SPACE
    + rb"(?:[,}\]]|-?[\w$.]{1,1000}+"
    + _SPACE
    + rb":))){0,256}+)"
    + rb"(?:(?P<commas>,"
    + _COMMAS
    + rb"(?=[}\]]))"
    + rb"|(?P<open>[{,\[]"
    + _COMMAS
    + rb")(?P<key>"
    + _BARE_KEY
    + rb")?|(?P<string>"
    + _ODD_STRING
    + rb"))?",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "1": "\1",
    "2": "\2", "3": "\3", "4": "\4", "5": "\5", "6": "\6", "7": "\7",
}  # fmt: skip
_TURNS_A_SLICE = 100
MAX_ODDITIES = 250_000  # bare keys of static topics: some 30,000 topics of eight queues
_TEXTS_A_SLICE = 2000
_FEW = 16
_MAX_DEPTH = 64
MAX_EXPANSION = 100_000  # values that all references of a text may stand for


def loads(
    text: bytes, *, max_oddities: int = MAX_ODDITIES, max_expansion: int = MAX_EXPANSION
) -> Any:
    """The value of a fastjson text; raises DialectError."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = _decode(finished(normalised_slices(text, max_oddities)))
    return resolved(value, max_expansion) if b"$ref" in text else value


def normalised(text: bytes) -> bytes:
    """``text`` as plain JSON; raises DialectError only where no rewriting helps."""
    return finished(normalised_slices(text))


def normalised_slices(text: bytes, max_oddities: int = MAX_ODDITIES) -> Slices[bytes]:
    """``normalised`` as a generator that returns the text and yields every few milliseconds."""
    text_so_far = bytearray()  # grows where it is: joining 16 MiB at the end would take long
    parts: list[bytes] = []
    position, oddities, turns = 0, 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.end() == position:
            raise DialectError(f"not JSON, or a string of more than 256 KiB, at byte {position}")
        plain, _, opening, key, string = match.groups()
        parts.append(plain)
        if opening is not None:
            parts.append(opening[:1])
            if key is not None:
                parts.append(b'"' + key + b'"')
        elif string is not None:
            parts.append(_requoted(string))
        oddities += match.end() != match.end("plain")
        if oddities > max_oddities:
            raise DialectError(f"more than {max_oddities} departures from JSON")
        # A long plain stretch is many oddities' work, a long oddity too.
        turns += 1 + len(plain) // 512 + (match.end() - match.end("plain")) // 64
        position = match.end()
        if turns > _TURNS_A_SLICE:
            turns = 0
            text_so_far += b"".join(parts)
            parts.clear()
            yield
    if not text_so_far:
        return b"".join(parts)
    text_so_far += b"".join(parts)
    return grown(text_so_far)


def _requoted(literal: bytes) -> bytes:
    try:
        text = literal[1:-1].decode()
    except UnicodeDecodeError as error:
        raise DialectError("a string is not UTF-8") from error
    return msgspec.json.encode(whole(_ESCAPE.sub(_unescaped, text)))


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPED.get(escape, escape)


def _decode(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DialectError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DialectError("nested too deeply") from error


def resolved(document: Any, max_expansion: int = MAX_EXPANSION) -> Any:
    """``document`` with each ``{"$ref": path}`` replaced by what the path names.

    A path that leads nowhere, or to a reference, becomes None: the reference decoder
    leaves such a field null. Raises DialectError when references would blow the document up.
    """
    room = max_expansion

    def walk(value: Any, parents: tuple[Any, ...]) -> Any:
        nonlocal room
        if len(parents) > _MAX_DEPTH:
            raise DialectError("nested too deeply")
        if isinstance(value, dict):
            if len(value) == 1 and isinstance(path := value.get("$ref"), str):
                target = _target(document, path, parents)
                if isinstance(target, dict) and "$ref" in target:
                    return None
                room -= _weight(target, room)
                return target
            within = (*parents, value)
            return {key: walk(item, within) for key, item in value.items()}
        if isinstance(value, list):
            within = (*parents, value)
            return [walk(item, within) for item in value]
        return value

    return walk(document, ())


def _weight(value: Any, room: int) -> int:
    """How many values ``value`` is made of; raises DialectError when more than ``room``."""
    weight, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        weight += 1 + (len(item) // 64 if isinstance(item, str) else 0)
        if weight > room:
            raise DialectError("references expand too far")
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return weight


def _target(document: Any, path: str, parents: tuple[Any, ...]) -> Any:
    if path == "@":
        return parents[-1] if parents else None
    if path == "..":
        return parents[-2] if len(parents) > 1 else None
    if not path.startswith("$"):
        return None
    value = document
    for name, index in re.findall(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]", path[1:]):
        if index:
            position = int(index)
            if not isinstance(value, list) or position >= len(value):
                return None
            value = value[position]
        else:
            if not isinstance(value, dict):
                return None
            value = value.get(re.sub(r"\\(.)", r"\1", name))
    return value


def _unicode_escape(code: int) -> str:
    units = chr(code).encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2))


class _StandardEscapes(dict[int, str]):
    """Everything beyond ASCII is escaped; made when met, since most of it never is."""

    def __missing__(self, code: int) -> str:
        return _unicode_escape(code)


_CONTROLS = {code: _unicode_escape(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
_SHORT = {
    ord('"'): '\\"',
    ord("\\"): r"\\",
    ord("\b"): r"\b",
    ord("\f"): r"\f",
    ord("\n"): r"\n",
    ord("\r"): r"\r",
    ord("\t"): r"\t",
}
_LINE_ENDS = {code: _unicode_escape(code) for code in (0x2028, 0x2029)}
_DEFAULT_ESCAPES = _CONTROLS | _LINE_ENDS | _SHORT
_STANDARD_ESCAPES = _StandardEscapes(
    {code: chr(code) for code in range(0x20, 0x7F)} | _CONTROLS | _SHORT | {ord("/"): "\\/"}
)


def quoted(text: str) -> bytes:
    """A string literal in fastjson's default form."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return b'"' + text.encode() + b'"'
    return b'"' + text.translate(_DEFAULT_ESCAPES).encode("utf-8", "replace") + b'"'


def quoted_standard(text: str) -> bytes:
    """A string literal in the browser-compatible form."""
    return b'"' + text.translate(_STANDARD_ESCAPES).encode() + b'"'


def quoted_list_slices(
    texts: Iterable[str], before: bytes = b"", after: bytes = b""
) -> Slices[bytes]:
    """A list of strings in default form, a few thousand at a time; in one sweep what is plain.

    What comes ``before`` it and ``after`` it is put there without copying the list.
    """
    text = bytearray(before + b"[")
    waiting = iter(texts)
    some = list(islice(waiting, _TEXTS_A_SLICE))
    while some:
        joined = '","'.join(some)
        # Each joint brings exactly two quotes; one more means a name contains one.
        plain = joined.isascii() and joined.isprintable() and "\\" not in joined
        if plain and joined.count('"') == 2 * (len(some) - 1):
            text += b'"' + joined.encode() + b'"'
        else:
            text += b",".join([quoted(each) for each in some])
        some = list(islice(waiting, _TEXTS_A_SLICE))
        if some:
            text += b","
            yield
    text += b"]" + after
    return grown(text)


def quoted_map(entries: Mapping[str, str]) -> bytes:
    """A map of strings in default form."""
    if len(entries) <= _FEW:
        return b"{" + b",".join([quoted(k) + b":" + quoted(v) for k, v in entries.items()]) + b"}"
    return finished(quoted_map_slices(entries))


def quoted_map_slices(
    entries: Mapping[str, str], before: bytes = b"", after: bytes = b""
) -> Slices[bytes]:
    """``quoted_map``, a few thousand entries at a time."""
    return (yield from quoted_pairs_slices(entries.items(), before, after))


def quoted_pairs_slices(
    entries: Iterable[tuple[str, str]], before: bytes = b"", after: bytes = b""
) -> Slices[bytes]:
    """``quoted_map_slices`` of a map told pair by pair; in one sweep where nothing is escaped."""
    text = bytearray(before + b"{")
    waiting = iter(entries)
    some = list(islice(waiting, _TEXTS_A_SLICE // 2))
    while some:
        texts = "".join(chain.from_iterable(some))
        if texts.isascii() and texts.isprintable() and '"' not in texts and "\\" not in texts:
            text += msgspec.json.encode(dict(some))[1:-1]
        else:
            text += b",".join([quoted(k) + b":" + quoted(v) for k, v in some])
        some = list(islice(waiting, _TEXTS_A_SLICE // 2))
        if some:
            text += b","
            yield
    text += b"}" + after
    return grown(text)
