"""The table of all endpoints."""

from routebook.gateway import address_service, metrics, page_files, probes
from routebook.gateway.api import table as api
from routebook.gateway.endpoints import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = (
    *probes.ENDPOINTS,
    *metrics.ENDPOINTS,
    *address_service.ENDPOINTS,
    *api.ENDPOINTS,
    *page_files.ENDPOINTS,
)
