"""ProductionRoutes: cluster-test mode's look at the production NameServers.

They are found as any RocketMQ client finds them: a fixed list, ``NAMESRV_ADDR``, or the HTTP
address service under the unit name of the production environment. One is asked and kept while
it answers.
"""

import asyncio
import logging
import os
import time
import urllib.request
from http.client import HTTPException

from routebook.client.connection import NameServerConnection
from routebook.settings import TestClusterSettings
from routebook.wire.address import split_address
from routebook.wire.codes import RequestCode, ResponseCode
from routebook.wire.command import Command

logger = logging.getLogger(__name__)

REFRESH_S = 120.0
FAIL_FAST_S = 1.0  # after a failed attempt to connect
RETRY_S = 10.0  # while no address is known
HTTP_TIMEOUT_S = 3.0


class ProductionRoutes:
    def __init__(self, settings: TestClusterSettings) -> None:
        self._settings = settings
        self._addresses: list[str] = []
        self._asked_at = -REFRESH_S
        self._preferred = 0
        self._connection: NameServerConnection | None = None
        self._connected_to = ""
        self._unreachable_until: dict[str, float] = {}
        self._lock = asyncio.Lock()  # one look-up of addresses and one connection for all who ask

    async def find(self, request: Command) -> bytes | None:
        """The route production has for the topic of ``request``, in the form it asks for."""
        question = Command(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
            version=request.version,
            ext_fields=request.ext_fields,
        )
        addresses = await self._find_addresses()
        for _ in addresses:
            preferred = self._preferred
            address = addresses[preferred % len(addresses)]
            try:
                connection = await self._connected(address)
                answer = await connection.request(question)
            except (OSError, TimeoutError, ValueError) as error:
                logger.warning("production NameServer %s: %r", address, error)
                if self._preferred == preferred:  # nobody else has given up on it meanwhile
                    self._preferred += 1
                continue
            return answer.body if answer.code == ResponseCode.SUCCESS else None
        return None

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _connected(self, address: str) -> NameServerConnection:
        async with self._lock:
            connection = self._connection
            if connection is not None:
                if self._connected_to == address and not connection.broken:
                    return connection
                await connection.close()
            self._connection = None
            # Those who asked meanwhile have waited long enough: one attempt is for all of them.
            if time.monotonic() < self._unreachable_until.get(address, 0.0):
                raise ConnectionError("it could not be reached a moment ago")
            connection = NameServerConnection(*split_address(address))
            try:
                await connection.open()
            except (OSError, TimeoutError):
                self._unreachable_until[address] = time.monotonic() + FAIL_FAST_S
                raise
            self._connection, self._connected_to = connection, address
            return connection

    async def _find_addresses(self) -> list[str]:
        fixed = self._settings.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
        if fixed:
            return _split(fixed)
        async with self._lock:
            if time.monotonic() - self._asked_at >= REFRESH_S:
                url = address_url(self._settings)
                try:
                    text = await asyncio.to_thread(_fetch, url)
                except (OSError, ValueError, HTTPException) as error:
                    logger.warning("production NameServers cannot be found at %s: %s", url, error)
                else:
                    self._addresses = _split(text) or self._addresses
                self._asked_at = time.monotonic()
                if not self._addresses:
                    self._asked_at -= REFRESH_S - RETRY_S
            return self._addresses


def address_url(settings: TestClusterSettings) -> str:
    domain = settings.domain if ":" in settings.domain else f"{settings.domain}:8080"
    return f"http://{domain}/rocketmq/{settings.subgroup}-{settings.product_env_name}?nofix=1"


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=HTTP_TIMEOUT_S) as answer:
        return str(answer.readline(64 * 1024).decode("ascii", "replace"))


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.strip().split(";") if part.strip()]
