"""ProductionRoutes: cluster-test mode's look at the production NameServers.

They are found as any RocketMQ client finds them: a fixed list, ``NAMESRV_ADDR``, or the HTTP
address service under the unit name of the production environment.
"""

import logging
import os

from routebook.client.client import NameServerClient
from routebook.client.errors import NameServerError, TopicNotFound
from routebook.client.sources import (
    AddressSource,
    FixedAddresses,
    HttpAddresses,
    address_service_url,
)
from routebook.settings import TestClusterSettings
from routebook.wire.address import Address
from routebook.wire.codes import RequestCode
from routebook.wire.command import Command

logger = logging.getLogger(__name__)


class ProductionRoutes:
    def __init__(self, settings: TestClusterSettings) -> None:
        self._client = NameServerClient(_source(settings))

    async def find(self, request: Command) -> bytes | None:
        """The route production has for the topic of ``request``, in the form it asks for."""
        question = Command(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
            version=request.version,
            ext_fields=request.ext_fields,
        )
        try:
            answer = await self._client.ask(question)
        except TopicNotFound:
            return None
        except NameServerError as error:
            logger.warning("production: %s", error)
            return None
        return answer.command.body

    async def close(self) -> None:
        await self._client.close()


def _source(settings: TestClusterSettings) -> AddressSource:
    text = settings.namesrv_addr or os.environ.get("NAMESRV_ADDR", "")
    if not text:
        return HttpAddresses(
            address_service_url(settings.domain, settings.subgroup, settings.product_env_name)
        )
    addresses = []
    for part in filter(str.strip, text.split(";")):
        try:
            addresses.append(Address.parse(part))
        except ValueError as error:
            # Topics of the test cluster are served all the same.
            logger.warning("production NameServers: %s", error)
    return FixedAddresses(addresses, "the settings")
