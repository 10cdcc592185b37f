"""Addresses as peers write them: ``host:port``, ``[v6]:port``."""


def split_address(text: str) -> tuple[str, int]:
    """Host and port; raises ValueError for anything else."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text[:100]!r} is not host:port")
    return host, int(port)
