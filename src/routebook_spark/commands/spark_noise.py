"""Spark noise: what Spark and its workers say of themselves on the terminal, whoever asked."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHATTER = (
    b"Starting Streaming TransformWithState",
    b"Streaming TransformWithState",
    b"WARNING: Using incubator modules",
    b"NOTE: Picked up JDK_JAVA_OPTIONS",
)


@contextmanager
def without_spark_noise() -> Iterator[None]:
    """Whatever is started meanwhile keeps quiet about how it gets along, for as long as it runs."""
    stderr, (reader, writer) = os.dup(2), os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    threading.Thread(target=_pass_on, args=(reader, os.dup(stderr)), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _pass_on(reader: int, stderr: int) -> None:
    dropped, rest = False, b""
    with os.fdopen(stderr, "wb", buffering=0) as out:
        while chunk := os.read(reader, 65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                dropped = line.startswith(_CHATTER) or (dropped and not line.strip())
                if not dropped:
                    out.write(line + b"\n")
            if not any(words.startswith(rest[: len(words)]) for words in _CHATTER):
                out.write(rest)  # a progress bar does not end its line
                rest = b""
        out.write(rest)
    os.close(reader)
