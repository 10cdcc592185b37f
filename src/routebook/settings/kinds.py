"""Kinds: how the text of a setting is read, and what it may be."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routebook.wire.address import split_address

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

UnitLists = tuple[tuple[str, tuple[str, ...]], ...]
"""Addresses by the name of a unit; "" is for whoever names none."""

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


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in re.split(r"[;,]", text) if part.strip())
    if not all(re.fullmatch(r"[A-Za-z0-9._-]{1,253}", name) for name in names):
        raise ValueError
    return names


def _lists_by_unit(text: str) -> UnitLists:
    lists: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        unit, equals, given = part.rpartition("=")
        addresses = tuple(each.strip() for each in given.split(";") if each.strip())
        if not addresses or bool(equals) != bool(unit) or unit in lists or not _name(unit) == unit:
            raise ValueError
        for address in addresses:
            split_address(address)
        lists[unit] = addresses
    return tuple(lists.items())


def _place_on_the_net(text: str) -> str:
    """A host, with or without a port."""
    if text and not re.fullmatch(
        r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.%]+\](:[0-9]{1,5})?", text
    ):
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
HOSTS = Kind("host names such as ns1.example.com;ns2.example.com", _names)
HOST_AND_PORT = Kind("host or host:port", _place_on_the_net)
NAME_SERVERS = Kind(
    "addresses such as a:9876;b:9876, and for units after a comma: a:9876;b:9876,east=c:9876",
    _lists_by_unit,
)
