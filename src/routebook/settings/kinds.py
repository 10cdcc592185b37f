"""Kinds: how the text of a setting is read, and what it may be."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MOST = 2**31 - 1
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True, slots=True)
class Kind:
    """``bounds`` say what a text must be; ``parse`` raises ValueError for any other.

    ``blank_is_default``: no text at all stands for the default.
    """

    bounds: str
    parse: Callable[[str], Any]
    blank_is_default: bool = False
    secret: bool = False

    def read(self, text: str) -> Any:
        """The value; raises ValueError with what it must be."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise ValueError(f"must be {self.bounds}, not {text!r}") from error


def whole_number(low: int = 0, high: int = MOST) -> Kind:
    return Kind(f"a whole number from {low} to {high}", lambda text: _number(text, low, high))


def choice(*choices: str) -> Kind:
    return Kind(f"one of {', '.join(choices)}", lambda text: _one_of(text, choices))


def size_or_nothing(least: int) -> Kind:
    return Kind(
        f"0 or at least {least // 2**20}m, such as 805306368, 768m or 2g",
        lambda text: _size(text, least),
    )


def _number(text: str, low: int, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,10}", text) or not low <= int(text) <= high:
        raise ValueError
    return int(text)


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text.lower() not in choices:
        raise ValueError
    return text.lower()


def _size(text: str, least: int) -> int:
    found = re.fullmatch(r"([0-9]{1,15})([kmgt]?)", text.lower())
    size = int(found[1]) * _UNITS[found[2]] if found else -1
    if size and size < least:
        raise ValueError
    return size


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(
        ipaddress.ip_network(part.strip(), strict=False)
        for part in re.split(r"[;,]", text)
        if part.strip()
    )


def _name(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        raise ValueError
    return text


BOOL = Kind("true or false", lambda text: _one_of(text, ("true", "false")) == "true")
PORT = Kind("a port from 0 to 65535", lambda text: _number(text, 0, 65535))
TEXT = Kind("any text", str)
SECRET = Kind("any text", lambda text: text or None, secret=True)
NAME = Kind("up to 100 letters, digits, dots, dashes, underscores", _name)
ADDRESS = Kind("an address or a host name", str, blank_is_default=True)
FILE = Kind("a file", lambda text: Path(text) if text else None)
PLACE = Kind("a path", Path, blank_is_default=True)
NETWORKS = Kind("networks such as 10.0.0.0/8;127.0.0.1", _networks)
