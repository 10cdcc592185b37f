"""The worker's program: does jobs from standard input one after another until that ends.

What it does is less urgent than everything else on the machine.
"""

import gzip
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from routebook.gateway.api.content import SMALL, encode_document, etag_of
from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import (
    HEAD,
    Done,
    Job,
    Outcome,
    Progress,
    decode_job,
    frame,
    lengths,
)
from routebook.gateway.worker.questions import QUESTIONS, Told, Workplace

logger = logging.getLogger(__name__)

NICE = 15
LEVEL = 4  # of gzip


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the node; it ends with its gateway
    # Whatever prints by mistake must not end up between frames.
    frames = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # A gateway that has gone wants to know nothing any more.
    with TemporaryDirectory(prefix="routebook-gateway-") as folder, suppress(BrokenPipeError):
        serve(sys.stdin.buffer, frames, Workplace(folder))


def serve(jobs: BinaryIO, frames: BinaryIO, place: Workplace) -> None:
    while head := jobs.read(HEAD):
        header, _ = lengths(head)
        job = decode_job(jobs.read(header))

        def told(stage: str, done: int, total: int) -> None:
            frames.write(frame(Progress(stage=stage, done=done, total=total)))
            frames.flush()

        outcome, body = done(job, place, told)
        frames.write(frame(Done(outcome=outcome), body))
        frames.flush()


def done(job: Job, place: Workplace, told: Told) -> tuple[Outcome, bytes]:
    """What becomes of ``job``; raises nothing."""
    ask: Callable[[Job, Workplace, Told], Any] = QUESTIONS[job.question]
    try:
        body = encode_document(ask(job, place, told))
    except Failure as error:
        return Outcome(status=error.status, failed=error.code, text=str(error)), b""
    except Exception:  # the next job is another one
        logger.exception("%s failed: %s", job.question, job.parameters)
        return Outcome(status=500, failed="internal", text="internal error; the log says more"), b""
    etag = etag_of(body)
    packed = job.gzip and len(body) >= SMALL
    return Outcome(etag=etag, packed=packed), gzip.compress(body, LEVEL) if packed else body


if __name__ == "__main__":
    main()
