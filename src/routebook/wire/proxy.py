r"""HAProxy's PROXY protocol, versions 1 and 2: who really connects.

Version 1 is one line, ``PROXY TCP4 10.1.1.1 10.1.1.2 40000 9876\r\n``; version 2 is binary with a
twelve-byte signature. A connection without either begins with a frame; nobody can tell until
twelve bytes have arrived.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import NamedTuple

from routebook.wire.errors import WireError

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
MAX_LINE = 108
_V2 = Struct(">12sBBH")


class Claim(NamedTuple):
    """``length`` bytes of header; ``source`` None when the proxy speaks for itself."""

    length: int
    source: tuple[str, int] | None


def parse(data: bytes) -> Claim | None:
    """The claim at the start of ``data``, a Claim of length 0 if there is none.

    None until more bytes arrive; raises WireError for a header that is malformed.
    """
    if len(data) < len(SIGNATURE):
        return None
    if data.startswith(SIGNATURE):
        return _parse_v2(data)
    if data.startswith(b"PROXY"):
        return _parse_v1(data)
    return Claim(0, None)


def _parse_v1(data: bytes) -> Claim | None:
    end = data.find(b"\r\n", 0, MAX_LINE)
    if end < 0:
        if len(data) >= MAX_LINE:
            raise WireError("the PROXY line does not end")
        return None
    fields = data[:end].decode("ascii", "replace").split(" ")
    if len(fields) >= 2 and fields[0] == "PROXY" and fields[1] == "UNKNOWN":
        return Claim(end + 2, None)
    if len(fields) != 6 or fields[1] not in ("TCP4", "TCP6"):
        raise WireError("malformed PROXY line")
    try:
        address = ip_address(fields[2])
        ip_address(fields[3])
        ports = [int(port) for port in fields[4:]]
    except ValueError as error:
        raise WireError("malformed PROXY line") from error
    if address.version != int(fields[1][3]) or not all(0 <= port < 65536 for port in ports):
        raise WireError("malformed PROXY line")
    return Claim(end + 2, (str(address), ports[0]))


def _parse_v2(data: bytes) -> Claim | None:
    if len(data) < _V2.size:
        return None
    _, version_command, family, length = _V2.unpack_from(data)
    if version_command >> 4 != 2 or version_command & 15 > 1:
        raise WireError("malformed PROXY header")
    end = _V2.size + length
    if len(data) < end:
        return None
    payload = data[_V2.size : end]
    if version_command & 15 == 0:
        return Claim(end, None)
    if family in (0x11, 0x12):
        size, address_type = 12, IPv4Address
    elif family in (0x21, 0x22):
        size, address_type = 36, IPv6Address  # type: ignore[assignment]
    else:
        return Claim(end, None)
    if length < size:
        raise WireError("malformed PROXY header")
    width = 4 if size == 12 else 16
    source = address_type(payload[:width])
    port = int.from_bytes(payload[2 * width : 2 * width + 2], "big")
    return Claim(end, (str(source), port))
