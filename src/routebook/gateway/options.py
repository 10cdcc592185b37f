"""GatewayOptions: what a gateway is told when it starts."""

import msgspec

LOOPBACK = "127.0.0.1"


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """``port`` 0 takes a free one. ``name_servers`` are lists by unit, "" the common one.

    ``data_dir`` is the folder of the node whose child the gateway is, "" for one that stands alone.
    ``listen_host`` and ``listen_port`` are where that node listens.
    """

    port: int = 0
    bind: str = LOOPBACK
    address_service_port: int = 0
    address_service_bind: str = LOOPBACK
    advertised_address: str = ""
    listen_host: str = LOOPBACK
    listen_port: int = 0
    name_servers: dict[str, tuple[str, ...]] = {}
    read_token: str | None = None
    admin_token: str | None = None
    open: bool = False
    hosts: tuple[str, ...] = ()
    log_format: str = "text"
    data_dir: str = ""


def encode_options(options: GatewayOptions) -> bytes:
    return msgspec.json.encode(options)


def decode_options(body: bytes) -> GatewayOptions:
    return msgspec.json.decode(body, type=GatewayOptions)
