"""What gateway and worker say to each other: frames of a length, a header in JSON and a body."""

import struct
from pathlib import Path
from typing import Any

import msgspec

from routebook.client.dialing import Dialing

_LENGTHS = struct.Struct(">II")
HEAD = _LENGTHS.size


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its parameters as text.

    ``journal`` is the folder of the gateway's own node to read, "" for none; where there is no
    journal, ``own`` is asked. ``nodes`` are asked for what they remember, or looked at; they are
    connected to by ``dialing``.
    """

    question: str
    parameters: dict[str, Any] = {}
    journal: str = ""
    own: str = ""
    nodes: tuple[str, ...] = ()
    dialing: Dialing | None = None
    gzip: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job; the body is a document, packed if ``packed``.

    ``failed``: a word, and ``text`` a sentence instead of a document.
    """

    status: int = 200
    failed: str = ""
    text: str = ""
    etag: str = ""
    packed: bool = False


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How far a job is."""

    stage: str
    done: int
    total: int


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    outcome: Outcome


Message = Progress | Done


def _path(kind: type, text: str) -> Path:
    return Path(text)


_messages: "msgspec.json.Decoder[Message]" = msgspec.json.Decoder(Message)
_jobs = msgspec.json.Decoder(Job, dec_hook=_path)


def lengths(head: bytes) -> tuple[int, int]:
    """Of the header and the body that follow ``head``."""
    header, body = _LENGTHS.unpack(head)
    return header, body


def frame(header: msgspec.Struct, body: bytes = b"") -> bytes:
    encoded = msgspec.json.encode(header, enc_hook=str)  # of paths
    return _LENGTHS.pack(len(encoded), len(body)) + encoded + body


def decode_message(header: bytes) -> Message:
    return _messages.decode(header)


def decode_job(header: bytes) -> Job:
    return _jobs.decode(header)
