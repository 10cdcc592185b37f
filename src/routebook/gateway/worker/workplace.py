"""Workplace: what a worker keeps from one job to the next, and where it has records from."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from routebook.client.client import NameServerClient
from routebook.client.dialing import Dialing
from routebook.client.errors import NameServerError
from routebook.documents.history.answering import Answering, Unanswered
from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import Job
from routebook.history.finding.recent import NotSent, Sent, Source, recent, source_of
from routebook.history.times import BadTime
from routebook.journal.errors import JournalError
from routebook.journal.locate import NoJournal, locate
from routebook.wire.address import Address

Told = Callable[[str, int, int], None]

KEPT_S = 5.0  # what nodes sent; a slider asks many times a second
TIMEOUT_S = 10.0
SHOWN_AS = "journal"  # a folder is nobody's business who asks over a network


class Workplace:
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._number = 0
        self._sent: tuple[tuple[str, ...], float, list[Source], list[str]] | None = None

    @contextmanager
    def answering(self, job: Job, told: Told) -> Iterator[Answering]:
        """The journals of ``job``; raises Failure for whatever keeps them from answering."""
        try:
            sources, troubles = self._sources(job)
            answering = Answering(sources, told)
            answering.troubles += troubles
            yield answering
        except BadTime as error:
            raise Failure(400, "bad_parameter", str(error)) from error
        except Unanswered as error:
            raise Failure(404, "no_history", str(error)) from error
        except JournalError as error:
            raise Failure(404, "no_history", _without_folder(str(error), job)) from error

    def _sources(self, job: Job) -> tuple[list[Source], list[str]]:
        sources: list[Source] = []
        troubles: list[str] = []
        nodes = job.nodes
        if job.journal:
            try:
                sources.append(Source(locate(Path(job.journal)), SHOWN_AS, values=False))
            except NoJournal:
                nodes = (job.own, *nodes)  # it keeps none on disk, and remembers all the same
        if nodes:
            found, failures = self._asked(nodes, job.dialing)
            sources += found
            troubles += failures
        if not sources:
            raise Failure(404, "no_history", "; ".join(troubles) or "there is no history here")
        return sources, troubles

    def _asked(
        self, nodes: tuple[str, ...], dialing: Dialing | None
    ) -> tuple[list[Source], list[str]]:
        """What ``nodes`` remember, asked for once in a while."""
        if self._sent is not None:
            whom, asked_s, sources, failures = self._sent
            if whom == nodes and monotonic() - asked_s < KEPT_S:
                return sources, failures
            self._sent = None
            for source in sources:
                shutil.rmtree(source.folder)
        sources, failures = [], []
        answers = asyncio.run(_recent_of(nodes, dialing))
        for address, sent in sorted(answers.items(), key=lambda told: nodes.index(str(told[0]))):
            self._number += 1
            try:
                sources.append(source_of(address, sent, self._folder / str(self._number)))
            except NotSent as error:
                failures.append(str(error))
        self._sent = nodes, monotonic(), sources, failures
        return sources, failures


async def _recent_of(
    nodes: tuple[str, ...], dialing: Dialing | None
) -> dict[Address, Sent | NameServerError]:
    async with NameServerClient(nodes, timeout_s=TIMEOUT_S, dialing=dialing) as client:
        return await client.on_every_node(recent)


def _without_folder(sentence: str, job: Job) -> str:
    return sentence.replace(job.journal, "of the node") if job.journal else sentence
