"""Tell brokers that the smallest id of their group changed (905).

Oneway, each recipient on its own: one that cannot be reached delays nobody, and brokers find
out by polling anyway.
"""

import asyncio
import logging
import ssl

from routebook.events import MinBrokerChanged
from routebook.wire.address import split_address
from routebook.wire.codec import encode_request
from routebook.wire.codes import RequestCode, Version
from routebook.wire.command import FLAG_ONEWAY, Command

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 3.0
MAX_UNDER_WAY = 256


class MinBrokerNotifier:
    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._opaque = 0

    def notify(self, event: MinBrokerChanged) -> None:
        fields: dict[str, str | None] = {
            "minBrokerId": str(event.min_broker_id),
            "minBrokerAddr": event.min_broker_addr,
            "offlineBrokerAddr": event.offline_addr,
            "haBrokerAddr": event.ha_addr,
        }
        for recipient in event.recipients:
            if len(self._tasks) >= MAX_UNDER_WAY:
                logger.warning("not telling %s of a new smallest broker id: too busy", recipient)
                continue
            self._opaque += 1
            command = Command(
                code=RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
                flag=FLAG_ONEWAY,
                opaque=self._opaque,
                version=Version.V5_5_0,
                ext_fields=fields,
            )
            task = asyncio.create_task(self._send(recipient, encode_request(command)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, recipient: str, frame: bytes) -> None:
        try:
            host, port = split_address(recipient)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host, port, ssl=self._context)
                try:
                    writer.write(frame)
                    await writer.drain()
                finally:
                    writer.close()
                    await writer.wait_closed()
        except (OSError, TimeoutError, ValueError) as error:
            logger.warning("cannot tell %s of a new smallest broker id: %s", recipient, error)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
