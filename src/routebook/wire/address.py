"""Addresses as peers write them: ``host:port``, ``[v6]:port``, ``fe80::1%eth0:port``."""

import ipaddress
from dataclasses import dataclass


def split_address(text: str) -> tuple[str, int]:
    """Host and port; raises ValueError for anything else."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text[:100]!r} is not host:port")
    return host, int(port)


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """Where a NameServer listens; a name stands for whatever it resolves to."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Raises ValueError for anything but host:port."""
        return cls(*split_address(text.strip()))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether nobody on another machine can reach what listens there; no name is looked up."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
