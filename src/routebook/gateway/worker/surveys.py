"""Looks at all nodes: where they differ, topic by topic, and what is wrong with a cluster.

The same as ``routebook compare`` and ``routebook doctor``, at a pace that nodes do not notice.
"""

import asyncio
from functools import partial
from time import time_ns
from typing import Any

from routebook.audit.doctor import diagnose
from routebook.audit.settle import settled
from routebook.audit.survey import take_survey
from routebook.audit.view import take_views
from routebook.client.client import NameServerClient
from routebook.documents.audit import comparison_document, diagnosis_document
from routebook.gateway.api.failures import Failure
from routebook.gateway.worker.frames import Job
from routebook.gateway.worker.workplace import Told, Workplace
from routebook.words import exact

REST_S = 1.0  # between two hundred questions to a node and the next
TIMEOUT_S = 10.0
MOST_TOPICS = 100  # named for a difference


def differences(job: Job, place: Workplace, told: Told) -> dict[str, Any]:
    async def looked() -> dict[str, Any]:
        async with _client(job) as client:
            views = await take_views(client, progress=partial(told, "routes"), rest_s=REST_S)
            comparison = (await settled(client, views)).comparison
        if not comparison.nodes:
            raise Failure(503, "node_away", "no node could be asked; check that they run")
        return comparison_document(comparison)

    document = asyncio.run(looked())
    for difference in document["differences"]:
        names = difference["topics"]
        difference["topics"], difference["topics_in_all"] = names[:MOST_TOPICS], len(names)
    return {"at": exact(_now_ms()), **document}


def doctor(job: Job, place: Workplace, told: Told) -> dict[str, Any]:
    async def looked() -> dict[str, Any]:
        async with _client(job) as client:
            survey = await take_survey(client, probing=False, progress=told, rest_s=REST_S)
        if not survey.views:
            raise Failure(503, "node_away", "no node could be asked; check that they run")
        return diagnosis_document(survey, diagnose(survey))

    return {"at": exact(_now_ms()), **asyncio.run(looked())}


def _client(job: Job) -> NameServerClient:
    return NameServerClient(job.nodes, timeout_s=TIMEOUT_S, dialing=job.dialing)


def _now_ms() -> int:
    return time_ns() // 1_000_000
