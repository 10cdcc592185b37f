"""Probes: whether the node lives, and whether it should be sent clients.

A gateway of several nodes lives, and is ready, while one of them is.
"""

from starlette.requests import Request
from starlette.responses import Response

from routebook.gateway.access import Access
from routebook.gateway.answers import text_answer
from routebook.gateway.endpoints import Endpoint
from routebook.gateway.gateway import Gateway
from routebook.gateway.nodes import SILENT_S
from routebook.gateway.readiness import readiness, silence

NO_STORE = {"Cache-Control": "no-store"}


async def livez(request: Request, gateway: Gateway) -> Response:
    silent = [node for node in gateway.fleet.nodes if node.silent_s > SILENT_S]
    if len(silent) < len(gateway.fleet.nodes):
        return text_answer("ok\n", headers=NO_STORE)
    text = "".join(f"{node.name}: {silence(node)}\n" for node in silent)
    return text_answer(text, status=503, headers=NO_STORE)


async def readyz(request: Request, gateway: Gateway) -> Response:
    """``verbose``: what is known of each node, also when all is well."""
    found = [(node, readiness(node)) for node in gateway.fleet.nodes]
    ready = any(not each.reasons for _, each in found)
    lines: list[str] = []
    if not ready or "verbose" in request.query_params:
        for node, each in found:
            lines += [f"{node.name}: not ready: {reason}" for reason in each.reasons]
            lines += [f"{node.name}: warning: {warning}" for warning in each.warnings]
            if not each.reasons:
                lines.append(f"{node.name}: ready")
    lines.append("ready" if ready else "not ready")
    text = "".join(f"{line}\n" for line in lines)
    return text_answer(text, status=200 if ready else 503, headers=NO_STORE)


ENDPOINTS = (
    Endpoint("GET", "/livez", Access.OPEN, livez, "Whether the node answers."),
    Endpoint("GET", "/readyz", Access.OPEN, readyz, "Whether clients should be sent to the node."),
)
