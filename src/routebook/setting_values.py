"""How the text of a setting is read, by its kind."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse(kind: str, text: str) -> Any:
    """The value; raises ValueError with what it must be."""
    if kind.startswith("choice:"):
        choices = kind.removeprefix("choice:").split("|")
        if text.lower() not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {text!r}")
        return text.lower()
    if kind.startswith("int"):
        low, _, high = kind.removeprefix("int").removeprefix(":").partition("-")
        return _parse_int(text, int(low or 0), int(high or 2**31 - 1))
    return _PARSERS[kind](text)


def _parse_int(text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
        raise ValueError(f"must be a whole number from {low} to {high}, not {text!r}")
    return int(text)


def _parse_size(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,15})([kmgt]?)", text.lower())
    if found is None:
        raise ValueError(f"must be a number of bytes such as 805306368, 768m or 2g, not {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def _parse_port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise ValueError(f"must be a port from 0 to 65535, not {text!r}")
    return int(text)


def _parse_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def _parse_networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(
            ipaddress.ip_network(part.strip(), strict=False)
            for part in re.split(r"[;,]", text)
            if part.strip()
        )
    except ValueError as error:
        raise ValueError(f"must be networks such as 10.0.0.0/8, not {text!r}") from error


_PARSERS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "path": lambda text: Path(text) if text else None,
    "port": _parse_port,
    "size": _parse_size,
    "bool": _parse_bool,
    "networks": _parse_networks,
}
