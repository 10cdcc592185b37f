"""The gateway as a program: as the child of a node, or for nodes it is told of."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from routebook.gateway import address_service
from routebook.gateway.app import app_of, make_app
from routebook.gateway.link import OwnNode
from routebook.gateway.listening import HttpPort
from routebook.gateway.nodes import Fleet
from routebook.gateway.options import GatewayOptions, decode_options
from routebook.gateway.tracing import Traces
from routebook.settings import SettingsError
from routebook.wire.address import Address

NICER = 5  # than the node: what it answers comes first
Say = Callable[[str], None]


async def run_child(node_socket: int, options: GatewayOptions) -> None:
    """Serve the node at the other end of a socket until it is gone, or until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # Ctrl-C is for the node, whose end is noticed.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    sock = socket.socket(fileno=node_socket)
    sock.setblocking(False)
    node = await OwnNode.over(sock, own_address(options))
    gone = asyncio.ensure_future(node.wait_lost())
    gone.add_done_callback(lambda _: stop.set())
    fleet = Fleet([node], own=True)
    await run_gateway(
        fleet,
        options,
        stop,
        listening=lambda url: _report(listening=url),
        waiting=lambda why: _report(waiting=why),
    )


def child_options() -> GatewayOptions:
    """What the node has written for its child."""
    os.nice(NICER)
    return decode_options(sys.stdin.buffer.read())


def _report(**said: str) -> None:
    """A line for the node."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def own_address(options: GatewayOptions) -> Address:
    """How the node is called here; an address that stands for all there are is nobody's."""
    advertised, port = options.advertised_address, options.listen_port
    if not advertised:
        host = options.listen_host
        return Address("127.0.0.1" if host in ("0.0.0.0", "::", "") else host, port)
    try:
        return Address.parse(advertised)
    except ValueError:
        return Address(advertised.strip("[]"), port)


async def run_gateway(
    fleet: Fleet,
    options: GatewayOptions,
    stop: asyncio.Event,
    *,
    listening: Say,
    waiting: Say | None = None,
) -> None:
    """Serve ``fleet`` until ``stop``.

    ``waiting`` None: a port that is not to be had is an error (SettingsError); else it is waited
    for.
    """
    app = make_app(fleet, options)
    traces = Traces.of(os.environ)
    ports = [HttpPort(traces.around(app), options.bind, options.port)]
    if options.address_service_port:
        only = app_of(app.state.gateway, address_service.ENDPOINTS)
        ports.append(HttpPort(only, options.address_service_bind, options.address_service_port))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(traces)
        await stack.enter_async_context(fleet)
        stack.push_async_callback(app.state.gateway.close)
        for port in ports:
            stack.push_async_exit(port)
        opening = asyncio.create_task(_open(ports, listening, waiting))
        stopping = asyncio.create_task(_until(stop))
        try:
            await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                opening.result()
            await stopping
        finally:
            app.state.gateway.stopping.set()
            for task in (opening, stopping):
                task.cancel()
            await asyncio.gather(opening, stopping, return_exceptions=True)


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


async def _open(ports: Sequence[HttpPort], listening: Say, waiting: Say | None) -> None:
    """All of them; where the first one listens is said."""
    said = [listening, *[_ignore] * (len(ports) - 1)]
    both = zip(ports, said, strict=True)
    await asyncio.gather(*(_opened(port, say, waiting) for port, say in both))


async def _opened(port: HttpPort, listening: Say, waiting: Say | None) -> None:
    if waiting is not None:
        await port.enter_sometime(waiting)
    else:
        try:
            await port.__aenter__()
        except OSError as error:
            raise SettingsError(port.why_not(error)) from error
    listening(port.url)


def _ignore(url: str) -> None:
    """Where the address service listens is in the settings."""
